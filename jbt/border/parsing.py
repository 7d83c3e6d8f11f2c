"""Parse command-line options that the fields of a dataclass declare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

from jbt.border import inputs
from jbt.border.terminal import direct_output, visible

T = TypeVar("T")

METAVARS = {int: "INT", str: "STR", Path: "PATH"}

OUTPUTS = ("json", "out")
"""Options that name what a command writes; all other files that options name are read."""


def parse(
    kind: type[T],
    argv: Sequence[str],
    *,
    prog: str,
    default: T | None = None,
    description: str | None = None,
) -> T:
    """Parse options into an instance of a dataclass; a wrong one raises `SystemExit`, explained on
    stderr. The files that it names to be read are noted, see `inputs.note_read`.

    Args:
      kind: the dataclass; a field's docstring is its help.
      default: values of options that are not given; default those of the fields.
      description: printed by --help; default the docstring of the class.
    """
    import tyro

    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def optional(
        info: tyro.constructors.PrimitiveTypeInfo,
    ) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
        """`int | None` takes an INT; None is the value if the option is not given."""
        kinds = get_args(info.type)
        if len(kinds) != 2 or kinds[1] is not NoneType or kinds[0] not in METAVARS:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar=METAVARS[kinds[0]],
            instance_from_str=lambda text: kinds[0](text[0]),
            is_instance=lambda value: value is None or isinstance(value, kinds[0]),
            str_from_instance=lambda value: [str(value)],
        )

    given: dict[str, Any] = {"prog": prog, "description": description}
    if default is not None:
        given["default"] = default
    _check_counts(kind, argv)
    with registry, direct_output():
        if (shown := list(map(visible, argv))) != list(argv):
            tyro.cli(kind, args=shown, **given)  # its messages have arguments as they are
        options = tyro.cli(kind, args=list(argv), **given)
    for name, value in vars(options).items():
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path) and name not in OUTPUTS:
                inputs.note_read(path)
    return options


def _check_counts(kind: Any, argv: Sequence[str]) -> None:
    """Raise `ValueError` for `--pool 10` where --pool takes a word and --pools a count."""
    is_count = {f"--{f.name.replace('_', '-')}": f.type in (int, "int") for f in fields(kind)}
    words = [word for argument in argv for word in argument.split("=", 1)]
    for option, value in pairwise(words):
        takes_word = not is_count.get(option, True)
        if takes_word and is_count.get(f"{option}s") and value.isdecimal():
            raise ValueError(f"{option} takes no number, got {value}: did you mean {option}s?")
