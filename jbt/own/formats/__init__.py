"""Read verdicts that other tools wrote into the tables of `jbt.own`.

    from jbt.own import formats

    imported = formats.collect(["annotations.json"])
    imported.write("verdicts")

`jbt import` does the same on the command line. `known` says for each format how its records are
recognised and read; `generic` reads tables of the user's own.
"""

from typing import TYPE_CHECKING

from jbt import _lazy

if TYPE_CHECKING:
    from jbt.own.formats.given import GenericColumns, GivenOrder
    from jbt.own.formats.imported import TABLES, Imported, check_folder, collect
    from jbt.own.formats.known import FORMATS, Name
    from jbt.own.formats.records import Format

__getattr__ = _lazy.getter(__name__, __file__)
__all__ = [
    "FORMATS",
    "TABLES",
    "Format",
    "GenericColumns",
    "GivenOrder",
    "Imported",
    "Name",
    "check_folder",
    "collect",
]


def __dir__() -> list[str]:
    return __all__
