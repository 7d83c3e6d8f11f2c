"""The provenance of numbers: the configuration that decides them, the code, the packages."""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jbt import __version__
from jbt.acquisition import PANEL_RULES, RULES
from jbt.experiments.declare import NOT_CONFIGURATION, Sweep, source_of
from jbt.simulation import judges
from jbt.simulation.pools import POOLS

VERSIONS = ("jbt", "jax")
"""Packages whose version is part of a configuration, because their numbers may differ."""

PACKAGE = Path(__file__).resolve().parent.parent
LAYOUT = 4
"""Layout of the results, part of a configuration too: 4 is a store of zarr."""
WORK = PACKAGE / "experiments" / "work.py"
SIMULATES = (PACKAGE / "simulation" / "simulate.py", PACKAGE / "runtime.py", WORK)
"""Code that every result goes through, whatever its sweep imports."""
REPORTS = (
    *(file for file in WORK.parent.glob("*.py") if file != WORK),
    *(PACKAGE / "border" / f"{name}.py" for name in ("files", "plots", "report")),
    *(PACKAGE / "stats").glob("*.py"),
)
"""Code that cannot change a number: it shows them."""


def configuration_of(settings: Sweep) -> dict[str, Any]:
    """All that decides the numbers: every field, the seed, the dtype, recorded data, the versions.

    Raises:
      ValueError: recorded data do not exist.
    """
    extra = {f"{p} version": _version(p) for p in VERSIONS}
    extra |= {f"{name} digest": digest for name, digest in settings.digests().items()}
    return {**fields_of(settings), **extra, "results layout": LAYOUT}


def _version(package: str) -> str:
    """The distribution with jbt in it has another name."""
    return __version__ if package == "jbt" else importlib.metadata.version(package)


def fields_of(settings: Sweep) -> dict[str, Any]:
    """The part of the configuration that the user chooses: fields, seed, dtype."""
    names = [f.name for f in dataclasses.fields(settings) if f.name not in NOT_CONFIGURATION]
    fields = {name: getattr(settings, name) for name in names}
    return json.loads(json.dumps(fields))  # tuples to lists, as they will be read back


def packages() -> dict[str, str]:
    """Versions of Python and the packages, for the attributes of results."""
    names = (*VERSIONS, "jaxlib", "numpy", "xarray")
    return {
        "python": platform.python_version(),
        "versions": json.dumps({name: _version(name) for name in names}),
        "git_revision": git_revision(),
    }


def code_of(sweep: type[Sweep]) -> dict[str, str]:
    """A digest of every source file that can change the numbers of a sweep: file -> digest.

    The files are the sweep's own, those of pools and rules registered from outside jbt, and those
    that every result goes through; then the modules they import, directly or not, from their
    packages (or from the folders beside them) and from jbt; and the table that `simulation.judges`
    reads. Other installed packages are not followed. Digests are of syntax trees without
    docstrings, so that comments, docstrings and layout do not count. `REPORTS` is left out: table
    and figure are always made anew.

    Returns:
      Paths relative to the package's parent folder, sorted; empty where the sweep has no source
      file, as in a notebook.
    """
    sweep_file = source_of(sweep)
    if sweep_file is None:
        return {}
    # Pools and rules that a script has registered run too, though no sweep imports them.
    rules = *RULES.values(), *PANEL_RULES.values()
    functions = (*POOLS.values(), *(rule.score for rule in rules))
    registered = {f for f in map(source_of, functions) if f and PACKAGE not in f.parents}
    by_file: dict[Path, str] = {}
    waiting = [sweep_file, *registered, *SIMULATES]
    roots: dict[str, Path] = {}
    for file in (*registered, sweep_file):
        roots |= _roots(file)
    loaded = _loaded()
    while waiting:
        file = waiting.pop()
        if file in by_file or file in REPORTS:
            continue
        seen = _seen.get(file)
        if seen is None or seen.spec is not loaded.get(file):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            seen = _Seen(loaded.get(file), _digest(tree), [*_imported(tree, file, roots)])
            _seen[file] = seen
        by_file[file] = seen.digest
        waiting += seen.imports
    digests = {_name(file): digest for file, digest in by_file.items()}
    if PACKAGE / "simulation" / "judges.py" in by_file:
        table = judges.DATA.relative_to(PACKAGE.parent).as_posix()
        digests[table] = hashlib.sha256(judges.DATA.read_bytes()).hexdigest()[:16]
    return dict(sorted(digests.items()))


class _Seen(NamedTuple):
    """A file as this process first saw it after importing it: that code runs, even if the file has
    changed since."""

    spec: Any
    """The module's spec, new when the module is imported again."""
    digest: str
    imports: list[Path]


_seen: dict[Path, _Seen] = {}


def _loaded() -> dict[Path, Any]:
    """The specs of this process's modules, by file."""
    modules = [m for m in list(sys.modules.values()) if getattr(m, "__file__", None)]
    return {_resolved(m.__file__): m.__spec__ for m in modules}  # type: ignore[arg-type]


@functools.cache
def _resolved(file: str) -> Path:
    """The path without links, cached because there are thousands of modules."""
    return Path(file).resolve()


def _folder(file: Path) -> Path:
    """The folder that holds a file's top-level package, or the file itself if it has none."""
    folder = file.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


def _name(file: Path) -> str:
    """Its path relative to the parent folder of its package."""
    name = file.relative_to(_folder(file)).as_posix()
    # The experiments are jbt.sweeps in a wheel, and sweeps in a checkout.
    return name.removeprefix("jbt/") if name.startswith("jbt/sweeps/") else name


def _roots(file: Path) -> dict[str, Path]:
    """Top-level names whose imports are followed -> their folders: jbt, and the file's package or,
    if it has none, the modules beside it."""
    folder = _folder(file)
    package = file.relative_to(folder).parts[:-1]
    names = package[:1] or [p.stem for p in folder.glob("*.py")]
    return {**dict.fromkeys(names, folder), PACKAGE.name: PACKAGE.parent}


def _imported(tree: ast.AST, file: Path, roots: dict[str, Path]) -> Iterator[Path]:
    """The files of these packages that a module imports, anywhere in its code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(alias.name.split("."), roots)
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".") if node.module else []
            if node.level:
                package = file.parents[node.level - 1].relative_to(_folder(file))
                parts = [*package.parts, *parts]
            for alias in node.names:
                # A submodule, or else a name that the module itself defines or imports.
                submodule = _files([*parts, alias.name], roots)
                yield from submodule or _files(parts, roots)


def _files(parts: list[str], roots: dict[str, Path]) -> list[Path]:
    if parts[0] not in roots:
        return []
    stem = roots[parts[0]].joinpath(*parts)
    return [f for f in (stem.with_name(stem.name + ".py"), stem / "__init__.py") if f.is_file()]


def _digest(tree: ast.AST) -> str:
    return hashlib.sha256(repr(_canonical(tree)).encode()).hexdigest()[:16]


def _canonical(node: Any) -> Any:
    """A syntax tree as nested tuples, without docstrings, positions and empty fields; Python
    versions differ in their empty fields."""
    if isinstance(node, ast.AST):
        fields = ((name, _canonical(value)) for name, value in ast.iter_fields(node))
        return (type(node).__name__, *((name, value) for name, value in fields if value != ()))
    if isinstance(node, list):
        return tuple(_canonical(item) for item in node if not _does_nothing(item))
    return () if node is None else repr(node)


def _does_nothing(statement: Any) -> bool:
    """Whether a statement is a docstring, the string below a field, or `pass`."""
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def git_revision() -> str:
    """The git revision of jbt's checkout, with "-dirty" if files differ; else "unknown"."""

    def git(*command: str) -> str:
        done = subprocess.run(
            ["git", *command], cwd=PACKAGE, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != PACKAGE.parent:
            return "unknown"  # installed somewhere inside another project's checkout
        return git("describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
