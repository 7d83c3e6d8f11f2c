"""What `import jbt` gives: names that exist, no function in a module's place, and the old paths."""

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import jbt
from jbt._moved import MOVED

PACKAGES = ["jbt", *(m.name for m in pkgutil.walk_packages(jbt.__path__, "jbt.") if m.ispkg)]


@pytest.mark.parametrize("name", PACKAGES)
def test_no_function_has_the_name_of_a_module_beside_it(name):
    package = importlib.import_module(name)
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    functions = {
        exported
        for exported in dir(package)
        if inspect.isfunction(getattr(package, exported)) and not exported.startswith("_")
    }
    assert not functions & modules


@pytest.mark.parametrize("name", PACKAGES)
def test_what_a_package_exports_exists(name):
    package = importlib.import_module(name)
    for exported in getattr(package, "__all__", []):
        assert hasattr(package, exported)


def test_the_top_level_has_the_functions_and_namespaces_that_a_user_needs():
    for function in ("fit_map", "fit_mle", "laplace", "membership", "simulate", "estimate_bias"):
        assert callable(getattr(jbt, function))
    for namespace in ("pools", "judges", "estimators", "acquisition", "identifiability", "gate"):
        assert inspect.ismodule(getattr(jbt, namespace))
    assert len(jbt.__all__) <= 35


CHECK_OLD_PATHS = """
import importlib
from jbt._moved import MOVED
for old, new in MOVED.items():
    assert importlib.import_module(old) is importlib.import_module(new), old
for package, name in (FUNCTIONS):
    assert callable(getattr(importlib.import_module(package), name)), name
import jbt
assert jbt.types is importlib.import_module("jbt.types")
assert jbt.metrics is importlib.import_module("jbt.kernel.metrics")
assert jbt.laplace is importlib.import_module("jbt.kernel.laplace").laplace
"""


def test_paths_of_version_0_1_lead_to_the_same_modules_and_replace_no_function():
    assert len(MOVED) > 40
    functions = [("jbt", name) for name in ("laplace", "membership", "simulate")]
    functions += [("jbt.own", name) for name in ("gate", "labelling", "leaderboard", "replay")]
    functions += [("jbt.gate", "trial"), ("jbt.twins", "twin"), ("jbt.acquisition", "run")]
    code = CHECK_OLD_PATHS.replace("(FUNCTIONS)", repr(functions))
    subprocess.run([sys.executable, "-c", code], check=True)


def test_import_and_help_load_no_other_package():
    code = "import sys; import jbt; from jbt import cli; cli.main(['--help']); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in ran.stdout.splitlines()[-1].split()}
    assert {"jbt", "sys"} <= loaded
    assert not loaded & {"jax", "numpy", "pandas", "scipy", "xarray", "matplotlib", "tyro"}


def test_fits_load_neither_tables_nor_figures():
    code = "import sys; from jbt import Judge, fit_map, pools, simulate; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in ran.stdout.split()}
    assert "jax" in loaded
    assert not loaded & {"pandas", "xarray", "matplotlib", "tyro", "h5netcdf"}


def test_every_module_is_an_attribute_after_import_alone_and_nothing_else_is():
    code = (
        "import jbt; print(jbt.types.Prior(), jbt.runtime, jbt.model, jbt.theory.map_bias)\n"
        "try: jbt.nothing\nexcept AttributeError as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "module 'jbt' has no attribute 'nothing'" in ran.stdout
