"""A terminal shows what it would obey; a file or a pipe gets every character."""

import io
import sys

import pytest

from jbt.border.exits import exit_code

EVIL = "\x1b[2J\x1b]0;title\x07\rred\x9b31m\u202e\u2028\x7f\x00"
PLAIN = "two\n\tlines, \u00e9\u00a0\u4e2d\U0001f600 \\x1b"
SHOWN = "\\x1b[2J\\x1b]0;title\\x07\\rred\\x9b31m\\u202e\\u2028\\x7f\\x00"


class Screen(io.StringIO):
    is_terminal = True

    def isatty(self):
        return self.is_terminal


def fails():
    print(f"{PLAIN}\n1,{EVIL}")
    print(f"a name is {EVIL}", file=sys.stderr)
    raise ValueError(EVIL)


@pytest.mark.parametrize("terminal", [True, False])
def test_output_notes_and_errors(terminal, monkeypatch):
    out, err = Screen(), Screen()
    out.is_terminal = err.is_terminal = terminal
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert exit_code(fails) == 2
    text = SHOWN if terminal else EVIL
    assert out.getvalue() == f"{PLAIN}\n1,{text}\n"
    assert err.getvalue() == f"a name is {text}\nerror: {text}\n"
