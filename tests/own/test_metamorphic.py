"""Tables rewritten so that nothing, or a known thing, changes: every command answers accordingly.

Results are matched by name, and compared to 1e-9 of the larger of 1 and the number. What is drawn
at random depends on the seed and on names, not on places: where items or pools are renamed,
`without_draws` leaves it out.
"""

import json
import zlib

import pytest
from numpy.random import default_rng
from support.marks import heavy, nightly
from support.metamorphic import (
    CHANGES,
    SIDES,
    differences,
    draw,
    expected,
    matched,
    rewritten,
    world,
)

from jbt import cli

TOLERANCE = 1e-9
LESS_EXACT = {"fit, joint": 1e-4}
"""Commands that miss it: the order of judges moves ends of intervals by up to 3e-5 logits."""
WORDS = ["--covariates", "words"]
SHORT = ["--rules", "top_k_aware", "random", "--seeds", "2", "--budgets", "4", "8"]
COMMANDS = {
    "doctor": ([], 15),
    "judge": ([], 15),
    "gate": ([], 12),
    "plan prompts": ([], 12),
    "leaderboard": ([], 12),
    "leaderboard, Davidson": (["--ties", "davidson"], 12),
    "leaderboard, joint": (["--joint"], 8),
    "identify": ([], 8),
    "identify, joint": (["--joint"], 6),
    "fit": ([], 8),
    "fit, joint": (["--joint"], 6),
    "replay": (SHORT, 6),
}
"""Options of each command beside the covariate, and number of trials, of five changes each."""

RENAMED = {"items renamed", "pools renamed"}
DRAWN = {"replay": {*RENAMED, *SIDES}}
"""Changes after which everything is drawn anew. A replay draws for ordered pairs, as shown."""


def without_draws(name, result, changes):
    """The part of a result that does not depend on draws by the names or the order of items and
    pools."""
    for board in result["leaderboards"] if name.startswith("leaderboard") else ():
        del board["left_out"]  # p-values by draws in the order of the pools
    if name == "gate" and RENAMED & {*changes}:
        del result["judges"]  # of labels drawn by the names of pools
    return result


def run(argv, folder, code=0):
    """The result of a command."""
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    assert cli.main([*argv, "--json", str(result)]) == code
    return json.loads(result.read_text())


def check(name, base, folder, rng, trials):
    """Compare the result of a world with those of the world rewritten in several ways at once."""
    argv = [*name.split(",")[0].split(), *WORDS, *COMMANDS[name][0]]
    allowed = [c for c in CHANGES if c not in DRAWN.get(name, ())]
    result = run([*argv, *base.write(folder / "base", rng)], folder)
    for _ in range(trials):
        changes = draw(rng, allowed, 5)
        other = rewritten(base, changes, rng)
        other_result = run([*argv, *other.write(folder / "other", rng)], folder)
        results = expected(result, other), other_result
        wanted, found = (matched(without_draws(name, r, changes)) for r in results)
        faults = differences(wanted, found, LESS_EXACT.get(name, TOLERANCE))
        assert not faults, (changes, len(faults), faults[:5])


CASES = [
    *((name, 5, 3) for name in ("doctor", "judge")),
    *(heavy(name, 12, 2) for name in ("gate", "leaderboard")),
    *(nightly(name, 12, COMMANDS[name][1]) for name in COMMANDS),
]


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "n_pools", "trials"), CASES)
def test_rewritten_tables_give_the_same_result(name, n_pools, trials, tmp_path):
    rng = default_rng(zlib.crc32(name.encode()))
    check(name, world(0, n_pools), tmp_path, rng, trials)
