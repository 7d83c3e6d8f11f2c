"""How the suite runs JAX: two CPU devices, so that sharding is exercised wherever it runs; programs
compiled quickly and once; key reuse checked."""

import gc
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import hypothesis
import jax
import pytest
from support import checks  # noqa: F401 - before jbt is imported
from support.example_tables import ITEMS, VERDICTS

from jbt import cli, runtime

# The same examples in every run; tests marked slow draw others each time.
hypothesis.settings.register_profile("repeatable", derandomize=True)
hypothesis.settings.load_profile("repeatable")

# Most of the suite's time goes into compiling. What costs most of that, and changes no result
# beyond rounding: LLVM's optimisations, its threads, and XLA's own code for fusions (jaxlib 0.9).
QUICK = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
QUICKER = f"{QUICK} --xla_cpu_use_fusion_emitters=false"


def compile_quickly():
    """Unless JBT_TEST_OPTIMISED is set, in this process and in those it starts."""
    own = os.environ.get("XLA_FLAGS", "")
    if os.environ.get("JBT_TEST_OPTIMISED") or QUICK in own:
        return
    for flags in (QUICKER, QUICK):
        quick = {**os.environ, "XLA_FLAGS": f"{own} {flags}"}
        start = [sys.executable, "-c", "import jax; jax.devices()"]
        # A process dies of a flag that its jaxlib does not have.
        if subprocess.run(start, env=quick, capture_output=True).returncode == 0:
            os.environ["XLA_FLAGS"] = quick["XLA_FLAGS"]
            return


def pytest_configure(config):
    """Before any worker starts, and before JAX does."""
    compile_quickly()
    # Compiled programs, shared by the workers and by the processes that tests start.
    if "JBT_CACHE" not in os.environ:
        cache = os.environ["JBT_CACHE"] = tempfile.mkdtemp(prefix="jbt-test-")
        config.add_cleanup(lambda: shutil.rmtree(cache, ignore_errors=True))
    # Nothing here outlives a test: waiting for the disk takes long.
    os.fsync = lambda descriptor: None
    # Tracing makes millions of objects that live: looking through them costs a twentieth.
    gc.set_threshold(200_000, 20, 100)
    # A key drawn from twice gives the same numbers twice: an error, unless a test wants just that.
    jax.config.update("jax_debug_key_reuse", True)
    runtime.start(cpu_devices=2)


@pytest.fixture
def data() -> Path:
    """Folder of real verdicts, named by JBT_DATA."""
    if "JBT_DATA" not in os.environ:
        pytest.skip("JBT_DATA is not set")
    return Path(os.environ["JBT_DATA"]).resolve()


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def outcome(capsys):
    """Give a command, as words or as one line, that ends with this code; returns what it writes to
    standard output and error."""

    def give(*words, code=0):
        words = shlex.split(*words) if len(words) == 1 else map(str, words)
        capsys.readouterr()
        assert cli.main([*words]) == code
        return capsys.readouterr()

    return give


@pytest.fixture
def jbt(outcome):
    """Give a command; returns what it prints, or where it refuses its last line."""

    def give(*words, code=0) -> str:
        shown = outcome(*words, code=code)
        if code != 2:
            return shown.out
        line = shown.err.splitlines()[-1]
        assert line.startswith("error: ")
        return line

    return give


@pytest.fixture
def refused(outcome):
    """Give a command that ends with a line of error, perhaps of more with a hint; returns it."""

    def give(*words, lines=1) -> str:
        said = outcome(*words, code=2).err
        assert said.startswith("error: ")
        assert len(said.splitlines()) == lines
        return said

    return give


@pytest.fixture(scope="session")
def python():
    """Give words to a Python of its own, which does not fail; returns what it prints."""

    def give(*words, cwd=None, **environment) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=cwd,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return give


@pytest.fixture
def same_key_again():
    """Keys may be reused for the length of a test."""
    with jax.debug_key_reuse(False):
        yield


@pytest.fixture
def x64():
    """float64 for the length of a test."""
    with runtime.precision("float64"):
        yield


@pytest.fixture
def tables(tmp_path):
    """Write a verdicts and an items table, default `example_tables`; returns both paths."""

    def write(verdicts: str = VERDICTS, items: str = ITEMS) -> tuple[Path, Path]:
        v, i = tmp_path / "verdicts.csv", tmp_path / "items.csv"
        v.write_text(verdicts, newline="")
        i.write_text(items, newline="")
        return v, i

    return write
