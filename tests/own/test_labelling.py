"""What to have labelled of a user's verdicts: which labels, in which order, what they can decide.

The rankings are not fitted but given, as columns of the items table.
"""

import functools
import itertools
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from jbt import own
from jbt.own.gates.labelling import labelling
from jbt.own.gates.rankings import Rankings
from jbt.types import Status

pytestmark = pytest.mark.heavy

SIZE = 6
NAMES = [f"i{i}" for i in range(5)]
NAIVE_OF_FIVE = [2, 0, 4, 1, 3]
NAIVE, TURNED = [3.0, 2, 1, 0], [0.0, 1, 2, 3]
OPTIONS = ["--verdicts", "v.csv", "--items", "items.csv", "--covariates", "words"]
PAIRS, MEMBERS = "pool,better,worse\n", "pool,item,member\n"


def rankings(cls, tables, batch, k, prior=None):
    """Of each judge the same, in place of `Rankings.of`."""
    key = pd.factorize(tables.items["pool"] * 100 + tables.items["content"])[0]
    first = np.unique(key, return_index=True)[1]
    given = pd.read_csv("items.csv").iloc[first]
    naive, aware = (np.tile(given[of], (len(tables.judges), 1)) for of in ("naive", "aware"))
    pool = tables.items["pool"].to_numpy()[first]
    return cls(tables, k, pool, key, naive, aware, np.full(naive.shape, Status.CONVERGED))


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """In a folder of its own, writes pools of these bias-aware rankings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Rankings, "of", classmethod(rankings))

    def write(*aware, naive=NAIVE, contents="abcd", names=NAMES, pool="p"):
        rows = [
            (f"{pool}{g}", *row)
            for g, of in enumerate(aware)
            for row in zip(names, contents, naive, of, strict=False)
        ]
        items = pd.DataFrame(rows, columns=["pool", "item", "content", "naive", "aware"])
        items.assign(words=items.groupby("pool").cumcount()).to_csv("items.csv", index=False)
        others = items[items["item"] != names[0]].assign(first=names[0], winner="first")
        others = others.rename(columns={"item": "second"})
        others[["pool", "first", "second", "winner"]].to_csv("v.csv", index=False)

    write(*[TURNED] * SIZE)
    return write


def read(anchors=None):
    """The tables, and the models of them."""
    if anchors is not None:
        Path("done.csv").write_text(anchors)
    tables = own.read("v.csv", "items.csv", anchors and "done.csv", covariates=["words"])
    return tables, own.Batch.of(tables, ["words"])


def asked(anchors=None, **options):
    """What to have labelled."""
    return labelling(*read(anchors), **options)


@pytest.fixture
def plan(jbt):
    """Plan labels of the tables of `judged`."""
    return functools.partial(jbt, "plan", "labels", *OPTIONS)


# --- which labels


def test_labels_are_of_what_the_rankings_dispute(judged):
    """In random rankings, against a loop over pairs."""
    rng = np.random.default_rng(3)
    aware = rng.permuted(np.tile(np.arange(5), (12, 1)), axis=1)
    judged(*aware, naive=NAIVE_OF_FIVE, contents="abcde")
    disputed = {
        (f"p{g}", f"i{i}", f"i{j}")
        for g, of in enumerate(aware)
        for i, j in itertools.combinations(range(5), 2)
        if (of[i] - of[j]) * (NAIVE_OF_FIVE[i] - NAIVE_OF_FIVE[j]) < 0
    }
    ahead, tables = [], read()
    for seed in range(20):
        table = labelling(*tables, seed=seed).table
        rows = table[["pool", "first", "second"]].to_numpy().tolist()
        assert sorted((p, *sorted(pair)) for p, *pair in rows) == sorted(disputed)
        ahead += [NAIVE_OF_FIVE[int(a[1])] > NAIVE_OF_FIVE[int(b[1])] for _, a, b in rows]
    # Which item is named first says nothing of the rankings.
    assert abs(np.mean(ahead) - 0.5) < 4 * 0.5 / np.sqrt(len(ahead))
    for k in (1, 2):
        members = labelling(*tables, labels="members", k=k).table
        sizes = members["pool"].value_counts()
        assert (sizes % 2 == 0).all()
        assert sizes.max() <= 2 * k
        assert len(list(itertools.groupby(members["pool"]))) == len(sizes)  # a pool at a time
        assert len(labelling(*tables, labels="swaps", k=k).table) == ((sizes // 2) ** 2).sum()


def test_swaps_are_of_the_disputed_pairs(judged):
    """Of two tied at the top of the naive ranking, bias-aware has either alone in its top."""
    judged([0, 2, 1], naive=[1, 1, 0], contents="abc")
    tables = read()
    ranked = Rankings.of(*tables, 1)
    assert {bool(ranked.swapped(seed)[0].any()) for seed in range(8)} == {True, False}
    for seed in range(8):
        with pytest.raises(ValueError, match="no disputed pairs of swapped contents"):
            labelling(*tables, labels="swaps", seed=seed)


# --- which come next


@pytest.mark.parametrize("labels", ["disputed", "swaps", "members"])
def test_what_was_asked_is_left_out_and_the_order_stays(judged, labels):
    answer = "member" if labels == "members" else "better"
    everything = asked(labels=labels, k=2).table
    done = everything[:5].copy()
    done[answer] = "yes" if labels == "members" else ["first", "tie", "second", "first", "first"]
    done.loc[3, answer] = ""  # nobody knows
    more = asked(done.to_csv(index=False), labels=labels, k=2, n=4)
    assert_frame_equal(more.table, everything[5:9].reset_index(drop=True))
    assert (more.n_labels, more.n_listed) == (len(everything), 5)
    everything[answer] = "yes" if labels == "members" else "first"
    with pytest.raises(ValueError, match=r"all \d+ .* are among the anchors already \(--anchors\)"):
        asked(everything.to_csv(index=False), labels=labels, k=2)


def test_what_is_labelled_both_ways_or_by_another_item_of_the_content_was_asked(judged):
    judged(TURNED, naive=[3, 3, 1, 0], contents="aabc")
    n = len(asked().table)
    for rows in ("p0,i0,i2\np0,i2,i0\n", "p0,i1,i2\n"):
        assert len(asked(PAIRS + rows).table) == n - 1
    assert len(asked(PAIRS + "p0,i0,i1\n").table) == n  # of one content
    both = asked(MEMBERS + "p0,i0,yes\np0,i0,no\n", labels="members")
    assert (both.n_listed, len(both.table)) == (1, 1)


def test_labels_of_another_kind_or_top_set_are_refused(judged):
    of_three, members = "pool,item,k,member\np0,i0,3,yes\n", f"{MEMBERS}p0,i0,1\n"
    for anchors, labels, message in (
        (of_three, "members", "members of the top 3, not of the top 1: --k 3"),
        (f"{PAIRS}p0,i0,i1\n", "members", "of members are wanted, but the anchors are labels of p"),
        (members, "disputed", "of pairs are wanted, but the anchors are labels of m"),
        (None, "pairs", "labels must be one of disputed, swaps, members"),
    ):
        with pytest.raises(ValueError, match=message):
            asked(anchors, labels=labels)
    with pytest.raises(own.TableError, match="members of the top 3, not of the top 1: --k 3"):
        own.gate(*read(of_three))
    assert asked(of_three.replace("3", "1"), labels="members").table["k"].eq(1).all()


def test_why_there_are_none_and_of_which_kinds_there_are_some(judged):
    for order, labels, message in (
        ([3, 2, 0, 1], "members", "have the same top 1 .* oppositely .1: --labels disputed"),
        ([3, 2, 0, 0], "disputed", "order no pair oppositely, so no label favours"),  # a tie
        ([np.nan] * 4, "disputed", "no disputed pairs: there are no rankings to compare"),
    ):
        judged(order)
        with pytest.raises(ValueError, match=message):
            asked(labels=labels)


# --- what they can decide


@pytest.mark.parametrize(
    ("turned", "words", "can"),
    [(2, [], "12  10"), (8, ["--n", "3"], "3  cannot enable")],
)
def test_over_pools_every_label_of_a_pair_counts(judged, plan, turned, words, can):
    judged(*[TURNED] * turned, NAIVE)
    assert re.search(f"^all verdicts +{turned} .* {can}$", plan(*words), re.MULTILINE)


def test_members_count_by_matches(judged):
    def counts(*anchors, **options):
        (judge,) = asked(*anchors, labels="members", **options).judges.to_dict("records")
        return tuple(judge[name] for name in ("most_used", "most_in_pool", "n_asked"))

    assert counts(k=2) == (SIZE, 2, 4 * SIZE)
    # Of the next pool only one content, with no other to be matched with.
    assert counts(n=3) == (1, 1, 3)
    done = asked(labels="members", n=3).table.assign(member="no").to_csv(index=False)
    assert counts(done, n=1) == (2, 1, 1)


# --- the command


def test_the_command_of_the_gate_is_printed_in_full(judged, plan, jbt):
    words = ["--labels", "members", "--k", "2", "--seed", "4"]
    line = plan("--no-standardise", *words, "--out", "ask here.csv").splitlines()[-1]
    expected = ["jbt", "gate", *OPTIONS, "--no-standardise", "--anchors", "ask here.csv", *words]
    assert shlex.split(line) == expected
    table = pd.read_csv("ask here.csv").assign(member="yes")
    table.to_csv("ask here.csv", index=False)
    jbt(*shlex.split(line)[1:])  # as it is printed
    assert "n must be at least 1, got 0" in plan("--n", "0", code=2)


FORMULAS = ["=1+1", "@sum", "-5", "+a"]


def test_names_reach_a_spreadsheet_as_text_and_come_back(judged, plan):
    """No cell of the table begins a formula; answered in any form, it names the same items."""
    judged(*[TURNED] * SIZE, names=FORMULAS, pool="+p")
    plan("--out", "ask.csv")
    table = pd.read_csv("ask.csv", dtype=str, keep_default_na=False)
    assert "'+p0" in set(table["pool"])
    assert not any(table[column].str.match(r"[=+\-@]").any() for column in table)
    for better in ("first", "second"):
        for answer in (better, table[better]):
            table.assign(better=answer).to_csv("done.csv", index=False)
            tables = own.read("v.csv", "items.csv", "done.csv")
            names = tables.items["item"].to_numpy()[tables.anchors["better"].to_numpy()]
            np.testing.assert_array_equal(names, table[better].str[1:])
