"""What tables support: each check told on tables that lack the one thing."""

import json
import shlex

import numpy as np
import pytest

from jbt import cli, own
from jbt.own.examine.checks import MATTERS, Checks, command_line
from jbt.own.tables import limits
from jbt.own.tables.components import chains
from jbt.own.tables.example import example
from jbt.simulation import memory

BOTH = [(a, b) for a in "wxyz" for b in "wxyz" if a != b]
ITEMS = "pool,item,content,words\n" + "".join(
    f"{p},{item},{content},{words}\n"
    for p in "pq"
    for item, content, words in (("w", "A", 3), ("x", "A", 8), ("y", "B", 5), ("z", "C", 9))
)


def verdicts(pairs=BOTH, *, pools="pq", winners=("first", "second", "second"), more=""):
    rows = [
        f"{p},{a},{b},{winners[i % len(winners)]}" for p in pools for i, (a, b) in enumerate(pairs)
    ]
    return "pool,first,second,winner\n" + "\n".join(rows) + "\n" + more


@pytest.fixture
def examined(tables):
    def examine(table, listed=ITEMS, anchors=None, **options):
        paths = tables(table, listed)
        typed = {"verdicts": paths[0], "items": paths[1], "anchors": anchors, **options}
        read = own.read(**{name: value for name, value in typed.items() if name != "position"})
        return {c.check: c for c in own.doctor(read, typed).checks}

    return examine


def test_tables_that_support_everything(examined):
    checks = examined(verdicts(), covariates=("words",))
    assert [name for name, c in checks.items() if not c.ok] == ["anchors"]
    assert Checks(list(checks.values())).headline() == []
    assert checks["both_orders"].found == "12 of 12 pairs were shown in both orders"
    assert checks["covariate[words]"].command.endswith("--covariates words")


def test_judges_agree_by_verdicts_not_by_rows_or_sides(examined):
    rows = (
        "p,a,w,x,first,3,shown",
        "p,a,w,x,second,1,shown",
        "p,b,w,x,first,1,shown",
        "p,a,y,z,first,1,unknown",
        "p,b,z,y,second,1,unknown",
    )
    table = "\n".join(("pool,judge,first,second,winner,count,order", *rows, ""))
    assert "agree on 100% of the ordered pairs" in examined(table)["judges"].found


def test_many_ties_of_pairs_asked_once_may_be_flips(examined):
    winners = ("first", "second", "tie")
    once = examined(verdicts(MIXED, winners=winners))["ties"]
    assert "were flips turned into ties?" in once.found
    assert "pool, first, second, winner, judge, model version, prompt hash" in once.found
    assert "flips" not in examined(verdicts(winners=winners))["ties"].found  # both orders are there
    one_tie = verdicts(MIXED, winners=("first", "second")).replace(",first\n", ",tie\n", 1)
    few = examined(one_tie)["ties"]
    assert few.found.startswith("1 tie (8.3%)")
    assert "flips" not in few.found


MIXED = [("w", "x"), ("y", "w"), ("y", "x"), ("z", "x"), ("z", "w"), ("y", "z")]
"""In no order that a table may have been written in."""

LACKING = {
    "verdicts": (verdicts(pools="p"), {}, "in 1 of 2 pools there are none", None),
    "errors": (verdicts(winners=("first", "second", "error")), {}, "8 errors (33.3%)", None),
    "ties": (verdicts(winners=("first", "tie", "tie")), {}, "16 ties (66.7%)", "--ties drop"),
    "order": (
        verdicts([(b, a) for a, b in BOTH if a < b])
        .replace("\n", ",unknown\n")
        .replace("winner,unknown", "winner,order"),
        {},
        "12 verdicts have an unknown order",
        None,
    ),
    "both_orders": (
        verdicts(MIXED),
        {},
        "in all 2 pools no pair was: kappa is fixed at 0 there (--position auto)",
        "--position yes",
    ),
    "connected": (
        verdicts([("w", "y"), ("y", "w")]),
        {},
        "in all 2 pools the comparisons do not connect all items",
        "--merge-pools",
    ),
    "connected_merged": (
        verdicts([("w", "y"), ("y", "w")]),
        {},
        "the pools still form 2 components",
        None,
    ),
    "covariate[words]": (
        verdicts(),
        {"covariates": ("words",), "content": "item"},
        "in all 2 pools words cannot be separated from quality",
        "jbt plan pairing",
    ),
    "covariates": (verdicts(), {}, "the items table has words", "--covariates words"),
    "repeats": (
        verdicts(more="p,w,x,first\np,y,z,first\n"),
        {},
        "2 ordered pairs were judged more than once, and the repeats always agree in 1 of them",
        None,
    ),
}


@pytest.mark.parametrize("check", LACKING)
def test_what_tables_lack(check, examined):
    table, options, found, command = LACKING[check]
    missing = examined(table, **options)[check]
    assert not missing.ok
    assert found in missing.found
    assert (missing.command is None) == (command is None)
    assert command is None or command in missing.command
    headline = Checks([missing]).headline()
    assert headline == ([f"{check}: {missing.found}"] if "[" in check or check in MATTERS else [])


@pytest.mark.parametrize(
    ("pairs", "winners", "sign"),
    [
        ([(a, b) for a, b in BOTH if a < b], ("first", "second"), "the alphabet"),
        ([("w", b) for b in "xyz"] * 2, ("first", "second"), None),  # too few for a sign
        ([(a, b) for a, b in BOTH if a in "wx" and b in "yz"], ("second", "tie"), "the alphabet"),
        ([("w", "x"), ("y", "w"), ("z", "w"), ("y", "x"), ("z", "x")], ("first",), "won every"),
    ],
)
def test_signs_that_first_is_not_the_item_shown_first(pairs, winners, sign, examined):
    order = examined(verdicts(pairs, winners=winners))["order"]
    assert order.ok == (sign is None)
    assert sign is None or sign in order.found
    assert sign is None or order.command.endswith("--position no")


def test_items_shown_first_as_the_items_table_has_them(examined):
    pairs = [(a, b) for a, b in BOTH if a > b]
    table = "\n".join([ITEMS.split("\n")[0], *ITEMS.split("\n")[:0:-1]])
    assert "before second in the items table" in examined(verdicts(pairs), table)["order"].found
    # Without an items table its order is that of the verdicts, and no sign.
    assert examined(verdicts(pairs), table, items=None)["order"].ok


def test_a_baseline_named_first_in_every_verdict(examined):
    items = ITEMS.replace(",C,", ",A,").replace(",B,", ",A,")
    contents = "pool,first,second,winner\n" + "".join(
        f"{p},{a},{b},first\n{p},{b},{a},second\n" for p in "pq" for a, b in ("wx", "yz", "wz")
    )
    assert "first is 'A' in every verdict" in examined(contents, items)["order"].found


ONE_WAY = [(a, b) for a, b in BOTH if a < b]
UNKNOWN = verdicts(ONE_WAY).replace("\n", ",unknown\n").replace("winner,unknown", "winner,order")


@pytest.mark.parametrize("position", ["auto", "yes", "no"])
def test_order_and_both_orders_advise_alike(position, examined):
    """Where `first` is in doubt, kappa is to be fixed, and nothing says that it is to be freed."""
    for table in (verdicts(ONE_WAY), UNKNOWN):
        checks = examined(table, position=position)
        assert not checks["order"].ok
        assert not checks["both_orders"].ok
        advised = {checks[name].command for name in ("order", "both_orders")} - {None}
        assert all(line.endswith("--position no") for line in advised)
        assert bool(advised) == (position != "no" and table is not UNKNOWN)
    # In no doubt, the other model may be tried.
    line = examined(verdicts(MIXED), position=position)["both_orders"].command
    other = {"auto": "yes", "yes": "auto", "no": None}[position]
    assert line is None if other is None else line.endswith(f"--position {other}")


def test_repeats_of_unknown_order(examined, tables):
    """Said wherever `Batch` says so, whichever item is called the first."""
    more = {"p,x,w,second,unknown\n": 1, "p,x,w,tie,unknown\n": 0}
    assert examined(UNKNOWN)["repeats"].ok
    for row, agree in more.items():
        check = examined(UNKNOWN + row)["repeats"]
        assert not check.ok
        assert check.found.startswith("1 pairs of unknown order were judged more than once")
        assert f"always agree in {agree} of them" in check.found
        batch = own.Batch.of(own.read(*tables(UNKNOWN + row, ITEMS)))
        assert [pool.repeated for pool in batch.pools] == [True, False]
    both = "p,w,x,first,shown\np,w,x,first,shown\n"
    found = examined(UNKNOWN + "p,x,w,tie,unknown\n" + both)["repeats"].found
    assert found.startswith("1 ordered pairs and 1 pairs of unknown order were judged")


PLACES = [
    ("output_1", "output_2"),
    ("Model A", "model B"),
    ("left", "right"),
    ("chosen", "rejected"),
    ("a", "b"),
]


@pytest.mark.parametrize("names", [*PLACES, ("llama-1", "llama-2"), ("gpt4", "claude")])
def test_places_make_no_leaderboard(names, examined):
    one, two = names
    pools = [f"q{i}" for i in range(9)]
    table = "pool,first,second,winner\n" + "".join(
        f"{p},{one},{two},first\n{p},{two},{one},tie\n" for p in pools
    )
    items = "pool,item,words\n" + "".join(
        f"{p},{name},{i * (2 + (name == one))}\n" for i, p in enumerate(pools) for name in names
    )
    checks = examined(table, items, covariates=("words",))
    lines = [c.command or "" for c in checks.values()]
    merging = [line for line in lines if "leaderboard" in line or "merge-pools" in line]
    assert bool(merging) == (names not in PLACES)
    merged = checks["connected_merged"]
    assert merged.ok == (names not in PLACES)
    assert ("places, not models" in merged.found) == (names in PLACES)
    assert checks["covariate[words]"].command == merging[-1] if merging else "jbt plan pairing"


def test_a_pool_that_is_too_large(examined, tables, monkeypatch, capsys):
    """Told by the doctor, refused by whatever would fit it, before memory is taken."""
    monkeypatch.setattr(limits, "SMALL", 0)
    monkeypatch.setattr(memory, "there_is", lambda device: 2**9)
    alone = verdicts(pools="p").replace("p,", "").replace("pool,", "")
    check = examined(alone, items=None)["pool_size"]
    assert not check.ok
    assert check.found == (
        "4 items a pool: pool 'all' has 4 contents, whose fit needs some 9.54e-07 GiB of memory, "
        "and there are 4.77e-07: name a column of pools (--pool), or one of contents (--content) "
        "that several items share"
    )
    path, _ = tables(alone)
    for command in ("fit", "leaderboard"):
        assert cli.main([command, "--verdicts", str(path)]) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("error: pool 'all' has 4 contents, whose fit needs")
    with pytest.raises(own.TableError, match="name a column of pools"):
        own.load(path)
    monkeypatch.setattr(memory, "there_is", lambda device: None)  # where nothing tells
    assert examined(alone, items=None)["pool_size"].ok


def test_agreement_of_judges_equals_its_twin_over_pairs_of_judges(examined):
    rng = np.random.default_rng(2)
    rows = [
        (judge, *rng.permutation(list("wxyz"))[:2], rng.choice(["first", "second", "tie"]))
        for judge in "abcde"
        for _ in range(9)
    ]
    table = "judge,first,second,winner\n" + "".join(",".join(row) + "\n" for row in rows)
    share = {"first": 1, "second": 0, "tie": 0.5}
    shares = {}
    for judge, first, second, winner in rows:
        shares.setdefault((judge, first, second), []).append(share[winner])
    won = {key: np.sign(np.mean(values) - 0.5) for key, values in shares.items()}
    shared = [won[a] == won[b] for a in won for b in won if a[0] < b[0] and a[1:] == b[1:]]
    found = examined(table, items=None)["judges"].found
    assert f"two judges agree on {np.mean(shared):.0%} of the ordered pairs both saw" in found


def test_several_judges_pools_of_two_anchors_and_quality(examined, tmp_path):
    anchors = tmp_path / "anchors.csv"
    anchors.write_text("pool,better,worse\np,w,x\nq,w,x\n")
    table = "pool,judge,first,second,winner\n" + "".join(
        f"{p},{judge},w,x,{winner}\n" for p in "pq" for judge, winner in (("a", "first"), ("b", p))
    ).replace(",p\n", ",first\n").replace(",q\n", ",second\n")
    items = "pool,item,quality\np,w,1\np,x,\nq,w,1\nq,x,0\n"
    checks = examined(table, items, anchors)
    assert "agree on 50% of the ordered pairs" in checks["judges"].found
    assert checks["anchors"].found == "2 pairs of known order in 2 pools"
    anchors.write_text("pool,item,member\np,w,1\np,x,0\n")
    found = examined(table, items, anchors)["anchors"].found
    assert found == "2 items known to be among the best or not, in 1 pool"
    assert "a pool holds one comparison" in checks["pool_size"].found
    assert checks["pool_size"].command.endswith("--content item --merge-pools")
    assert checks["quality"].found == "quality is given for 3 of 4 items"


def test_no_verdict_at_all(examined):
    checks = examined(verdicts(winners=("error",)), covariates=("words",))
    assert list(checks) == ["verdicts", "errors"]


@pytest.mark.parametrize("seed", range(3))
def test_kappa_and_c_are_told_where_the_batch_says_so(seed, tables):
    """Against `Batch`: islands and c by the null space of counts, kappa by its own rule."""
    rng = np.random.default_rng(seed)
    items, rows = "pool,item,content,words\n", "pool,judge,first,second,winner\n"
    for p in range(30):
        n = rng.integers(2, 6)
        for i in range(n):
            items += f"p{p},i{i},c{rng.integers(4)},{rng.integers(1, 4)}\n"
        for _ in range(rng.integers(1, 7)):
            a, b = rng.permutation(n)[:2]
            rows += f"p{p},{'ab'[rng.integers(2)]},i{a},i{b},first\n"
    tables = own.read(*tables(rows, items), covariates=["words"])
    x = tables.items[["words"]].to_numpy()
    batch = own.Batch.of(tables, ["words"], position="no")
    found = chains(tables, x)
    silent = np.array(["c" in p.prior_selected for p in batch.pools])
    np.testing.assert_array_equal(found.varies[:, 0], ~silent)
    assert 0 < silent.sum() < len(silent)
    apart = [
        len(set(tables.items.loc[tables.items["pool"] == i // 2, "content"])) for i in range(60)
    ]
    assert (
        found.islands[tables.counts["n_verdicts"] == 0]
        == np.array(apart)[tables.counts["n_verdicts"] == 0]
    ).all()
    judged = tables.counts["n_verdicts"].to_numpy() > 0
    free = np.array([p.position for p in own.Batch.of(tables).pools])
    share = {c.check: c.share for c in own.doctor(tables).checks}["both_orders"]
    assert share == pytest.approx(free[judged].mean())
    assert 0 < share < 1
    merged = chains(tables, x, merged=True)
    assert merged.islands.tolist() == [1, 1]
    assert merged.varies.all()


def test_a_command_to_type_is_one_that_the_shell_reads_back():
    line = command_line(
        "fit", {"verdicts": "my verdicts.csv", "covariates": ("a b", "c"), "standardise": False}
    )
    assert shlex.split(line) == [
        *("jbt", "fit", "--verdicts", "my verdicts.csv"),
        *("--covariates", "a b", "c", "--no-standardise"),
    ]


def test_the_command_and_its_files(tables, tmp_path, monkeypatch, capsys):
    v, i = tables(verdicts(), ITEMS)
    json_, out = tmp_path / "doctor.json", tmp_path / "out"
    before = set(tmp_path.iterdir())
    options = ["--verdicts", str(v), "--items", str(i), "--covariates", "words"]
    assert cli.main(["doctor", *options, "--json", str(json_), "--out", str(out)]) == 0
    assert set(tmp_path.iterdir()) - before == {json_, out}
    assert {p.name for p in out.iterdir()} == {"report.md", "table.csv", "figure.png"}
    records = json.loads(json_.read_text())
    assert {tuple(r) for r in records} == {("check", "ok", "found", "command")}
    shown = capsys.readouterr().out
    for record in records:
        assert f"{record['check']}: {record['found']}" in shown
    # The commands proposed are whole: they run.
    line = next(r["command"] for r in records if r["check"] == "connected_merged")
    assert shlex.split(line)[:4] == ["jbt", "leaderboard", "--verdicts", str(v)]


def test_the_example_is_as_its_reader_needs_it(tmp_path, capsys):
    folder = tmp_path / "new" / "example"
    assert cli.main(["example", str(folder), "--json", str(tmp_path / "e.json")]) == 0
    names = ("verdicts.csv", "items.csv", "anchors.csv")
    assert {p.name for p in folder.iterdir()} == set(names)
    commands = json.loads((tmp_path / "e.json").read_text())["commands"]
    assert all(command in capsys.readouterr().out for command in commands[:1])
    tables = own.read(*(folder / name for name in names), covariates=["words"])
    assert len(tables.judges) == 2
    assert tables.counts["n_errors"].sum() == 1
    assert tables.counts["n_ties"].sum() > 10
    missing = {c.check for c in own.doctor(tables, {"covariates": ("words",)}).checks if not c.ok}
    assert {"both_orders", "covariate[words]"} <= missing
    (folder / "items.csv").unlink()
    kept = (folder / "verdicts.csv").read_bytes()
    assert cli.main(["example", str(folder)]) == 2
    assert "verdicts.csv already exists" in capsys.readouterr().err
    assert not (folder / "items.csv").exists()
    assert (folder / "verdicts.csv").read_bytes() == kept
    assert example()["verdicts"].equals(example()["verdicts"])
