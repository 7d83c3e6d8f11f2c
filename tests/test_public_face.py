"""What `import jbt` gives: names that exist, no function in a module's place."""

import importlib
import inspect
import pkgutil

import pytest

import jbt

PACKAGES = ["jbt", *(m.name for m in pkgutil.walk_packages(jbt.__path__, "jbt.") if m.ispkg)]


@pytest.mark.parametrize("name", PACKAGES)
def test_what_a_package_exports_exists_and_no_function_has_the_name_of_a_module(name):
    package = importlib.import_module(name)
    for exported in getattr(package, "__all__", []):
        assert hasattr(package, exported)
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    functions = {n for n, _ in inspect.getmembers(package, inspect.isfunction) if n[0] != "_"}
    assert not functions & modules


def test_what_is_imported_is_what_is_needed(python):
    """By `import jbt` and --help no other package, for a fit neither tables nor figures; every
    module is then an attribute, and nothing else is."""
    *_, helped, fitted, _, missing = python(
        "-c",
        """
import sys, jbt
from jbt import cli
def show_loaded():
    print(*{name.partition(".")[0] for name in sys.modules})
cli.main(["--help"])
show_loaded()
from jbt import Judge, fit_map, pools, simulate
show_loaded()
print(jbt.types.Prior(), jbt.runtime, jbt.kernel, jbt.judges.LINKS)
try: jbt.nothing
except AttributeError as error: print(error)
""",
    ).splitlines()
    tables = {"pandas", "xarray", "matplotlib", "tyro", "zarr"}
    assert not {"jax", "numpy", "scipy", *tables} & set(helped.split())
    assert "jax" in fitted.split()
    assert not tables & set(fitted.split())
    assert "module 'jbt' has no attribute 'nothing'" in missing


def test_help_of_a_command_loads_neither_jax_nor_pandas(python):
    """It is shown at once: of all commands but those whose options are an experiment's."""
    *_, loaded = python(
        "-c",
        """
import sys
from contextlib import suppress
from jbt import cli
from jbt.commands import COMMANDS
for command, module in COMMANDS.items():
    if "planning" not in module and command != "sweep":
        with suppress(SystemExit):
            cli.main([*command.split(), "--help"])
print([name for name in ("jax", "pandas") if name in sys.modules])
""",
    ).splitlines()
    assert loaded == "[]"
