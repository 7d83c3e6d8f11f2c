"""Tables -> batch, against a twin in plain loops."""

import csv
from collections import Counter

import jax
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from jbt import own
from jbt.own.fits.batch import _by_size
from jbt.types import Comparisons, Prior, Rows


def test_covariates_are_transformed_and_standardised_over_the_table(tables):
    words = np.log([100, 200, 50, 80, 80, 10, 20])
    batch = own.load(*tables(), ["words"], transform="log")
    x = np.asarray(batch.groups[0].design.covariates)
    assert_allclose(x[0, :, 0], ((words - words.mean()) / words.std())[:3])
    assert batch.covariates == ["log(words)"]
    raw = own.load(*tables(), ["lists", "words"], standardise=False)
    assert_allclose(raw.groups[0].design.covariates[0], [[0, 100], [3, 200], [1, 50]])


def test_float64_whatever_the_setting(tables):
    assert not jax.config.values["jax_enable_x64"]
    batch = own.load(*tables(), ["words"])
    leaves = jax.tree.leaves([(g.design.covariates, g.comparisons) for g in batch.groups])
    assert {leaf.dtype for leaf in leaves} == {np.dtype("float64")}


def random_tables(seed: int) -> tuple[str, str]:
    """Forty pools of 2 to 5 items, rows interleaved, judges missing here and there."""
    rng = default_rng(seed)
    items, verdicts = [], []
    for p in range(40):
        n = rng.integers(2, 6)
        constant, contents = rng.random() < 0.3, rng.integers(1, 4)
        for i in range(n):
            words = 7 if constant else rng.integers(1, 5)
            content = f"c{rng.integers(contents)}" if seed % 2 else f"c{i}"
            items.append(f"pool {p},item{i},{content},{words},{rng.integers(1000)}")
        one_order, split = rng.random() < 0.3, rng.random() < 0.4
        for judge in "ab":
            for _ in range(rng.choice([0, 1, 3, 12, 30])):
                i, j = rng.permutation(n)[:2]
                if one_order and i > j:
                    i, j = j, i
                if split and (i < 2) != (j < 2):
                    continue
                winner = rng.choice(["first", "second", "tie", "error"])
                verdicts.append(f"pool {p},item{i},item{j},{judge},{winner},{rng.integers(0, 4)}")
    items, verdicts = rng.permutation(items), rng.permutation(verdicts)
    return (
        "pool,first,second,judge,winner,count\n" + "\n".join(verdicts) + "\n",
        "pool,item,content,words,lists\n" + "\n".join(items) + "\n",
    )


def identified(rows: np.ndarray, direction: np.ndarray) -> bool:
    """Whether the design matrix determines this combination of parameters: it is in the span of
    the rows."""
    rank = np.linalg.matrix_rank
    return rank(np.vstack([rows, direction]), tol=1e-8) == rank(rows, tol=1e-8)


def naive_prior_selected(owner: list, x: np.ndarray, pairs: list) -> tuple[str, ...]:
    """Of one pool without padding: parameter by parameter, by the rank of the explicit matrix."""
    m, d = max(owner) + 1, x.shape[1]
    unit = np.eye(m + d + 1)

    def logit(i, j, position):
        return (
            unit[owner[i]] - unit[owner[j]] + (x[i] - x[j]) @ unit[m : m + d] + position * unit[-1]
        )

    rows = np.array([logit(i, j, 1) for i, j in pairs]).reshape(-1, m + d + 1)
    asked = {
        "theta": [unit[a] - unit[0] for a in range(m)],
        "c": [unit[m + e] for e in range(d)],
        "kappa": [unit[-1]],
        "phi": [logit(i, 0, 0) for i in range(len(owner))],
    }
    return tuple(name for name, some in asked.items() if not all(identified(rows, v) for v in some))


def naive_batch(verdicts, items, covariates):
    """Facts, mask, covariates, content, shown and wins of every pool and judge, padded."""
    items, verdicts = (list(csv.DictReader(p.read_text().splitlines())) for p in (items, verdicts))
    table = np.array([[float(r[c]) for c in covariates] for r in items])
    x = (table - table.mean(0)) / table.std(0)
    judges = list(dict.fromkeys(r["judge"] for r in verdicts))
    twice = max(Counter((r["pool"], r["content"]) for r in items).values()) > 1
    most = max(Counter(r["pool"] for r in items).values())
    for pool in dict.fromkeys(r["pool"] for r in items):
        where = [i for i, r in enumerate(items) if r["pool"] == pool]
        names = [items[i]["item"] for i in where]
        labels = [items[i]["content" if twice else "item"] for i in where]
        owner = [list(dict.fromkeys(labels)).index(label) for label in labels]
        padding = most - len(names)
        for judge in judges:
            shown, wins = np.zeros((most, most)), np.zeros((most, most))
            n_verdicts = n_errors = 0
            for r in verdicts:
                if (r["pool"], r["judge"]) != (pool, judge):
                    continue
                i, j, count = names.index(r["first"]), names.index(r["second"]), int(r["count"])
                if r["winner"] == "error":
                    n_errors += count
                    continue
                n_verdicts += count
                shown[i, j] += count
                wins[i, j] += count * {"first": 1, "tie": 0.5, "second": 0}[r["winner"]]
            facts = own.PoolTable(
                pool,
                judge,
                tuple(names),
                n_verdicts,
                n_errors,
                bool((shown > 1).any()),
                tuple(len({table[i, d] for i in where}) == 1 for d in range(len(covariates))),
                True,
                tuple(dict.fromkeys(items[i]["content"] for i in where)),
                naive_prior_selected(owner, x[where], list(zip(*np.nonzero(shown), strict=True))),
            )
            mask = [True] * len(names) + [False] * padding
            padded = np.concatenate([x[where], np.zeros((padding, len(covariates)))])
            yield facts, mask, padded, owner + [0] * padding, shown, wins


@pytest.mark.parametrize("covariates", [(), ("words",), ("lists", "words")])
@pytest.mark.parametrize("seed", range(4))
def test_batch_equals_its_twin_in_plain_loops(seed, covariates, tables):
    v, i = tables(*random_tables(seed))
    batch = own.load(v, i, covariates, position="yes")
    facts, mask, x, content, shown, wins = zip(*naive_batch(v, i, covariates), strict=True)
    assert batch.pools == list(facts)
    (group,) = batch.groups
    assert len({p.prior_selected for p in facts}) >= 3
    leaves = jax.device_get((group.design, group.comparisons))
    design, comparisons = jax.tree.map(lambda leaf: leaf[group.row.ravel()], leaves)
    assert_array_equal(design.item_mask, mask)
    assert_allclose(design.covariates, x, rtol=1e-12, atol=1e-12)
    assert_array_equal(comparisons.shown, shown)
    assert_array_equal(comparisons.wins, wins)
    if seed % 2:
        assert_array_equal(design.content, content)
        assert group.design.n_contents == np.max(content) + 1
    else:
        assert batch.groups[0].design.content is None
    only = own.load(v, i, covariates, judge="b", position="yes")
    assert only.pools == [p for p in facts if p.judge == "b"]


def test_large_covariates_keep_their_differences(tables):
    verdict = "pool,first,second,winner\np,a,b,first\np,b,a,first\np,a,c,first\n"
    items = "pool,item,content,when\np,a,A,1e9\np,b,A,1000000001\np,c,B,1000000003\n"
    batch = own.load(*tables(verdict, items), ["when"], standardise=False)
    assert batch.pools[0].prior_selected == ()


def position_of(tables, pairs: str, items: str | None = None, **options) -> list[bool]:
    rows = [f"p,{one}\n" for one in pairs.split()]
    v, i = tables("pool,first,second,winner,order\n" + "".join(rows), items or "")
    batch = own.load(v, None if items is None else i, **options)
    return [p.position for p in batch.pools]


BOTH, ONE = "a,b,tie,shown b,a,tie,shown", "a,b,tie,shown b,c,tie,shown c,a,tie,shown"
TWO_OF_A = "pool,item,content\np,a,A\np,b,B\np,c,A\n"


@pytest.mark.parametrize(
    ("pairs", "items", "position", "free"),
    [
        (BOTH, None, "auto", True),
        (BOTH, None, "no", False),
        (ONE, None, "auto", False),  # around a circle, kappa rests on additivity
        (ONE, None, "yes", True),
        (BOTH.replace("shown", "unknown"), None, "auto", False),
        (BOTH.replace("shown", "unknown"), None, "yes", False),  # no order is known
        (BOTH.replace("shown", "unknown", 1), None, "auto", False),
        (BOTH.replace("shown", "unknown", 1), None, "yes", True),
        ("a,b,tie,shown b,c,tie,shown", TWO_OF_A, "auto", True),  # A before B, B before A
        ("a,c,tie,shown a,b,tie,shown", TWO_OF_A, "auto", False),  # A before A is no order
    ],
)
def test_where_kappa_is_estimated(pairs, items, position, free, tables):
    assert position_of(tables, pairs, items, position=position) == [free]


def test_pools_are_grouped_by_size():
    def groups(*sizes):
        return [some.tolist() for some in _by_size(np.array(sizes))]

    assert groups(2, 5, 3, 4) == [[0, 1, 2, 3]]  # padding is cheaper than one more shape
    assert groups(*[2] * 500, 400, 201) == [[500, 501], list(range(500))]
    assert groups(*[2] * 10, 100) == [list(range(11))]
    assert groups(*[30] * 9, *[1000, 501, 500]) == [[9, 10], [11], list(range(9))]


@pytest.mark.heavy
def test_groups_of_pools_give_what_one_shape_gives(tables, monkeypatch):
    """And so do rows instead of counts, with one judge or two, contents shared or not."""
    v, i = tables(*random_tables(1))
    whole = own.load(v, i, ["words"])
    monkeypatch.setattr("jbt.own.fits.batch.COMPILING", 0)
    split = own.load(v, i, ["words"])
    assert len(split.groups) > len(whole.groups) == 1
    monkeypatch.setattr("jbt.own.fits.batch.LARGEST_COUNTS", 3)
    rows = own.load(v, i, ["words"])
    assert {type(g.comparisons) for g in rows.groups} == {Comparisons, Rows}
    assert whole.pools == split.pools == rows.pools
    # Of the groups by size some are of rows and some of counts.
    each = [own.fit(batch, prior=Prior()) for batch in (whole, rows)]
    for one, other in zip(*each, strict=True):
        assert (one.status, one.top_k_differs) == (other.status, other.top_k_differs)
        ends = ("theta_low", "c_low", "kappa_high") if len(one.ranking) > 1 else ()
        for name in ("theta", "theta_naive", "phi", "c", "kappa", *ends):
            assert_allclose(getattr(one, name), getattr(other, name), atol=1e-7)
        assert [r.content for r in one.ranking] == [r.content for r in other.ranking]
