"""The provenance of numbers: the configuration that decides them, the code, the packages."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jbt import __version__
from jbt.experiments.declare import NOT_CONFIGURATION, Sweep

PACKAGE = Path(__file__).resolve().parents[1]
LAYOUT = 4
"""Layout of the results, part of a configuration too: 4 is a store of zarr."""

SIMULATE = (
    *("acquisition/*.py", "estimators/*.py", "gate/*.py", "identifiability/*.py", "kernel/*.py"),
    *("simulation/**/*.py", "stats/*.py", "twins/*.py", "types/*.py"),
    *("own/tables/*.py", "experiments/work.py", "runtime.py", "quick_compilation.py", "data/*.csv"),
)
"""Files of jbt that can change the numbers of a sweep."""


def configuration_of(settings: Sweep) -> dict[str, Any]:
    """All that decides the numbers: every field, the seed, the dtype, recorded data, the versions.

    Raises:
      ValueError: recorded data do not exist.
    """
    extra = {"jbt version": __version__, "jax version": version("jax")}
    extra |= {f"{name} digest": digest for name, digest in settings.digests().items()}
    return {**fields_of(settings), **extra, "results layout": LAYOUT}


def fields_of(settings: Sweep) -> dict[str, Any]:
    """The part of the configuration that the user chooses: fields, seed, dtype."""
    names = [f.name for f in dataclasses.fields(settings) if f.name not in NOT_CONFIGURATION]
    fields = {name: getattr(settings, name) for name in names}
    return json.loads(json.dumps(fields))  # tuples to lists, as they will be read back


def packages() -> dict[str, str]:
    """Versions of Python and the packages, for the attributes of results."""
    versions = {name: version(name) for name in ("jax", "jaxlib", "numpy", "xarray")}
    return {
        "python": platform.python_version(),
        "versions": json.dumps({"jbt": __version__, **versions}),
        "git_revision": git_revision(),
    }


@functools.cache
def code_of(sweep: type[Sweep]) -> dict[str, str]:
    """A digest of every file whose code can change the numbers of a sweep: those of jbt that
    simulate and estimate, the sweep's own and those beside it, whether it imports them or not; of a
    package all. A comment counts. The digests are those of the first call in a process.

    Returns:
      Path, from the folder of jbt or of the sweep -> digest; empty where the sweep has no file, as
      in a notebook.
    """
    home = sweep.home()
    if home is None:
        return {}
    own = ["**/*.py" if (home / "__init__.py").exists() else "*.py"]
    places = {PACKAGE.parent: [f"{PACKAGE.name}/{pattern}" for pattern in SIMULATE], home: own}
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        for folder, patterns in places.items()
        for pattern in patterns
        for file in folder.glob(pattern)
    }


def git_revision() -> str:
    """The git revision of jbt's checkout, with "-dirty" if files differ; else "unknown"."""
    tree = PACKAGE.parent
    git = ["git", f"--git-dir={tree / '.git'}", f"--work-tree={tree}"]
    try:
        describe = [*git, "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(describe, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
