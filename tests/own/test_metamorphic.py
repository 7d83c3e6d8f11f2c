"""Tables rewritten so that nothing, or a known thing, changes: every command answers accordingly.

Results are matched by name, and compared to 1e-9 of the larger of 1 and the number. What is drawn
at random depends on the seed and on names, not on places: where items or pools are renamed,
`without_draws` leaves it out.
"""

import json
import zlib
from collections import Counter
from functools import partial

import pandas as pd
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
    "plan labels": ([], 10),
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
    if name == "plan labels":
        for label in result["labels"]:
            label["judges"] = "; ".join(sorted(label["judges"].split("; ")))
            if RENAMED & {*changes}:
                label["first"], label["second"] = sorted((label["first"], label["second"]))
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


# --- import


SHARES = {"first": "1.0", "second": "0.0", "tie": "0.5", "error": "", "[[A]]": "1.0"}
SHARES |= {"[[B]]": "0.0", "C": "0.5", "-1": "", "1": "1.0", "0": "0.0", "0.5": "0.5", "": ""}


def verdicts_of(table):
    """Count of each verdict of a table."""
    counts = Counter()
    for row in table.to_dict("records"):
        cell = row["winner"] if "winner" in row else row["p_first"]
        sides = {row["first"]: "1.0", row["second"]: "0.0"}
        share = sides.get(cell, SHARES.get(cell, cell))
        key = (*(row[column] for column in ("pool", "judge", "first", "second", "order")), share)
        counts[key] += int(row.get("count", 1))
    return +counts


read_rows = partial(pd.read_csv, dtype=str, keep_default_na=False)


def test_rewritten_tables_are_imported_as_they_are(tmp_path):
    """The tables that `jbt import` writes have what the rewritten ones say."""
    rng, base = default_rng(4), world(1, 4)
    for number in range(4):
        changes = draw(rng, [name for name in CHANGES if name != "anchors filled in"], 5)
        other = rewritten(base, changes, rng)
        words = other.items.set_index(["pool", "item"])["words"]
        expected_verdicts = verdicts_of(other.verdicts)
        lengths = {
            f"{side} length": words[list(zip(v["pool"], v[side], strict=True))].to_numpy()
            for v in [other.verdicts]
            for side in ("first", "second")
        }
        path = other.save(tmp_path, "verdicts", other.verdicts.assign(**lengths), rng)
        out = tmp_path / f"out{number}"
        argv = ["--counts", "words", "first length", "second length", "--out", str(out)]
        assert cli.main(["import", str(path), *argv, *other.named()]) == 0, changes
        assert verdicts_of(read_rows(out / "verdicts.csv")) == expected_verdicts, changes
        items = read_rows(out / "items.csv").set_index(["pool", "item"])["words"]
        assert items.astype(float).to_dict() == words.astype(float).to_dict(), changes
