"""A command ends with one line that gives the reason, never with a traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from support import noise
from support.small_sweep import group, sweep_of

from jbt import cli, own
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
        (PermissionError(13, "Permission denied", "a.csv"), 2, "Permission denied: 'a.csv'"),
        (MemoryError("of 8 EiB"), 2, "error: not enough memory: of 8 EiB"),
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


@pytest.mark.parametrize("error", [TypeError("ours"), jax.errors.JaxRuntimeError("INTERNAL: ours")])
def test_a_fault_of_the_program_keeps_its_traceback(error):
    with pytest.raises(type(error), match="ours"):
        exit_code(failing(error))


def test_codes_of_commands_are_passed_on():
    assert exit_code(lambda: None) == 0
    assert exit_code(lambda: 7) == 7
    with pytest.raises(SystemExit) as end:  # the parser of options, which has said why
        exit_code(failing(SystemExit(2)))
    assert end.value.code == 2


@pytest.fixture
def answer_to_sigint():
    """Sets it for the length of a test. A shell's background jobs ignore it from the start."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda answer: signal.signal(signal.SIGINT, answer)
    signal.signal(signal.SIGINT, before)


def test_ctrl_c(answer_to_sigint, tables, tmp_path, monkeypatch, capsys):
    """SIGINT while a command works; where it is ignored it stays so."""
    answer_to_sigint(signal.SIG_IGN)
    assert exit_code(lambda: signal.raise_signal(signal.SIGINT)) == 0
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    answer_to_sigint(signal.default_int_handler)

    def ctrl_c(*_, **__):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(own, "analyse", ctrl_c)
    monkeypatch.setattr(Simulation, "chunks", ctrl_c)
    assert cli.main(["fit", "--verdicts", str(tables()[0])]) == 130
    shown = capsys.readouterr().err
    assert shown.endswith("\ninterrupted\n")
    assert "Traceback" not in shown
    assert run.main(sweep_of(group("x", [1.0])), ["--out", str(tmp_path)]) == 130
    assert "\ninterrupted; the same command continues" in capsys.readouterr().err


def unwritable(kind):
    """A file for standard output, buffered as it is where it goes to a file."""
    if kind == "full":
        return open("/dev/full", "w")
    read, write = os.pipe()
    os.close(read)
    return open(write, "w")


COMMANDS = {
    "fit": lambda tables, _: cli.main(["fit", "--verdicts", str(tables()[0])]),
    "sweep": lambda _, out: run.main(sweep_of(group("x", [1.0])), ["--out", str(out)]),
    "help": lambda *_: cli.main(["fit", "--help"]),
    "more than is kept until the end": lambda *_: exit_code(
        lambda: [print("x" * 99) for _ in range(1000)] and 0
    ),
}


@needs_full
@pytest.mark.parametrize("kind", ["full", "pipe that nobody reads"])
@pytest.mark.parametrize("name", COMMANDS)
def test_output_that_cannot_be_written(name, kind, tables, tmp_path, monkeypatch, capsys):
    """A reader that has seen enough is no failure."""
    with unwritable(kind) as file, monkeypatch.context() as m:  # closing writes what is left
        m.setattr(sys, "stdout", file)
        try:
            code = COMMANDS[name](tables, tmp_path)
        except SystemExit as end:
            code = end.code
    said = [line for line in capsys.readouterr().err.splitlines(True) if line.startswith("error")]
    assert (code, said) == ((2, [FULL]) if kind == "full" else (0, []))
    if name == "sweep":  # what it wrote to files is there
        assert (tmp_path / "axes" / "table.csv").exists()


@needs_full
def test_the_interpreter_ends_without_a_word_of_its_own():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONUNBUFFERED", None)
    command = [sys.executable, "-m", "jbt.cli", "--version"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment
        )
    assert (done.returncode, done.stderr) == (2, FULL)


def noisy(out, closed="", **environment):
    """A small sweep in a process of its own, with streams closed as a shell does."""
    command = f'exec "$0" "$1" --pools 4 --out "$2" {closed}'
    return subprocess.run(
        ["bash", "-c", command, sys.executable, noise.__file__, out],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


@needs_shell
def test_closed_streams(tmp_path):
    closed = noisy(tmp_path / "quiet", "2>&-")
    assert (closed.returncode, closed.stderr) == (0, "")
    assert "written: " in closed.stdout
    closed = noisy(tmp_path / "none", ">&-")
    assert closed.returncode == 2
    last = closed.stderr.splitlines()[-1]
    assert last == "error: cannot write to standard output: Bad file descriptor"
    assert "Traceback" not in closed.stderr
    for name in ("quiet", "none"):
        assert (tmp_path / name / "noise" / "table.csv").exists()


@needs_shell
def test_a_platform_that_is_not_there(tmp_path):
    done = noisy(tmp_path, JAX_PLATFORMS="nonsense")
    said = "error: JAX finds no device of JAX_PLATFORMS = nonsense; unset it, or cpu\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_too_much_memory_is_asked_for(capsys):
    for command in (
        lambda: np.empty(2**59, np.uint8),
        jax.jit(lambda: jax.numpy.zeros((2**19, 2**20, 2**10), np.uint8) + 1),
    ):
        assert exit_code(command) == 2
        assert capsys.readouterr().err.startswith("error: not enough memory")
