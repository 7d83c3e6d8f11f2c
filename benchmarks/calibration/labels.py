"""What rests on trusted labels: `jbt gate --rule sign`, `jbt leaderboard --beside ppi`, and the
shares of `jbt judge`."""

from __future__ import annotations

from typing import Any

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
    tables_of,
    verdicts,
)
from jbt import own
from jbt.gate import critical_values, p_value
from jbt.own.leaderboards.prediction_powered import labelled_win_rates

LABELS = 40
"""Labels of one decision (count)."""
ALPHA = 0.05
CONTENTS, SD, RHO = 30, 1.2, 0.6


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
      contents: standard deviation of an annotator's error about the quality of a content (logits).
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
        error = ahead(contents * rng.normal(size=shape) + covariate * x)
        flipped = (lead > 0) != (lead + error > 0)
        flipped ^= rng.random(lead.shape) < np.where(right, *rates)
        counts.append([np.where(flipped, wrong, right).sum(1), 2 * both])
    return np.concatenate(counts, axis=1)


@claim(
    "`jbt gate`",
    grid(pools=[1, LABELS], rates=[(0.0, 0.0), (0.3, 0.3), (0.05, 0.35)])
    + grid(pools=[1, LABELS], contents=[0.3, 0.6, 1.2])
    + grid(pools=[1, LABELS], covariate=-0.3),
)
def gate(rng, studies, pools, **errors):
    """Rate at which the sign test enables a correction that is right on exactly half of the
    disputed pairs, by the errors of the labels, which are drawn without replacement from the
    disputed pairs of one pool, or of many together.

    Args:
      errors: arguments of `right_and_disputed`.
    """
    critical = critical_values(ALPHA, LABELS)
    counts = right_and_disputed(rng, studies * pools, **errors)
    labelled, disputed = counts.reshape(2, -1, pools).sum(2)
    n = np.minimum(LABELS, disputed)
    rate = hypergeom(np.maximum(disputed, 1), labelled, n).sf(critical[n] - 1)
    one_rate = len(set(errors.get("rates", ()))) == 1
    miss = "" if one_rate else "labels wrong with two rates, or not independently"
    yield kept("no false enable", rng.random(studies) >= rate, one_sided=True, miss=miss)


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


@claim(
    "`jbt gate --labels pairs`, of unlike pools",
    grid(kinds=list(UNLIKE), pairs=[3, 6, 45]),
)
def gate_over_pools(rng, studies, kinds, pairs):
    """Rate at which the sign test enables over unlike pools a correction that is right on at most
    half of all their disputed pairs.

    Args:
      pairs: labelled ones of each pool (count), or all its pairs if fewer.
    """
    kind = np.array(UNLIKE[kinds])
    each = np.repeat(kind[:, 1:], kind[:, 0].astype(int), axis=0)
    contents, disputed = each.T[:2].astype(int)
    every = contents * (contents - 1) // 2
    right = np.rint(disputed * each[:, 2]).astype(int)
    # [studies, pools] discordant labels, right and wrong.
    asked, size = np.minimum(pairs, every), (studies, len(every))
    drawn = rng.hypergeometric(right, every - right, asked, size)
    wrong = rng.hypergeometric(disputed - right, every - disputed, asked - drawn)
    chance = asked / every  # as many count as give every pair the same chance
    right, wrong = (rng.binomial(v, chance.min() / chance).sum(1) for v in (drawn, wrong))
    held = p_value(right, wrong) > ALPHA
    yield kept("no false enable", held, one_sided=True)


@claim(
    "`jbt leaderboard --beside ppi`",
    grid(sd=[1.0, 0.4, 2.5], labelled=[(10, 15), (20, 3), (60, 3), (30, 1)])
    + grid(labelled=(20, 3), judge=[(0.0, 1.0, 0.0), (1.0, 0.5, 0.5)])
    + grid(labelled=(30, 15), sd=2.5, judge=(5.0, 0.0, 0.0)),
)
def prediction_powered(rng, studies, labelled, sd=1.0, judge=(1.0, 1.0, 0.0)):
    """Win rates by trusted labels, and plausible ranks.

    Six models answer 100 prompts; a judge sees every pair in both orders, and random pairs of some
    prompts have a label. The judge pays for length, which goes with quality between the models,
    tells quality apart more or less well, or pays stronger models more for length; labels pay for
    none.

    Args:
      labelled: prompts with labels, and labelled pairs of each.
      judge: its discrimination, c and the growth of c with quality.
    """
    prompts, each = labelled
    theta = -sd * norm.ppf((np.arange(6) + 0.5) / 6)
    pairs = np.triu_indices(6, 1)
    s, c, gamma = judge
    rates = (expit(theta[:, None] - theta).sum(1) - 0.5) / 5
    truth = {f"win rate by labels, {n} of 6": rates[i] for i, n in ((0, "best"), (2, "third"))}
    truth |= {"rank, third of 6": 3}
    results = []
    for _ in range(studies):
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
    yield from cells_of(results, truth, one_sided=True)


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
    "`jbt judge`",
    grid(items=2, prompts=[12, 50, 400])
    + grid(items=10, prompts=20)
    + grid({}, {"uneven": True}, items=5, prompts=[12, 50])
    + grid(items=5, prompts=20, apart=1.5)
    + grid(items=5, prompts=50, uneven=True, apart=1.5)
    + grid(items=5, prompts=[15, 60], skill=12.0)
    + grid(items=5, prompts=[20, 60, 200], uneven=True, skill=3.0, harder=[0.0, 0.4, -0.4]),
)
def report_card(rng, studies, prompts, items, uneven=False, apart=0.5, skill=1.0, harder=None):
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

    def drawn(prompts):
        """Tables of a study."""
        size = np.full(prompts, items)
        if uneven:
            size = 2 + rng.binomial(2 * items - 4, rng.beta(0.7, 1.4, prompts))
        quality, words = rng.normal(size=(2, prompts, size.max()))
        sides, shares = ordered_pairs(size.max()), []
        for _ in range(2):
            between = apart * rng.normal(size=(3, prompts, 1))
            slope = skill * np.exp(between[0] - (harder or 0.0) * (size[:, None] - 2))
            phi = slope * quality + (0.5 + between[1]) * words
            shares.append(verdicts(rng, phi, sides, 0.5 + between[2]))
        absent = np.maximum(*sides) >= size[:, None]
        shares = np.where(absent, np.nan, shares)
        prompt, pair = np.nonzero(~absent & (sides[0] < sides[1]))
        pair = np.stack(sides)[:, pair]
        first, second = quality[prompt, pair]
        return tables_of(shares, sides, words, gold=gold_of(prompt, pair, first > second))

    def shares(prompts):
        """Share, low and high of the measures of the first judge."""
        tables, numbers = drawn(prompts), ["share", "low", "high"]
        if harder is not None:
            cards = {unit: own.report_card(tables, unit=unit) for unit in ("pair", "prompt")}
            return {f"right {unit}s": card.table[numbers].iloc[0] for unit, card in cards.items()}
        _, card = next(own.report_card(tables, ["words"]).cards())
        rows = card.drop_duplicates("what").set_index("what")[numbers].reindex(MEASURES)
        return {str(what).replace("_", " "): row for what, row in rows.iterrows()}

    truth = {name: row["share"] for name, row in shares(20_000).items()}
    yield from cells_of([shares(prompts) for _ in range(studies)], truth)
