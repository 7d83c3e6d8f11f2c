"""A terminal shows what it would obey; a file or a pipe gets every character."""

import os
import pty
import sys
import tty
from contextlib import contextmanager

import pytest

from jbt.border.exits import exit_code

EVIL = "\x1b[2J\x1b]0;title\x07\rred\x9b31m\u202e\u2028\x7f\x00"
PLAIN = "two\n\tlines, \u00e9\u00a0\u4e2d\U0001f600 \\x1b"
SHOWN = "\\x1b[2J\\x1b]0;title\\x07\\rred\\x9b31m\\u202e\\u2028\\x7f\\x00"


@contextmanager
def outputs(monkeypatch, *, terminal):
    """Standard output and error as one terminal, or as a pipe; `read` says what arrived there."""
    reader, writer = pty.openpty() if terminal else os.pipe()
    if terminal:
        tty.setraw(writer)
    with open(writer, "w", encoding="utf-8", newline="\n") as file, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", file)
        patch.setattr(sys, "stderr", file)

        def read():
            print(end="END", file=file, flush=True)
            arrived = b""
            while not arrived.endswith(b"END"):  # a terminal takes its time
                arrived += os.read(reader, 2**16)
            return arrived.decode().removesuffix("END")

        yield read
    os.close(reader)


def fails():
    print(f"a name is {EVIL}", file=sys.stderr)
    raise ValueError(EVIL)


@pytest.mark.parametrize("terminal", [True, False])
def test_output_notes_and_errors(terminal, monkeypatch):
    text = SHOWN if terminal else EVIL
    with outputs(monkeypatch, terminal=terminal) as read:
        assert exit_code(lambda: print(f"{PLAIN}\n1,{EVIL}")) == 0
        assert read() == f"{PLAIN}\n1,{text}\n"
        assert exit_code(fails) == 2
        assert read() == f"a name is {text}\nerror: {text}\n"
