"""Read verdicts that other tools wrote into the tables of `jbt.own`.

    from jbt.own import formats

    imported = formats.collect(["annotations.json"])
    imported.write("verdicts")

`jbt import` does the same on the command line. A kind of file is a `Format`; a module in `known`
for each family of sources recognises it and reads one of its records.
"""

from jbt.own.formats.collection import collect
from jbt.own.formats.generic import GenericColumns
from jbt.own.formats.imported import TABLES, GivenOrder, Imported, check_folder
from jbt.own.formats.records import Format
from jbt.own.formats.registry import FORMATS, Name, known_formats

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
    "known_formats",
]
