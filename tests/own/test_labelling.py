"""What to have labelled of a user's verdicts: which labels, in which order, what they can decide.

The rankings are not fitted but given, as columns of the items table.
"""

import json
import shlex

import numpy as np
import pandas as pd
import pytest

from jbt import cli, own
from jbt.own.gates.labelling import labelling
from jbt.own.gates.rankings import Rankings
from jbt.types import Status

pytestmark = pytest.mark.heavy

SIZE = 6
NAIVE, TURNED = [3.0, 2, 1, 0], [0.0, 1, 2, 3]
OPTIONS = ["--verdicts", "v.csv", "--items", "items.csv", "--covariates", "words"]


def rankings(cls, tables, batch, prior=None):
    """Of each judge the same, in place of `Rankings.of`."""
    key = pd.factorize(tables.items["pool"] * 100 + tables.items["content"])[0]
    first = np.unique(key, return_index=True)[1]
    given = pd.read_csv("items.csv").iloc[first]
    naive, aware = (np.tile(given[of], (len(tables.judges), 1)) for of in ("naive", "aware"))
    pool = tables.items["pool"].to_numpy()[first]
    return cls(tables, pool, key, naive, aware, np.full(naive.shape, Status.CONVERGED))


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """In a folder of its own, writes pools of four with these bias-aware rankings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Rankings, "of", classmethod(rankings))

    def write(*aware, naive=NAIVE, contents="abcd"):
        items, verdicts = ["pool,item,content,words,naive,aware"], ["pool,first,second,winner"]
        for g, of in enumerate(aware):
            each = zip(contents, naive, of, strict=True)
            items += [f"p{g},i{i},{c},{i + 1},{a},{b}" for i, (c, a, b) in enumerate(each)]
            verdicts += [f"p{g},i0,i{i},first" for i in (1, 2, 3)]
        (tmp_path / "items.csv").write_text("\n".join(items) + "\n")
        (tmp_path / "v.csv").write_text("\n".join(verdicts) + "\n")

    write(*[TURNED] * SIZE)
    return write


def asked(anchors=None, **options):
    """What to have labelled."""
    if anchors is not None:
        with open("done.csv", "w") as file:
            file.write(anchors)
    done = None if anchors is None else "done.csv"
    tables = own.read("v.csv", "items.csv", done, covariates=["words"])
    return labelling(tables, own.Batch.of(tables, ["words"]), **options)


def run(capsys, *words):
    code = cli.main(["plan", "labels", *OPTIONS, *words])
    said = capsys.readouterr()
    return code, said.out if code == 0 else said.err


# --- which come next


@pytest.mark.parametrize("labels", ["disputed", "swaps", "members"])
def test_what_was_asked_is_left_out_and_the_order_stays(judged, labels):
    answer = "member" if labels == "members" else "better"
    everything = asked(labels=labels, k=2).table
    done = everything[:5].copy()
    done[answer] = "yes" if labels == "members" else ["first", "tie", "second", "first", "first"]
    done.loc[3, answer] = ""  # nobody knows
    more = asked(done.to_csv(index=False), labels=labels, k=2, n=4)
    expected = everything[5:9].reset_index(drop=True)
    pd.testing.assert_frame_equal(more.table, expected)
    assert (more.n_labels, more.n_listed) == (len(everything), 5)
    (judge,) = more.judges.to_dict("records")
    assert (judge["n_listed"], judge["n_asked"]) == (5, 4)


def test_what_is_labelled_both_ways_or_by_another_item_of_the_content_was_asked(judged):
    judged(TURNED, naive=[3, 3, 1, 0], contents="aabc")
    n = len(asked().table)
    both = "pool,better,worse\np0,i0,i2\np0,i2,i0\n"
    for text in (both, "pool,better,worse\np0,i1,i2\n", "pool,better,worse\np0,i2,i0\n"):
        assert len(asked(text).table) == n - 1
    assert len(asked("pool,better,worse\np0,i0,i1\n").table) == n  # of one content
    both = asked("pool,item,member\np0,i0,yes\np0,i0,no\n", labels="members")
    assert (both.n_labels, both.n_listed, len(both.table)) == (2, 1, 1)


def test_labels_of_another_top_set_are_refused(judged):
    of_three = "pool,item,k,member\np0,i0,3,yes\n"
    wrong = "members of the top 3, not of the top 1: --k 3"
    with pytest.raises(own.TableError, match=wrong):
        asked(of_three, labels="members", k=1)
    tables = own.read("v.csv", "items.csv", "done.csv", covariates=["words"])
    with pytest.raises(own.TableError, match=wrong):
        own.gate(tables, own.Batch.of(tables, ["words"]), k=1)
    of_one = of_three.replace("3", "1")
    assert asked(of_one, labels="members", k=1).table["k"].eq(1).all()


def test_anchors_of_another_kind_are_refused(judged):
    pairs, members = "pool,better,worse\np0,i0,i1\n", "pool,item,member\np0,i0,1\n"
    with pytest.raises(
        own.TableError, match="of members are wanted, but the anchors are labels of pairs"
    ):
        asked(pairs, labels="members")
    for labels in ("disputed", "swaps"):
        with pytest.raises(
            own.TableError, match="of pairs are wanted, but the anchors are labels of mem"
        ):
            asked(members, labels=labels)


def test_nothing_is_left_to_ask(judged):
    done = asked(labels="members").table.assign(member=1).to_csv(index=False)
    with pytest.raises(
        ValueError, match=r"all 12 members are among the anchors already \(--anchors\)"
    ):
        asked(done, labels="members")


def test_more_than_there_are_are_all(judged, capsys):
    pd.testing.assert_frame_equal(asked(n=1000).table, asked().table)
    code, said = run(capsys, "--n", "1000")
    assert code == 0
    assert "\n1000 wanted (--n), but there are no more\n" in said
    for few in ("36", "2"):
        assert "wanted" not in run(capsys, "--n", few)[1]
    code, said = run(capsys, "--n", "0")
    assert (code, said.splitlines()[-1]) == (2, "error: n must be at least 1, got 0")


# --- none at all


def test_why_there_are_none_and_of_which_kinds_there_are_some(judged):
    judged([3, 2, 0, 1])
    for labels in ("members", "swaps"):
        with pytest.raises(ValueError, match="have the same top 1 in every pool; but there") as of:
            asked(labels=labels)
        assert str(of.value).endswith("there are pairs ordered oppositely (1: --labels disputed)")
    for order in ([3, 2, 0, 0], NAIVE):  # a tie favours nobody
        judged(order)
        for labels in ("members", "swaps", "disputed"):
            with pytest.raises(ValueError, match="order no pair oppositely, so no label favours"):
                asked(labels=labels)
    judged([np.nan] * 4)
    with pytest.raises(ValueError, match="no disputed pairs: there are no rankings to compare"):
        asked()


# --- what they can decide


@pytest.mark.parametrize(
    ("turned", "n", "can"),
    [
        (4, None, "4 pools: cannot enable, at least 5 are needed"),
        (5, None, "5 pools: all 5 must be right"),
        (7, None, "7 pools: all 7 must be right"),
        (8, None, "8 pools: 7 must be right"),
        (8, 3, "3 of its 8 pools: cannot enable, at least 5 are needed"),
    ],
)
def test_over_pools_one_label_of_each_counts(judged, capsys, turned, n, can):
    judged(*[TURNED] * turned, NAIVE)
    few = [] if n is None else ["--n", str(n)]
    code, said = run(capsys, *few)
    assert code == 0
    assert f"\nall verdicts: {can}\n" in said
    assert f"in a single pool: at most {1 if n else 6} label{'s' * (not n)}; at least 5" in said
    assert "census" not in said


def test_members_count_by_matches(judged, capsys):
    (judge,) = asked(labels="members", k=2).judges.to_dict("records")
    assert (judge["n_pools"], judge["most_used"], judge["most_in_pool"]) == (SIZE, SIZE, 2)
    # Of the next pool only one content, with no other to be matched with.
    (judge,) = asked(labels="members", n=3).judges.to_dict("records")
    assert (judge["most_used"], judge["most_in_pool"], judge["n_asked"]) == (1, 1, 3)
    done = asked(labels="members", n=3).table.assign(member="no").to_csv(index=False)
    (judge,) = asked(done, labels="members", n=1).judges.to_dict("records")
    assert (judge["most_used"], judge["n_asked"]) == (2, 1)
    code, said = run(capsys, "--labels", "members")
    assert code == 0
    assert "where one match of each (an item from each top k) counts:" in said
    assert "by --rule census, for labels without errors: in a pool once all" in said


def test_of_one_pool_every_label_counts(judged, capsys):
    judged(TURNED)
    (judge,) = asked().judges.to_dict("records")
    assert judge["most_used"] == judge["most_in_pool"] == 6
    code, said = run(capsys)
    assert code == 0
    assert "each label counts:\nall verdicts: 6 labels: all 6 must be right\n\n" in said


# --- the command


def test_a_table_that_is_there_is_not_overwritten(judged, tmp_path, capsys):
    assert run(capsys, "--out", "ask.csv")[0] == 0
    (tmp_path / "ask.csv").write_text("answers")
    code, said = run(capsys, "--out", "ask.csv", "--n", "1")
    assert (code, said.count("\n")) == (2, 1)
    assert "cannot write ask.csv: it exists" in said
    assert (tmp_path / "ask.csv").read_text() == "answers"
    assert run(capsys, "--out", "ask.csv", "--overwrite")[0] == 0
    assert len(pd.read_csv("ask.csv")) == 6 * SIZE
    assert run(capsys, "--out", "/dev/null")[0] == 0
    (tmp_path / "done.csv").write_text("pool,better,worse\np0,i0,i1\n")
    code, said = run(capsys, "--out", "done.csv", "--anchors", "done.csv", "--overwrite")
    assert (code, said.count("\n")) == (2, 1)
    assert "cannot write done.csv: this command reads it" in said


def test_the_command_of_the_gate_is_printed_in_full(judged, tmp_path, capsys):
    words = ["--labels", "members", "--k", "2", "--no-standardise", "--seed", "4"]
    _, said = run(capsys, *words, "--out", "ask here.csv", "--json", "p.json")
    line = said.splitlines()[-1]
    expected = ["jbt", "gate", *OPTIONS, "--no-standardise", "--anchors", "ask here.csv"]
    expected += ["--labels", "members", "--k", "2", "--seed", "4"]
    assert shlex.split(line) == expected
    assert json.loads((tmp_path / "p.json").read_text())["gate"] == line
    table = pd.read_csv("ask here.csv").assign(member="yes")
    table.to_csv("ask here.csv", index=False)
    assert cli.main(shlex.split(line)[1:]) == 0  # as it is printed
    capsys.readouterr()

    table[:2].to_csv("done.csv", index=False)
    _, said = run(capsys, *words, "--anchors", "done.csv", "--out", "next.csv")
    assert "\n2 left out, because done.csv lists them\n" in said
    assert "\nFILE: the rows of done.csv, then these\njbt gate" in said
    assert "--anchors FILE" in said.splitlines()[-1]
    _, said = run(capsys)
    assert said.splitlines()[-2] == "FILE: these labels, filled in"
    assert said.splitlines()[-1].endswith("--anchors FILE --labels disputed --k 1")


def test_the_annotator_is_told_what_the_question_is(judged, capsys):
    members = ["--labels", "members"]
    assert "yes if the item is the best of its pool, else no;" in run(capsys, *members)[1]
    assert "one of the 2 best of its pool," in run(capsys, *members, "--k", "2")[1]
    assert "the name of the better one; leave" in run(capsys)[1]
    judged(*[[0.0, 0, 1, 2]] * 2, naive=[3, 3, 1, 0], contents="aabc")
    said = run(capsys, *members)[1]
    assert "yes if the item's content is the best of the 3 contents of its pool, else no" in said
    assert "judging contents: items of one content count as one" in run(capsys)[1]


FORMULAS = ["=1+1", "@sum", "-5", "+a"]


def test_names_reach_a_spreadsheet_as_text_and_come_back(judged, tmp_path, capsys):
    """No cell of the table begins a formula; answered, in whatever form, it names the same items
    as a table that nothing was written to."""
    judged(*[TURNED] * SIZE)
    for file in ("items.csv", "v.csv"):
        text = (tmp_path / file).read_text()
        for i, name in enumerate(FORMULAS):
            text = text.replace(f"i{i},", f"{name},")
        (tmp_path / file).write_text(text.replace("p0,", "+p0,"))
    assert run(capsys, "--out", "ask.csv", "--labels", "members", "--k", "2")[0] == 0
    asked = pd.read_csv("ask.csv", dtype=str, keep_default_na=False)
    assert set(asked["item"]) == {f"'{name}" for name in FORMULAS}
    assert "'+p0" in set(asked["pool"])
    assert not any(asked[column].str.match(r"[=+\-@]").any() for column in asked)
    asked.assign(member="yes").to_csv("done.csv", index=False)
    read = own.read("v.csv", "items.csv", "done.csv")
    assert len(read.members) == 4 * SIZE
    assert set(read.items["item"][read.members["item"]]) == set(FORMULAS)

    assert run(capsys, "--out", "ask.csv", "--overwrite")[0] == 0
    asked = pd.read_csv("ask.csv", dtype=str, keep_default_na=False)
    for better in ("first", "second"):
        for answer in (better, asked[better], asked[better].str[1:]):
            asked.assign(better=answer).to_csv("done.csv", index=False)
            read = own.read("v.csv", "items.csv", "done.csv")
            items = read.items["item"].to_numpy()
            names = items[read.anchors["better"].to_numpy()]
            np.testing.assert_array_equal(names, asked[better].str[1:])
