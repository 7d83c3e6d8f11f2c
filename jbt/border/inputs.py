"""What a user gives a command: files, and options that the fields of a dataclass declare.

Within a command the files read are noted, as are those that its options name, so that
`jbt.border.files` writes over none of them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

from jbt.border.terminal import direct_output, visible

T = TypeVar("T")

Identity = tuple[int, int]
"""Device and inode of a file, whatever it is called."""

_read: ContextVar[set[Identity] | None] = ContextVar("read", default=None)
"""What the current command reads."""


@contextmanager
def noted() -> Iterator[None]:
    """Note the files that are read within the `with` block."""
    token = _read.set(set())
    try:
        yield
    finally:
        _read.reset(token)


def note_read(file: Path | int) -> None:
    """Note a file that is read, or is to be; a name or a descriptor. Other kinds are no inputs."""
    files = _read.get()
    with suppress(OSError):
        if files is not None and stat.S_ISREG((facts := os.stat(file)).st_mode):
            files.add((facts.st_dev, facts.st_ino))


def is_read(file: Path) -> bool:
    """Whether a file, under any name, is one that the command reads."""
    files = _read.get()
    if not files or not file.exists():
        return False
    facts = file.stat()
    return (facts.st_dev, facts.st_ino) in files


def check_file(path: Path) -> None:
    """Note a file that is to be read.

    Raises:
      OSError: there is none, or it is a pipe or a device.
    """
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise OSError("it is a pipe or a device; write it to a file first")
    note_read(path)


def read_bytes(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
      OSError: it cannot be read, or is a pipe or a device.
    """
    check_file(path)
    return path.read_bytes()


METAVARS = {int: "INT", float: "FLOAT", str: "STR", Path: "PATH"}

OUTPUTS = ("json", "out")
"""Options that name what a command writes; all other files that options name are read."""


def parse(kind: type[T], argv: Sequence[str], **given: Any) -> T:
    """Parse options into an instance of a dataclass; a wrong one raises `SystemExit`, explained on
    stderr. The files that it names to be read are noted, see `note_read`.

    Args:
      kind: the dataclass; a field's docstring is its help.
      given: prog, and if need be default and description, as `tyro.cli` takes them.
    """
    import tyro

    # tyro breaks the lines of a help where its docstring does, since these are indented.
    strings: Any = tyro._strings
    strings.remove_single_line_breaks = lambda text: re.sub(r"\n +", " ", text)
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def optional(info: Any) -> Any:
        """`int | None` takes an INT; None is the value if the option is not given."""
        kinds = get_args(info.type)
        if len(kinds) != 2 or kinds[1] is not NoneType or kinds[0] not in METAVARS:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar=METAVARS[kinds[0]],
            instance_from_str=lambda text: kinds[0](text[0]),
            is_instance=lambda value: value is None or isinstance(value, kinds[0]),
            str_from_instance=lambda value: [str(value or "unset")],
        )

    with registry, direct_output():
        if (shown := list(map(visible, argv))) != list(argv):
            tyro.cli(kind, args=shown, **given)  # its messages have arguments as they are
        options = tyro.cli(kind, args=list(argv), **given)
    for name, value in vars(options).items():
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path) and name not in OUTPUTS:
                note_read(path)
    return options
