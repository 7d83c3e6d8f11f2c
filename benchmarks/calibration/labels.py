"""What rests on trusted labels: `jbt gate --rule sign`, `jbt leaderboard --beside ppi`, and the
shares of `jbt judge`."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pandas as pd
from numpy.random import Generator
from scipy.special import expit
from scipy.stats import hypergeom, norm

from benchmarks.calibration import (
    cells_of,
    claim,
    correlated,
    grid,
    kept,
    ordered_pairs,
    parts,
    said,
    tables_of,
    verdicts,
)
from jbt import own
from jbt.gate import betting, critical_values, p_value
from jbt.own.leaderboards.prediction_powered import labelled_win_rates

LABELS = 40
"""Labels of one decision (count)."""
ALPHA = 0.05
CONTENTS, SD, RHO = 30, 1.2, 0.6
ERRORS = {
    "true labels": {},
    "each wrong with chance 0.3": {"rates": (0.3, 0.3)},
    "wrong with chance 0.05 where bias-aware is right, 0.35 where naive is": {
        "rates": (0.05, 0.35)
    },
    "one annotator, who misjudges contents by sd 0.3": {"contents": 0.3},
    "one annotator, who misjudges contents by sd 0.6": {"contents": 0.6},
    "one annotator, who misjudges contents by sd 1.2": {"contents": 1.2},
    "an annotator a label, who misjudge contents by sd 0.6": {"contents": 0.6, "per_label": True},
    "one annotator, who adds 0.3 times minus the covariate": {"covariate": -0.3},
}
"""How labels err, arguments of `right_and_disputed`."""
BROKEN = (
    "jbt gate: the bound holds for labels that are wrong independently of one another, with one "
    "rate below one half; one annotator's error about a content affects all its pairs"
)


def ahead(values: np.ndarray) -> np.ndarray:
    """[..., pairs] lead of the first of each pair of contents over the second."""
    i, j = np.triu_indices(CONTENTS, 1)
    return values[..., i] - values[..., j]


def thinned(rng: Generator, which: np.ndarray, size: np.ndarray) -> np.ndarray:
    """A random choice of `size` [n] of the pairs in `which` [n, pairs]."""
    order = np.where(which, rng.random(which.shape), 2.0).argsort(1).argsort(1)
    return which & (order < size[:, None])


def right_and_disputed(
    rng: Generator,
    n: int,
    *,
    rates: tuple[float, float] = (0.0, 0.0),
    contents: float = 0.0,
    per_label: bool = False,
    covariate: float = 0.0,
) -> np.ndarray:
    """[2, n] for n pools, the disputed pairs that bias-aware has right by the labels, and all
    disputed pairs (counts).

    Quality has sd 1.2; the apparent quality has a bias of 1 logit times a covariate, and noise.
    Naive ranks by it, bias-aware by its residual after regression on the covariate, which removes
    quality too, as the two are correlated. Among the disputed pairs, equal numbers are kept that
    bias-aware and naive have right: the hardest case of the guarantee.

    Args:
      rates: error rates of labels on pairs that bias-aware and naive have right.
      contents: standard deviation of an annotator's error about the quality of a content (logits),
        drawn once or, with `per_label`, for each label.
      covariate: an annotator's error for each unit of the covariate (logits).
    """
    counts = []
    for size in parts(n, 200):
        shape = size, CONTENTS
        quality = SD * rng.normal(size=shape)
        x = correlated(rng, quality / SD, 1.0, RHO)
        naive = quality + x + 0.3 * rng.normal(size=shape)
        centred = x - x.mean(1, keepdims=True)
        slope = (centred * naive).sum(1, keepdims=True) / (centred**2).sum(1, keepdims=True)
        lead = ahead(quality)
        by_naive, by_aware = ((ahead(v) > 0) == (lead > 0) for v in (naive, naive - slope * x))
        right, wrong = by_aware & ~by_naive, by_naive & ~by_aware
        both = np.minimum(right.sum(1), wrong.sum(1))
        right, wrong = (thinned(rng, v, both) for v in (right, wrong))
        if per_label:
            error = np.sqrt(2) * contents * rng.normal(size=lead.shape)
        else:
            error = ahead(contents * rng.normal(size=shape) + covariate * x)
        flipped = (lead > 0) != (lead + error > 0)
        flipped ^= rng.random(lead.shape) < np.where(right, *rates)
        counts.append([np.where(flipped, wrong, right).sum(1), 2 * both])
    return np.concatenate(counts, axis=1)


@claim("`jbt gate`", grid(pools=[1, LABELS], errors=list(ERRORS)))
def gate(run, pools, errors):
    """Rate at which the sign test enables a correction that is right on exactly half of the
    disputed pairs, by the errors of the labels, which are drawn without replacement from the
    disputed pairs of one pool, or of many together."""
    critical = critical_values(ALPHA, LABELS)
    counts = right_and_disputed(run.rng, run.studies * pools, **ERRORS[errors])
    labelled, disputed = counts.reshape(2, -1, pools).sum(2)
    n = np.minimum(LABELS, disputed)
    rate = hypergeom(np.maximum(disputed, 1), labelled, n).sf(critical[n] - 1)
    note = f"{(rate > ALPHA + 1e-9).mean():.0%} of studies have a rate above {ALPHA:g}"
    note += f"; {BROKEN}" * bool(rate.mean() > ALPHA)
    more = {"note" if errors.startswith(("true", "each wrong")) else "miss": note}
    where = "in a pool" if pools == 1 else f"over {pools} pools"
    interval = f"jbt gate --rule sign, false enables {where}, {LABELS} disputed pairs"
    held = run.rng.random(run.studies) >= rate
    yield kept(interval, errors, held, one_sided=True, **more)


UNLIKE = {
    "30 pools alike": ((30, 10, 12, 0.5),),
    "4 large pools wrong, 26 small right": ((4, 30, 39, 0.0), (26, 5, 6, 1.0)),
    "4 large pools right, 26 small wrong": ((4, 30, 39, 1.0), (26, 5, 6, 0.0)),
    "4 pools wrong, 6 right, half of their pairs disputed": (
        (4, 10, 30, 0.0),
        (6, 10, 20, 1.0),
    ),
}
"""Kinds of pools: how many, contents of each, disputed pairs of each, share of them on which
bias-aware is right: half of all pairs or less."""


def enabled(
    rng: Generator, kinds: Any, labels: Any, rule: str, n: int, share: float | None = None
) -> float:
    """The share of n studies in which a rule enables over pools.

    Args:
      labels: "pairs" and their number, of each pool, or all its pairs if fewer; or "disputed" and
        their number, drawn from all that are disputed.
      share: of each pool's disputed pairs on which bias-aware is right; default that of its kind.
    """
    what, number = labels
    each = np.repeat([kind[1:] for kind in kinds], [kind[0] for kind in kinds], axis=0)
    contents, disputed = each.T[:2].astype(int)
    every = contents * (contents - 1) // 2
    right = np.rint(disputed * (each[:, 2] if share is None else share)).astype(int)
    wrong = disputed - right
    # [n, pools] discordant labels, right and wrong.
    if what == "disputed":
        drawn = rng.multivariate_hypergeometric(np.r_[right, wrong], number, n)
        right, wrong = np.split(drawn, 2, axis=1)
    else:
        asked, size = np.minimum(number, every), (n, len(every))
        drawn = rng.hypergeometric(right, every - right, asked, size)
        wrong = rng.hypergeometric(wrong, every - disputed, asked - drawn)
        right = drawn
        chance = asked / every  # as many count as give every pair the same chance
        right, wrong = (rng.binomial(v, chance.min() / chance) for v in (right, wrong))
    right, wrong = right.sum(1), wrong.sum(1)
    if rule == "sign":
        enables = p_value(right, wrong) <= ALPHA
    else:
        at = np.arange((right + wrong).max() + 1)
        turn = np.where(at < (right + wrong)[:, None], rng.random((n, len(at))), 2.0)
        # In a random order; the zeros after the last label win no bet.
        bets = np.take_along_axis(1.0 * (at < right[:, None]), turn.argsort(1), 1)
        wealth = jax.jit(jax.vmap(betting.wealth, in_axes=(0, None)))(bets, float(disputed.sum()))
        enables = wealth.max(1) >= 1 / ALPHA
    return float(enables.mean())


@claim(
    "`jbt gate`",
    grid(
        kinds=list(UNLIKE),
        labels=[("pairs", 3), ("pairs", 6), ("pairs", 45), ("disputed", 20), ("disputed", 40)],
        rule="sign",
    )
    + grid(kinds=list(UNLIKE), labels=[("pairs", 6), ("disputed", 40)], rule="sign_sequential"),
    name="gate",
)
def gate_over_pools(run, kinds, labels, rule):
    """Rate at which a rule enables over unlike pools a correction that is right on at most half of
    all their disputed pairs; and, in a note, how often it enables one that is right on 70 % of
    those of each pool."""
    given = run.rng, UNLIKE[kinds], labels, rule, run.studies
    rate, power = enabled(*given), enabled(*given, share=0.7)
    kind, count = labels
    words = f"{count} pairs of each pool" if kind == "pairs" else f"{count} disputed pairs of all"
    note = f"enables what is right on 70 % of each pool in {power:.2f}"
    held = np.arange(run.studies) >= round(rate * run.studies)
    interval = f"jbt gate --rule {rule}, false enables over unlike pools"
    yield kept(interval, said(kinds, words), held, one_sided=True, note=note)


JUDGES = {
    "pays for length": (1.0, 1.0, 0.0),
    "deaf": (0.0, 1.0, 0.0),
    "pays the strong more": (1.0, 0.5, 0.5),
    "nearly always right": (5.0, 0.0, 0.0),
}
"""Name -> discrimination, c and its growth with quality."""


@claim(
    "`jbt leaderboard --beside ppi`",
    grid(sd=[1.0, 0.4, 2.5], labelled=[(10, 15), (20, 3), (60, 3), (30, 1)])
    + grid(labelled=[(20, 3)], judge=["deaf", "pays the strong more"])
    + grid(labelled=[(30, 15)], sd=2.5, judge="nearly always right"),
)
def prediction_powered(run, labelled, sd=1.0, judge="pays for length"):
    """Win rates by trusted labels, and plausible ranks.

    Six models answer 100 prompts; a judge sees every pair in both orders, and random pairs of some
    prompts have a label. The judge pays for length, which goes with quality between the models,
    tells quality apart more or less well, or pays stronger models more for length; labels pay for
    none.

    Args:
      labelled: prompts with labels, and labelled pairs of each.
    """
    prompts, each = labelled
    theta = -sd * norm.ppf((np.arange(6) + 0.5) / 6)
    pairs, rng = np.triu_indices(6, 1), run.rng
    s, c, gamma = JUDGES[judge]
    rates = (expit(theta[:, None] - theta).sum(1) - 0.5) / 5
    truth = {f"win rate by labels, {n} of 6": rates[i] for i, n in ((0, "best"), (2, "third"))}
    truth |= {"rank, third of 6": 3}
    results = []
    for _ in range(run.studies):
        x = rng.normal(size=(100, 6)) + 0.5 * theta / sd
        phi = s * theta + (c + gamma * theta) * x
        label = verdicts(rng, np.broadcast_to(theta, x.shape), pairs)
        marked = rng.random(label.shape).argsort(1) < each
        marked[prompts:] = False
        prompt, pair = np.nonzero(marked)
        sides = ordered_pairs(6)
        gold = gold_of(prompt, np.stack(pairs)[:, pair], label[marked] > 0)
        tables = tables_of(verdicts(rng, phi, sides, 0.3)[None], sides, x, gold=gold)
        models = labelled_win_rates(tables, 0).models
        shares = models[["estimate", "low", "high"]].to_numpy()
        third = models.loc[2, ["rank", "rank_low", "rank_high"]]
        results.append(dict(zip(truth, (shares[0], shares[2], third), strict=True)))
    words = f"{prompts} prompts with {each} pair{'s' * (each > 1)} labelled, sd {sd:g}, {judge}"
    yield from cells_of("jbt leaderboard --beside ppi", words, results, truth, one_sided=True)


MEASURES = [
    "accuracy",
    "accuracy_both_orders",
    "accuracy_if_smaller",
    "consistency",
    "agreement",
    "first_won",
    "larger_won",
]
"""Shares of a report card."""


def gold_of(prompt: Any, pair: np.ndarray, first: np.ndarray) -> pd.DataFrame:
    """Labels of pairs: whether the first is the better one."""
    better, worse = np.where(first, pair, pair[::-1])
    return pd.DataFrame({"pool": prompt, "better": better, "worse": worse})


@claim(
    "`jbt judge`, a pair or a prompt",
    grid(items=5, prompts=[20, 60, 200], uneven=True, skill=3.0, harder=[0.0, 0.4, -0.4]),
    name="report_card_units",
)
@claim(
    "`jbt judge`",
    [
        *grid(items=2, prompts=[12, 50, 400]),
        *grid(items=5, prompts=[12, 50]),
        *grid(items=10, prompts=20),
        *grid(items=5, prompts=[12, 50], uneven=True),
        *grid(items=5, prompts=20, apart=1.5),
        *grid(items=5, prompts=50, uneven=True, apart=1.5),
        *grid(items=5, prompts=[15, 60], skill=12.0),
    ],
)
def report_card(run, prompts, items, uneven=False, apart=0.5, skill=1.0, harder=None):
    """Shares over prompts whose pairs depend on each other.

    A prompt has items with a quality and a length; two judges see every pair in both orders, and
    how well they tell quality, how much they favour length and the first shown differs from prompt
    to prompt. Gold is the order of quality. The target of a share is its value over very many
    prompts.

    Args:
      uneven: whether prompts have 2 to 2 x items - 2 items, most of them few.
      apart: standard deviation of the biases between prompts, logits, and of the log of the skill.
      skill: logits per standard deviation of quality.
      harder: decrease of the log of the skill with each item of a prompt; the share of pairs that
        are right is then told from that of prompts.
    """
    rng, most = run.rng, 2 * items - 2

    def drawn(prompts):
        """Tables of a study."""
        few = 2 + rng.binomial(most - 2, rng.beta(0.7, 1.4, prompts))
        sizes = few if uneven else np.full(prompts, items)
        shown, answers, gold = [], [], []
        for size in np.unique(sizes):
            pools = np.flatnonzero(sizes == size)
            quality, words = rng.normal(size=(2, len(pools), size))
            pool, item = np.repeat(pools, size), np.tile(range(size), len(pools))
            answers.append(pd.DataFrame({"pool": pool, "item": item, "words": words.ravel()}))
            pair = np.array(np.triu_indices(size, 1))
            better = quality[:, pair[0]] > quality[:, pair[1]]
            pool, listed = np.repeat(pools, pair.shape[1]), np.tile(pair, len(pools))
            gold.append(gold_of(pool, listed, better.ravel()))
            sides = np.concatenate([pair, pair[::-1]], axis=1)
            pool = np.repeat(pools, sides.shape[1])
            first, second = np.tile(sides, len(pools))
            for judge in ("a", "b"):
                between = apart * rng.normal(size=(3, len(pools), 1))
                slope = skill * np.exp(between[0] - (harder or 0.0) * (size - 2))
                phi = slope * quality + (0.5 + between[1]) * words
                won = verdicts(rng, phi, sides, 0.5 + between[2])
                row = {"pool": pool, "judge": judge, "first": first, "second": second}
                shown.append(pd.DataFrame(row | {"p_first": won.ravel()}))
        return own.read(*map(pd.concat, (shown, answers, gold)), covariates=["words"])

    def shares(prompts):
        """Share, low and high of the measures of the first judge."""
        tables, numbers = drawn(prompts), ["share", "low", "high"]
        if harder is not None:
            cards = {unit: own.report_card(tables, unit=unit) for unit in ("pair", "prompt")}
            return {unit: card.table[numbers].iloc[0] for unit, card in cards.items()}
        _, card = next(own.report_card(tables, ["words"]).cards())
        rows = card.drop_duplicates("what").set_index("what")[numbers].reindex(MEASURES)
        return {str(what).replace("_", " "): row for what, row in rows.iterrows()}

    truth = {name: row["share"] for name, row in shares(20_000).items()}
    results = [shares(prompts) for _ in range(run.studies)]
    if harder is None:
        command, how = "jbt judge", ""
    else:
        command = "jbt judge: right, share of a"
        how = {0.0: "as hard", 0.4: "harder", -0.4: "easier"}[harder]
    words = said(
        f"{prompts} prompts of {f'2 to {most}' if uneven else items} items",
        how and f"those with more are {how}",
        apart != 0.5 and f"prompts apart by sd {apart:g}",
        skill > 5 and f"a judge right nearly always (skill {skill:g})",
    )
    yield from cells_of(command, words, results, truth)
