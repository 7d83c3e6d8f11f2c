"""Options: what is likely meant by a wrong one."""

from dataclasses import dataclass

import pytest

from jbt.border.parsing import parse


@dataclass(frozen=True)
class Options:
    """Of a sweep."""

    pool: str = "gaussian"
    """Kind of pool."""
    pools: int = 8
    """Pools (count)."""
    seed: int = 0
    """A seed."""
    seeds: int = 1
    """Seeds (count)."""


@pytest.mark.parametrize("given", [["--pool", "10"], ["--seed", "3", "--pool=10"]])
def test_a_number_of_pools_is_no_kind_of_pool(given):
    with pytest.raises(
        ValueError, match=r"^--pool takes no number, got 10: did you mean --pools\?$"
    ):
        parse(Options, given, prog="jbt sweep x")


def test_what_is_meant_is_taken():
    given = ["--pool", "statement_bank", "--pools=10", "--seed", "3"]
    assert parse(Options, given, prog="jbt sweep x") == Options("statement_bank", 10, 3)
