"""Verdicts as other tools write them, read into the tables of `jbt.own`.

    from jbt.own import formats

    found = formats.collect(["annotations.json"])
    found.write("verdicts")

`jbt import` does the same on the command line. A kind of file is a `Format`; a module here for each
family of sources says how to recognise it and what one of its records says.
"""

from jbt.own.formats.collection import Collection, collect
from jbt.own.formats.generic import Columns
from jbt.own.formats.records import Format, Order
from jbt.own.formats.registry import Name, known

__all__ = ["Collection", "Columns", "Format", "Name", "Order", "collect", "known"]
