"""Parse command-line options that the fields of a dataclass declare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

from jbt.border import inputs

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

    given: dict[str, Any] = {} if default is None else {"default": default}
    with registry:
        options = tyro.cli(kind, args=list(argv), prog=prog, description=description, **given)
    for name, value in vars(options).items():
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path) and name not in OUTPUTS:
                inputs.note_read(path)
    return options
