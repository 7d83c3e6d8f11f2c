"""Every module, function, file and command that the documents name is where they say.

A path that works only because `jbt/_moved.py` redirects it counts as gone."""

import ast
import functools
import importlib
import importlib.util
import inspect
import json
import re

import pytest
from support.pages import DOCS, NOTEBOOKS, REMOVED, ROOT, name_of

from jbt import cli
from jbt._moved import MOVED
from sweeps.report.runs import sweep_names

pytestmark = pytest.mark.documents  # it imports every module that is named

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS, *NOTEBOOKS, ROOT / "jbt/__init__.py"]

TO_BE_MADE = {
    "sweeps.NAME",
    "sweeps.sharpness",
    "sweeps/NAME.py",
    "sweeps/sharpness.py",
    "jbt/commands/ties.py",
    "jbt.sweeps",
    "jbt.toml",
}
"""What the reader makes, a run writes or a wheel has; and a word for any name."""

CODE = re.compile(r"^```(\w*)\n(.*?)^```|`([^`\n]+)`", re.DOTALL | re.MULTILINE)
MODULE = re.compile(r"(?<![\w./-])(?:jbt|sweeps|benchmarks)(?:\.[A-Za-z_]\w*)+(?![\w/])")
FILE = re.compile(r"(?<![\w/.-])(?:jbt|sweeps|tests|benchmarks|docs|notebooks)/[\w./-]*\w")
SHORT = re.compile(r"([a-z_]+)\.([A-Za-z_]\w*)(?:\(.*)?")
COMMAND = re.compile(r"^(?:\S*/)?jbt ([a-z]+)(?: ([a-z]+))?", re.MULTILINE)
SUFFIXES = ("csv", "html", "json", "md", "png", "py", "parquet", "sbatch", "zarr")


@functools.cache
def modules():
    """Full names of the modules of the package, by their last part."""
    names: dict[str, list[str]] = {}
    for path in sorted((ROOT / "jbt").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = parts[:-1] if parts[-1] == "__init__" else parts
        names.setdefault(name[-1], []).append(".".join(name))
    return names


@functools.cache
def exists(name):
    """Whether a dotted name leads somewhere without a redirection."""
    first, *rest = name.split(".")
    if first == "benchmarks":  # some begin to work when they are imported
        place = ROOT.joinpath(first, *rest)
        return place.is_dir() or place.with_suffix(".py").is_file()
    found = importlib.import_module(first)
    try:
        for part in rest:
            found = member(found, part)
    except (AttributeError, ModuleNotFoundError):
        return False
    return True


def member(found, part):
    """What stands under a name in a module or a class."""
    if inspect.ismodule(found):
        path, exported = f"{found.__name__}.{part}", part in getattr(found, "__all__", ())
        if path in MOVED and not exported:
            raise AttributeError(path)
        if hasattr(found, "__path__") and not exported and importlib.util.find_spec(path):
            return importlib.import_module(path)
    elif inspect.isclass(found) and part in found.__annotations__:
        return None
    return getattr(found, part)


def short_exists(module, name):
    """Whether a name like `judges.LINKS` is that of some module of the package; one that begins
    with the name of no module, past or present, is not about a module."""
    if module not in modules():
        return module not in {old.rpartition(".")[2] for old in MOVED}
    return any(exists(f"{full}.{name}") for full in modules()[module])


def imports(code):
    """Dotted names that Python code imports from the repository."""
    for node in ast.walk(ast.parse(code)):
        names = [alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)]
        within = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        dotted = (within + name for name in names)
        yield from (name for name in dotted if name.split(".")[0] in ("jbt", "sweeps"))


def command_exists(command, argument):
    if command == "plan":
        return not argument or f"plan {argument}" in cli.COMMANDS
    return command in cli.COMMANDS


def named(page):
    """What a page names, with whether it exists: name -> bool."""
    if page.suffix == ".ipynb":
        cells = json.loads(page.read_text())["cells"]
        python = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    else:
        text = re.sub(r"\]\([^()\s]*\)", "]", page.read_text())  # links have a test of their own
        python = [m[2] for m in CODE.finditer(text) if m[1] == "python"]
    left_out = TO_BE_MADE | REMOVED
    dotted = {*MODULE.findall(text), *(name for code in python for name in imports(code))}
    found = {name: exists(name) for name in dotted - left_out}
    found |= {name: (ROOT / name).exists() for name in {*FILE.findall(text)} - left_out}
    for _, block, span in CODE.findall(text):
        for command in COMMAND.findall(span or block):
            found[" ".join(("jbt", *command)).strip()] = command_exists(*command)
        short = SHORT.fullmatch(span)
        if short and short[1] not in ("jbt", "sweeps") and short[2] not in SUFFIXES:
            found[span] = short_exists(short[1], short[2])
    return found


def test_what_is_named_exists():
    found = {(name_of(p), name): there for p in PAGES for name, there in named(p).items()}
    assert [name for name, there in found.items() if not there] == []
    assert len(found) > 200


def test_names_that_are_gone_are_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "`jbt.model.logits` `jbt.kernel.model.logits` `jbt/model.py` `jbt/kernel/model.py`\n"
        "`sweep.Settings` `declare.Sweep` `judges.NONE` `jbt frobnicate` `jbt plan gate`\n"
        "```python\nfrom jbt import metrics, pools\n```\n"
        "```sh\n.venv/bin/jbt plan nothing\n```\n"
    )
    there = {"jbt.kernel.model.logits", "jbt/kernel/model.py", "declare.Sweep", "jbt plan gate"}
    there |= {"jbt.pools"}
    gone = {"jbt.model.logits", "jbt/model.py", "sweep.Settings", "judges.NONE", "jbt.metrics"}
    gone |= {"jbt frobnicate", "jbt plan nothing"}
    assert named(page) == dict.fromkeys(there, True) | dict.fromkeys(gone, False)


def test_the_guide_lists_every_experiment():
    guide = (ROOT / "docs" / "guide.md").read_text()
    section = guide.partition("## The experiments")[2].partition("\n#")[0]
    assert sorted(re.findall(r"^\| `(\w+)`", section, re.MULTILINE)) == sweep_names()
