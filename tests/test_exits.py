"""However a command ends, it says so in a line: no traceback."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from small_sweep import group, sweep_of

from jbt import cli, own, planning, study
from jbt.exits import exit_code
from jbt.simulate import Simulation

TESTS = Path(__file__).parent


def failing(error):
    def command():
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("k must be 1"), 2, "error: k must be 1"),
        (PermissionError(13, "Permission denied", "a.csv"), 2, "Permission denied: 'a.csv'"),
        (OSError("no NetCDF"), 2, "error: no NetCDF"),
        (OSError(28, "No space left on device"), 2, "to standard output: No space left on device"),
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


def test_a_reader_that_has_seen_enough_is_no_failure(capsys):
    assert exit_code(failing(BrokenPipeError(32, "Broken pipe"))) == 0
    assert capsys.readouterr().err == ""


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


@pytest.mark.parametrize("name", ["fit", "plan", "sweep"])
def test_ctrl_c(name, tables, tmp_path, monkeypatch, capsys):
    """SIGINT while a command works."""

    def ctrl_c(*_, **__):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(own, "fit", ctrl_c)
    monkeypatch.setattr(planning, "pairing", ctrl_c)
    monkeypatch.setattr(Simulation, "chunks", ctrl_c)
    verdicts, _ = tables()
    if name == "sweep":
        options = ["--out", str(tmp_path)]
        assert study.main(sweep_of(group("x", [1.0])), options) == 130
    else:
        options = {"fit": ["--verdicts", str(verdicts)], "plan": ["pairing"]}[name]
        assert cli.main([name, *options]) == 130
    shown = capsys.readouterr()
    said = [line for line in shown.err.splitlines() if "interrupted" in line]
    assert len(said) == 1
    assert "Traceback" not in shown.err
    if name != "sweep":
        assert shown.err == "interrupted\n"
    else:
        assert "the same command continues" in shown.err


WRITES_NOWHERE = """
import json, os, sys
from small_sweep import group, sweep_of
from jbt import cli, study

verdicts, out, target = sys.argv[1:]
codes = {}

def end(name, main, *argv):
    '''Run a command whose output goes to a full device, or to a pipe that nobody reads.'''
    if target == "pipe":
        read, write = os.pipe()
        os.close(read)
    else:
        write = os.open(target, os.O_WRONLY)
    os.dup2(write, 1)
    try:
        codes[name] = main(list(argv))
    except SystemExit as end:
        codes[name] = end.code

end("fit", cli.main, "fit", "--verdicts", verdicts, "--per-pool")
end("plan", cli.main, "plan", "pairing", "--n-contents", "3", "--pools", "2", "--n-twice", "1")
end("sweep", lambda argv: study.main(sweep_of(group("x", [1.0])), argv), "--out", out)
end("sweeps", cli.main, "sweep")
end("help", cli.main, "fit", "--help")
end("version", cli.main, "--version")
print(json.dumps(codes), file=sys.stderr)
"""


@pytest.mark.parametrize("target", ["/dev/full", "pipe"])
def test_output_that_cannot_be_written(target, tables, tmp_path):
    """Of every command, and of the interpreter as it ends."""
    if target != "pipe" and not Path(target).exists():
        pytest.skip(f"there is no {target}")
    verdicts, _ = tables()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    # Buffered, as output to a file is.
    environment.pop("PYTHONUNBUFFERED", None)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WRITES_NOWHERE, verdicts, tmp_path / "out", target],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    codes = json.loads(done.stderr.splitlines()[-1])
    assert set(codes) == {"fit", "plan", "sweep", "sweeps", "help", "version"}
    said = done.stderr.count("error: cannot write to standard output: No space left on device\n")
    if target == "pipe":
        assert set(codes.values()) == {0}
        assert said == 0
    else:
        assert set(codes.values()) == {2}
        assert said == len(codes)
    # What the sweep wrote to files is there.
    assert (tmp_path / "out" / "axes" / "table.csv").exists()


def test_too_much_memory_is_asked_for(capsys):
    def numpy_does():
        np.empty(2**59, np.uint8)

    def xla_does():
        jax.jit(lambda: jax.numpy.zeros((2**19, 2**20, 2**10), np.uint8) + 1)()

    for command in (numpy_does, xla_does):
        assert exit_code(command) == 2
        assert capsys.readouterr().err.startswith("error: not enough memory")
