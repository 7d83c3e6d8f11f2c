"""Verdicts as other tools write them, read into the tables of `jbt.own`.

    from jbt.own import formats

    found = formats.collect(["annotations.json"])
    found.write("verdicts")

`jbt import` does the same on the command line. A kind of file is a `Format`; a module here for each
family of sources says how to recognise it and what one of its records says.
"""

from jbt.own.formats.collection import collect
from jbt.own.formats.generic import GenericColumns
from jbt.own.formats.imported import TABLES, GivenOrder, Imported, check_folder
from jbt.own.formats.records import Format
from jbt.own.formats.registry import Name, known

__all__ = [
    "TABLES",
    "Format",
    "GenericColumns",
    "GivenOrder",
    "Imported",
    "Name",
    "check_folder",
    "collect",
    "known",
]
