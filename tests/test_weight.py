"""Every room keeps to its budget of code, in tokens without comments and docstrings.

A line that is raised (pyproject.toml, `tool.jbt.budgets`) says in its commit by how much and why.
"""

import ast
import io
import tokenize
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUDGETS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["jbt"]["budgets"]
NOT_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}


def n_tokens(source):
    """Tokens of code: layout, comments and strings that stand alone weigh nothing."""
    alone = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(t.type not in NOT_CODE and t.start[0] not in alone for t in tokens)


def test_what_weighs():
    code = 'def f(x):\n    """A docstring\n    of two lines."""\n\n    return x  # why\n'
    assert n_tokens(code) == len(["def", "f", "(", "x", ")", ":", "return", "x"])


@pytest.mark.heavy
@pytest.mark.parametrize("room", BUDGETS)
def test_a_room_keeps_to_its_budget(room):
    files = list((ROOT / room).rglob("*.py"))
    assert files, f"no room {room}"
    weight = sum(n_tokens(path.read_text(encoding="utf-8")) for path in files)
    assert weight <= BUDGETS[room], f"{room} weighs {weight} tokens, {BUDGETS[room]} are its budget"
