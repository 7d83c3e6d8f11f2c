"""Packages whose names are imported when they are first asked for."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def getter(package: str, file: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package for its modules, and for the names that its file imports under
    TYPE_CHECKING."""
    homes = {
        alias.name: node.module
        for block in ast.parse(Path(file).read_text("utf-8")).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def get(name: str) -> Any:
        module = f"{package}.{name}"
        if name not in homes:
            if name.startswith("_") or importlib.util.find_spec(module) is None:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            return importlib.import_module(module)
        value = pkgutil.resolve_name(f"{homes[name]}.{name}")
        setattr(sys.modules[package], name, value)
        return value

    return get
