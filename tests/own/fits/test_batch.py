"""Tables -> batch, against a twin in plain loops."""

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from pandas.testing import assert_frame_equal

from jbt import own
from jbt.types import Comparisons, Prior, Rows


def random_tables(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Forty pools of 2 to 5 items, rows interleaved, judges missing here and there."""
    rng = default_rng(seed)
    items, verdicts = [], []
    for p in range(40):
        n = rng.integers(2, 6)
        constant, contents = rng.random() < 0.3, rng.integers(1, 4)
        for i in range(n):
            words = 7 if constant else rng.integers(1, 5)
            content = f"c{rng.integers(contents)}" if seed % 2 else f"c{i}"
            items.append((f"pool {p}", f"item{i}", content, words, rng.integers(1000)))
        one_order, split = rng.random() < 0.3, rng.random() < 0.4
        for judge in "ab":
            for _ in range(rng.choice([0, 1, 3, 12, 30])):
                i, j = rng.permutation(n)[:2]
                if one_order and i > j:
                    i, j = j, i
                if split and (i < 2) != (j < 2):
                    continue
                winner = rng.choice(["first", "second", "tie", "error"])
                count = rng.integers(0, 4)
                verdicts.append((f"pool {p}", f"item{i}", f"item{j}", judge, winner, count))
    columns = ["pool", "first", "second", "judge", "winner", "count"]
    verdicts = pd.DataFrame(verdicts, columns=columns)
    items = pd.DataFrame(items, columns=["pool", "item", "content", "words", "lists"])
    return tuple(table.sample(frac=1, random_state=seed) for table in (verdicts, items))


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


def naive_facts(verdicts, items, covariates):
    """Facts of every pool and judge."""
    numbers = items[list(covariates)].to_numpy(float)
    x = (numbers - numbers.mean(0)) / numbers.std(0)
    twice = items.duplicated(["pool", "content"]).any()
    for pool in items["pool"].unique():
        here = (items["pool"] == pool).to_numpy()
        names, contents = items["item"][here].tolist(), items["content"][here].tolist()
        labels = contents if twice else names
        owner = [list(dict.fromkeys(labels)).index(label) for label in labels]
        for judge in verdicts["judge"].unique():
            of = verdicts[(verdicts["pool"] == pool) & (verdicts["judge"] == judge)]
            failed = of["winner"] == "error"
            shown = of[~failed].groupby(["first", "second"])["count"].sum()
            pairs = [(names.index(a), names.index(b)) for a, b in shown[shown > 0].index]
            yield own.PoolTable(
                pool,
                judge,
                tuple(names),
                int(shown.sum()),
                int(of.loc[failed, "count"].sum()),
                bool((shown > 1).any()),
                tuple(len({*of_pool}) == 1 for of_pool in numbers[here].T),
                True,
                tuple(dict.fromkeys(contents)),
                naive_prior_selected(owner, x[here], pairs),
            )


@pytest.mark.parametrize("covariates", [(), ("words",), ("lists", "words")])
@pytest.mark.parametrize("seed", range(2))
def test_facts_equal_those_of_plain_loops(seed, covariates):
    v, i = random_tables(seed)
    facts = list(naive_facts(v, i, covariates))
    assert own.load(v, i, covariates, position="yes").pools == facts
    assert len({p.prior_selected for p in facts}) >= 3
    only = own.load(v, i, covariates, judge="b", position="yes")
    assert only.pools == [p for p in facts if p.judge == "b"]


def test_large_covariates_keep_their_differences(tables):
    verdict = "pool,first,second,winner\np,a,b,first\np,b,a,first\np,a,c,first\n"
    items = "pool,item,content,when\np,a,A,1e9\np,b,A,1000000001\np,c,B,1000000003\n"
    batch = own.load(*tables(verdict, items), ["when"], standardise=False)
    assert batch.pools[0].prior_selected == ()


@pytest.mark.parametrize(
    ("pairs", "contents", "position", "free"),
    [
        ("ab ba", "ABC", "auto", True),
        ("ab ba", "ABC", "no", False),
        ("ab bc ca", "ABC", "auto", False),  # around a circle, kappa rests on additivity
        ("ab bc ca", "ABC", "yes", True),
        ("ab? ba?", "ABC", "yes", False),  # no order is known
        ("ab? ba", "ABC", "auto", False),
        ("ab bc", "ABA", "auto", True),  # A before B, B before A
        ("ac ab", "ABA", "auto", False),  # A before A is no order
    ],
)
def test_where_kappa_is_estimated(pairs, contents, position, free):
    """`?` marks an unknown order."""
    rows = [(*pair[:2], "unknown" if "?" in pair else "shown") for pair in pairs.split()]
    verdicts = pd.DataFrame(rows, columns=["first", "second", "order"]).assign(winner="tie")
    items = pd.DataFrame({"item": list("abc"), "content": list(contents)})
    (pool,) = own.load(verdicts, items, position=position).pools
    assert pool.position == free


@pytest.mark.heavy
def test_groups_of_pools_give_what_one_shape_gives(monkeypatch):
    """And so do rows instead of counts, with one judge or two, contents shared or not."""
    v, i = random_tables(1)
    whole = own.load(v, i, ["words"])
    monkeypatch.setattr("jbt.own.fits.batch.COMPILING", 0)
    split = own.load(v, i, ["words"])
    assert len(split.groups) > len(whole.groups) == 1
    monkeypatch.setattr("jbt.own.fits.batch.LARGEST_COUNTS", 3)
    rows = own.load(v, i, ["words"])
    assert {type(g.comparisons) for g in rows.groups} == {Comparisons, Rows}
    assert whole.pools == split.pools == rows.pools
    # Of the groups by size some are of rows and some of counts.
    one, other = (own.fit(batch, prior=Prior()) for batch in (whole, rows))
    assert [f.top_k_differs for f in one] == [f.top_k_differs for f in other]
    assert_frame_equal(one.to_frame(), other.to_frame(), rtol=0, atol=1e-7)
    one, other = (own.fit_judges(batch).of("c", "kappa") for batch in (whole, rows))
    assert_frame_equal(one, other, rtol=0, atol=1e-6)
