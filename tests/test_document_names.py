"""Every module, function, file and command that the documents name is where they say.

A path that works only because `jbt/_moved.py` redirects it counts as gone."""

import ast
import functools
import json
import re
from pathlib import Path

import pytest

from jbt import cli
from jbt._moved import MOVED
from jbt.commands.sweep import NO_SWEEPS

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS, *NOTEBOOKS, ROOT / "jbt/__init__.py"]

TO_BE_MADE = {
    "sweeps.NAME",
    "sweeps.sharpness",
    "sweeps/NAME.py",
    "sweeps/sharpness.py",
    "jbt/commands/ties.py",
    "jbt.sweeps",
}
"""What the reader makes, a run writes or a wheel has; and a word for any name."""
REMOVED = {"sweeps.rule_choices", "sweeps.several_judges"}
"""Sweeps of release 0.1.0 whose numbers are kept; their pages say so."""

CODE = re.compile(r"^```(\w*)\n(.*?)^```|`([^`\n]+)`", re.DOTALL | re.MULTILINE)
MODULE = re.compile(r"(?<![\w./-])(?:jbt|sweeps|benchmarks)(?:\.[A-Za-z_]\w*)+(?![\w/])")
FILE = re.compile(r"(?<![\w/.-])(?:jbt|sweeps|tests|benchmarks|docs|notebooks)/[\w./-]*\w")
SHORT = re.compile(r"([a-z_]+)\.([A-Za-z_]\w*)(?:\(.*)?")
COMMAND = re.compile(r"^(?:\S*/)?jbt ([a-z]+)(?: ([a-z]+))?", re.MULTILINE)
SUFFIXES = ("csv", "json", "md", "nc", "png", "py", "parquet", "sbatch", "sha256")


@functools.cache
def modules():
    """Full names of the modules of the package, by their last part."""
    names: dict[str, list[str]] = {}
    for path in sorted((ROOT / "jbt").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = parts[:-1] if parts[-1] == "__init__" else parts
        names.setdefault(name[-1], []).append(".".join(name))
    return names


def file_of(module):
    """The file of a module of the repository, or None."""
    path = ROOT.joinpath(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.exists()), None)


@functools.cache
def bound(file):
    """Names at the top of a module: of an import where it comes from, of a class its body, else
    None."""
    names = {}
    for node in statements(ast.parse(file.read_text()).body):
        match node:
            case ast.ImportFrom(module=str(module), level=0):
                names |= {a.asname or a.name: f"{module}.{a.name}" for a in node.names}
            case ast.ClassDef() | ast.FunctionDef():
                names[node.name] = node
            case ast.Assign() | ast.AnnAssign():
                targets = getattr(node, "targets", [getattr(node, "target", None)])
                names |= {n.id: None for t in targets for n in ast.walk(t) if hasattr(n, "id")}
    return names


def statements(body):
    """Statements of a module, those behind an `if` among them."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from statements([*node.body, *node.orelse])


def exists(name):
    """Whether a dotted name leads somewhere without a redirection. Nothing is imported, which would
    take seconds."""
    parts = name.split(".")
    n = max(n for n in range(1, len(parts) + 1) if file_of(".".join(parts[:n])))
    rest = parts[n:]
    if not rest:
        return True
    names = bound(file_of(".".join(parts[:n])))
    if rest[0] not in names or (len(rest) > 1 and ".".join(parts[: n + 2]) in MOVED):
        return False
    target = names[rest[0]]
    if isinstance(target, str):
        ours = file_of(target.split(".")[0])
        return not ours or exists(".".join((target, *rest[1:])))
    if isinstance(target, ast.ClassDef) and len(rest) > 1 and not target.bases:
        return any(rest[1] in (getattr(m, "name", ""), field(m)) for m in target.body)
    return True


def field(node):
    """The name of a field that a class declares."""
    return getattr(getattr(node, "target", None), "id", "")


def short_exists(module, name):
    """Whether a name like `judges.LINKS` is that of some module of the package; one that begins
    with the name of no module, past or present, is not about a module."""
    if module not in modules():
        return module not in {old.rpartition(".")[2] for old in MOVED}
    return any(exists(f"{full}.{name}") for full in modules()[module])


def imports(code):
    """Dotted names that Python code imports from the repository."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def command_exists(command, argument):
    if command == "plan":
        return not argument or f"plan {argument}" in cli.COMMANDS
    return command in cli.COMMANDS


def named(page):
    """What a page names, with whether it exists: [(name, bool)]."""
    found = {}
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text())["cells"]
        python = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    else:
        text = re.sub(r"\]\([^()\s]*\)", "]", page.read_text())  # links have a test of their own
        python = [m[2] for m in CODE.finditer(text) if m[1] == "python"]
    for code in python:
        ours = (name for name in imports(code) if name.split(".")[0] in ("jbt", "sweeps"))
        found |= {name: exists(name) for name in ours}
    found |= {name: exists(name) for name in MODULE.findall(text)}
    found |= {name: (ROOT / name).exists() for name in FILE.findall(text)}
    for _, block, span in (m.groups() for m in CODE.finditer(text)):
        for command in COMMAND.findall(span or block):
            found[" ".join(("jbt", *command)).strip()] = command_exists(*command)
        short = span and SHORT.fullmatch(span)
        if short and short[1] not in ("jbt", "sweeps") and short[2] not in SUFFIXES:
            found[span] = short_exists(short[1], short[2])
    return {name: there for name, there in found.items() if name not in TO_BE_MADE | REMOVED}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_named_exists(page):
    assert [name for name, there in named(page).items() if not there] == []


def test_names_that_are_gone_are_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "`jbt.model.logits` `jbt.kernel.model.logits` `jbt/model.py` `jbt/kernel/model.py`\n"
        "`sweep.Settings` `declare.Sweep` `judges.NONE` `jbt frobnicate` `jbt plan gate`\n"
        "```python\nfrom jbt import metrics, pools\n```\n"
        "```sh\n.venv/bin/jbt plan nothing\n```\n"
    )
    there = {"jbt.kernel.model.logits", "jbt/kernel/model.py", "declare.Sweep", "jbt plan gate"}
    assert {name for name, here in named(page).items() if here} == there | {"jbt.pools"}
    gone = {"jbt.model.logits", "jbt/model.py", "sweep.Settings", "judges.NONE", "jbt.metrics"}
    gone |= {"jbt frobnicate", "jbt plan nothing"}
    assert {name for name, here in named(page).items() if not here} == gone


def test_the_guide_lists_every_experiment():
    guide = (ROOT / "docs" / "guide.md").read_text()
    section = guide.partition("## The experiments")[2].partition("\n#")[0]
    files = (path for path in (ROOT / "sweeps").iterdir() if path.suffix in ("", ".py"))
    names = {path.stem for path in files if not path.name.startswith(("_", "."))}
    listed = re.findall(r"^\| `(\w+)`", section, re.MULTILINE)
    assert sorted(listed) == sorted(names - set(NO_SWEEPS))


def test_the_documents_name_many_things():
    assert sum(len(named(page)) for page in PAGES) > 200
