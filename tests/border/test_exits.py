"""A command ends with one line that gives the reason, never with a traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from support import noise
from support.small_sweep import group, sweep_of

from jbt.border.exits import exit_code
from jbt.experiments import run
from jbt.simulation.simulate import Simulation

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
FULL = "error: cannot write to standard output: No space left on device\n"
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
needs_shell = pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")


def failing(error):
    def command():
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("k must be 1"), 2, "error: k must be 1"),
        (
            jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 8 TiB\ndetails"),
            2,
            "error: not enough memory: RESOURCE_EXHAUSTED: 8 TiB",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_each_failure_is_a_line_and_a_code(error, code, line, capsys):
    assert exit_code(failing(error)) == code
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 1
    assert line in shown


def test_a_fault_of_the_program_keeps_its_traceback():
    with pytest.raises(TypeError, match="ours"):
        exit_code(failing(TypeError("ours")))


@pytest.fixture
def answer_to_sigint():
    """Sets it for the length of a test. A shell's background jobs ignore it from the start."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda answer: signal.signal(signal.SIGINT, answer)
    signal.signal(signal.SIGINT, before)


def test_ctrl_c(answer_to_sigint, tmp_path, monkeypatch, capsys):
    """SIGINT while a command works; where it is ignored it stays so."""
    answer_to_sigint(signal.SIG_IGN)
    assert exit_code(lambda: signal.raise_signal(signal.SIGINT)) == 0
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    answer_to_sigint(signal.default_int_handler)

    def ctrl_c(*_, **__):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Simulation, "chunks", ctrl_c)
    assert run.main(sweep_of(group("x", [1.0])), ["--out", str(tmp_path)]) == 130
    assert "\ninterrupted; the same command continues" in capsys.readouterr().err


@needs_full
@pytest.mark.parametrize("kind", ["full", "pipe that nobody reads"])
def test_output_that_cannot_be_written(kind, tmp_path, monkeypatch, capsys):
    """A reader that has seen enough is no failure."""
    target = "/dev/full"
    if kind != "full":
        read, target = os.pipe()
        os.close(read)
    with open(target, "w") as file, monkeypatch.context() as m:  # closing writes what is left
        m.setattr(sys, "stdout", file)
        code = run.main(sweep_of(group("x", [1.0])), ["--out", str(tmp_path)])
    said = [line for line in capsys.readouterr().err.splitlines(True) if line.startswith("error")]
    assert (code, said) == ((2, [FULL]) if kind == "full" else (0, []))
    assert (tmp_path / "axes" / "table.csv").exists()


@needs_shell
def test_closed_streams_and_a_platform_that_is_not_there(tmp_path):
    """In processes of their own, with streams closed as a shell does."""

    def noisy(closed="", **environment):
        command = f'exec "$0" "$1" --pools 4 --out "$2" {closed}'
        done = subprocess.run(
            ["bash", "-c", command, sys.executable, noise.__file__, tmp_path],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )
        return done.returncode, done.stderr

    assert noisy(JAX_PLATFORMS="nonsense")[1].startswith("error: JAX finds no device of JAX_PLAT")
    code, said = noisy(">&-")
    assert (code, "Traceback" in said) == (2, False)
    assert (tmp_path / "noise" / "table.csv").exists()
    assert noisy("2>&-") == (0, "")
