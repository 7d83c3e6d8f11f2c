"""What tables support: each check on tables that lack the one thing."""

import json
import shlex

import numpy as np
import pytest
from numpy.random import default_rng

from jbt import own
from jbt.own.examine.doctor import MATTERS
from jbt.own.tables import limits
from jbt.own.tables.components import chains
from jbt.simulation import memory

BOTH = [(a, b) for a in "wxyz" for b in "wxyz" if a != b]
ONE_WAY = [(a, b) for a, b in BOTH if a < b]
MIXED = [("w", "x"), ("y", "w"), ("y", "x"), ("z", "x"), ("z", "w"), ("y", "z")]
"""In no order that a table may have been written in."""
APART = [("w", "y"), ("y", "w")]
HEADER = "pool,item,content,words\n"
ROWS = [
    f"{p},{item},{content},{words}\n"
    for p in "pq"
    for item, content, words in (("w", "A", 3), ("x", "A", 8), ("y", "B", 5), ("z", "C", 9))
]
ITEMS = HEADER + "".join(ROWS)
WORDS = {"covariates": ("words",)}


def verdicts(pairs=BOTH, *, pools="pq", winners=("first", "second", "second"), more=""):
    rows = [
        f"{p},{a},{b},{winners[i % len(winners)]}" for p in pools for i, (a, b) in enumerate(pairs)
    ]
    return "pool,first,second,winner\n" + "\n".join(rows) + "\n" + more


def unordered(pairs):
    table = verdicts(pairs).replace("\n", ",unknown\n")
    return table.replace("winner,unknown", "winner,order")


@pytest.fixture
def examined(tables):
    def examine(table, listed=ITEMS, **options):
        paths = tables(table, listed)
        typed = {"verdicts": paths[0], "items": paths[1], **options}
        return {c.check: c for c in own.doctor(own.read(**typed), typed).checks}

    return examine


def test_tables_that_support_everything(examined):
    checks = examined(verdicts(), **WORDS)
    assert [name for name, c in checks.items() if not c.ok] == ["anchors"]
    assert own.Checks(list(checks.values())).headline() == []
    assert list(examined(verdicts(winners=("error",)), **WORDS)) == ["verdicts", "errors"]


TWO = ("first", "second")
OFTEN = verdicts(more="p,w,x,first\np,y,z,first\n")
OF_JUDGES = """pool,judge,first,second,winner,count,order
p,a,w,x,first,3,shown
p,a,w,x,second,1,shown
p,b,w,x,first,1,shown
p,c,w,x,second,1,shown
p,a,y,z,first,1,unknown
p,b,z,y,second,1,unknown
"""
BASELINE = "pool,first,second,winner\n" + "".join(
    f"{p},{a},{b},first\n{p},{b},{a},second\n" for p in "pq" for a, b in ("wx", "yz", "wz")
)
ONE_CONTENT = {"listed": ITEMS.replace(",C,", ",A,").replace(",B,", ",A,")}
QUALITIES = "pool,item,quality\np,w,1\np,x,\nq,w,1\nq,x,0\n"
TURNED = verdicts([(a, b) for a, b in BOTH if a > b])
FROM_BELOW = HEADER + "".join(ROWS[::-1])
TO_AND_FRO = [("w", "x"), ("y", "w"), ("z", "w"), ("y", "x"), ("z", "x")]
CASES = [
    ("verdicts", verdicts(pools="p"), {}, "in 1 of 2 pools there are none", None),
    ("errors", verdicts(winners=("first", "second", "error")), {}, "8 errors (33.3%)", None),
    ("ties", verdicts(MIXED, winners=(*TWO, "tie")), {}, "flips turned into ties? Then", "drop"),
    ("judges", OF_JUDGES, {}, "ok: agree on 50% of the ordered pairs", "--judge a"),
    ("order", unordered(ONE_WAY), {}, "12 verdicts have an unknown order", None),
    ("order", verdicts(ONE_WAY, winners=TWO), {}, "the alphabet", "--position no"),
    ("order", verdicts([("w", b) for b in "xyz"] * 2, winners=TWO), {}, "ok: no sign", None),
    ("order", verdicts(TO_AND_FRO, winners=("first",)), {}, "first won every", "--position no"),
    ("order", BASELINE, ONE_CONTENT, "first is 'A' in every verdict", "--position no"),
    ("order", TURNED, {"listed": FROM_BELOW}, "second in the items table", "--position no"),
    # Without an items table its order is that of the verdicts, and no sign.
    ("order", TURNED, {"items": None}, "ok: no sign", None),
    (
        "both_orders",
        verdicts(MIXED),
        {},
        "in all 2 pools no pair was, so kappa is fixed at 0 there (--position auto)",
        None,
    ),
    ("connected", verdicts(APART), {}, "in all 2 pools the comparisons do not", "--merge-pools"),
    ("connected_merged", verdicts(APART), {}, "the pools still form 2 unconnected parts", None),
    (
        "covariate[words]",
        verdicts(),
        {**WORDS, "content": "item"},
        "in all 2 pools words cannot be separated from quality",
        "jbt plan pairing",
    ),
    ("covariates", verdicts(), {}, "the items table has words", "--covariates words"),
    (
        "quality",
        verdicts(["wx"]),
        {"listed": QUALITIES},
        "ok: quality is given for 3 of 4 items",
        "items.csv",
    ),
    (
        "repeats",
        OFTEN,
        {},
        "2 ordered pairs were judged more than once, and the repeats always agree in 1 of them",
        None,
    ),
]


@pytest.mark.parametrize(("check", "table", "options", "found", "command"), CASES)
def test_a_check(check, table, options, found, command, examined):
    one = examined(table, **options)[check]
    assert one.ok == found.startswith("ok: ")
    assert found.removeprefix("ok: ") in one.found
    assert one.command is None if command is None else one.command.endswith(command)
    headline = [f"{check}: {one.found}"] if not one.ok and one.subject in MATTERS else []
    assert own.Checks([one]).headline() == headline


def test_one_comparison_a_pool_is_for_a_leaderboard(examined):
    """No check sends the commonest file elsewhere, or doubts the order of a table whose items are
    listed as the verdicts name them."""
    listed, items = "pool,first,second,winner\n", HEADER
    for i in range(30):
        a, b = i % 3, (i + 1 + i // 3 % 2) % 3
        listed += f"p{i},m{a},m{b},{TWO[i % 7 % 2]}\n"
        items += f"p{i},m{a},m{a},{3 + i % 5}\np{i},m{b},m{b},{4 + i % 3}\n"
    checks = examined(listed, items, **WORDS)
    assert [name for name, check in checks.items() if not check.ok] == ["anchors"]
    commands = {check.command for check in checks.values()} - {None}
    assert commands
    assert all("jbt leaderboard" in command for command in commands)


def test_repeats_of_unknown_order(examined, tables):
    """Said wherever `Batch` says so, whichever item is called the first."""
    unknown = unordered(ONE_WAY)
    assert examined(unknown)["repeats"].ok
    for row, agree in {"p,x,w,second,unknown\n": 1, "p,x,w,tie,unknown\n": 0}.items():
        found = examined(unknown + row)["repeats"].found
        assert found.startswith("1 pairs of unknown order were judged more than once")
        assert f"always agree in {agree} of them" in found
    batch = own.Batch.of(own.read(*tables(unknown + row, ITEMS)))
    assert [pool.repeated for pool in batch.pools] == [True, False]


PLACES = ["output_1,output_2", "Model A,model B"]


@pytest.mark.parametrize("names", [*PLACES, "llama-1,llama-2"])
def test_places_make_no_leaderboard(names, examined):
    one, two = names.split(",")
    table, items = "pool,first,second,winner\n", "pool,item,words\n"
    for i in range(15):
        table += f"q{i},{one},{two},first\nq{i},{two},{one},tie\n"
        items += f"q{i},{one},{i * 3}\nq{i},{two},{i * 2}\n"
    checks = examined(table, items, **WORDS)
    lines = [c.command or "" for c in checks.values()]
    merging = [line for line in lines if "leaderboard" in line or "merge-pools" in line]
    merged = checks["connected_merged"]
    assert bool(merging) == merged.ok == (names not in PLACES)
    assert ("places, not models" in merged.found) == (names in PLACES)


def test_a_pool_that_is_too_large(examined, tables, monkeypatch, jbt):
    """Told by the doctor, refused by whatever would fit it, before memory is taken."""
    monkeypatch.setattr(limits, "SMALL", 0)
    monkeypatch.setattr(memory, "there_is", lambda device: 2**9)
    alone = verdicts(pools="p").replace("p,", "").replace("pool,", "")
    check = examined(alone, items=None)["pool_size"]
    assert not check.ok
    assert "pool 'all' has 4 contents, whose fit needs some 9.54e-07 GiB of memory" in check.found
    error = jbt("leaderboard", "--verdicts", tables(alone)[0], code=2)
    assert error.startswith("error: pool 'all' has 4 contents, whose fit needs")


def test_c_is_identified_where_the_batch_says_so(tables):
    """Components and cycles against the null space of counts, kappa fixed."""
    rng = default_rng(0)
    items, rows = HEADER, "pool,judge,first,second,winner\n"
    for p in range(30):
        n = rng.integers(2, 6)
        for i in range(n):
            items += f"p{p},i{i},c{rng.integers(4)},{rng.integers(1, 4)}\n"
        for _ in range(rng.integers(1, 7)):
            a, b = rng.permutation(n)[:2]
            rows += f"p{p},{'ab'[rng.integers(2)]},i{a},i{b},first\n"
    tables = own.read(*tables(rows, items), covariates=["words"])
    x = tables.items[["words"]].to_numpy()
    found, merged = chains(tables, x), chains(tables, x, merged=True)
    pools = own.Batch.of(tables, ["words"], position="no").pools
    silent = np.array(["c" in pool.prior_selected for pool in pools])
    np.testing.assert_array_equal(found.varies[:, 0], ~silent)
    assert 0 < silent.sum() < len(silent)
    lone = [n for pool, n in zip(pools, found.islands, strict=True) if not pool.n_verdicts]
    assert lone == [len(pool.contents) for pool in pools if not pool.n_verdicts]
    assert merged.islands.tolist() == [1, 1]
    assert merged.varies.all()


def test_json_and_the_commands_to_type(tables, tmp_path, jbt):
    """The commands proposed are whole, as the shell reads them."""
    v, i = tables(verdicts(), ITEMS)
    json_ = tmp_path / "doctor.json"
    jbt("doctor", "--verdicts", v, "--items", i, "--json", json_)
    lines = [record["command"] or "" for record in json.loads(json_.read_text())]
    assert ["jbt", "leaderboard", "--verdicts", str(v)] in [shlex.split(line)[:4] for line in lines]
