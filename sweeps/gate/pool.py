"""Experiment of `gate`: every rule on every kind of label, for pools and judges like the paper's;
and families of pools that share one decision.

Two readings of the paper's legitimate pools. `correlation`: the covariate that sways the judge goes
with quality. `covariate`: the verdicts are those of the spurious pools, swayed by style, and the
correction is for another covariate, which goes with quality.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from jbt import estimators, gate, twins
from jbt.estimators.reference import Rankings
from jbt.experiments import declare
from jbt.gate import LABELS, Noise, Rules, Urn
from jbt.simulation import judges, pairs, pools
from jbt.simulation.simulate import Condition, Experiment, stream
from jbt.types import Design, Pool, check_count

from .._shared.judge import BANK
from .._shared.scenario import Correlated, VaryingBias

NOISES = ("fresh", "stored", "length")
"""Kinds of wrong labels, see `jbt.gate.Noise`."""

ALL = "all"
"""Name of all judges together in the table."""

HARMED = ("agreement_harmed", "recall_harmed")
"""Classes of pools that the correction does not help, in the order of pairs and in recall."""

FAMILY = (5, 10, 20, 40, 60)
"""Pools of a family that are labelled once each for one decision (count)."""

CORRELATIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
"""Correlations of quality and the covariate that sways the judge."""

HALF = 60.0
"""Disputed pairs of the case built at exactly one half."""


@dataclass(frozen=True, kw_only=True)
class Settings(Correlated, VaryingBias, declare.Sweep):
    pools: int = 1000
    pool: str = "gaussian"
    """Kind of pool, one of `jbt.simulation.pools.POOLS`. With statement_bank judges are twins of
    the paper's (`jbt.twins`), and quality is the number of statements, whatever --sd."""
    covariate: pools.CovariateKind = "binary"  # as the paper's elaboration
    legitimate: Literal["correlation", "covariate"] = "correlation"
    """Pools at rho above 0. correlation: the covariate that sways the judge goes with quality.
    covariate: the same verdicts as at rho = 0, corrected for a continuous covariate of that
    correlation instead."""
    max_correlation: float | None = None
    """The judge's covariates are drawn again until their |correlation| with quality within the pool
    is below this, in (0, 1]; default not, with --pool statement_bank --legitimate covariate the
    paper's 0.12."""
    rho: tuple[float, ...] = ()
    """Population correlations of quality and the covariate corrected for, increasing; default 0 to
    0.7, with --legitimate covariate 0 and 0.79."""
    judge: tuple[str, ...] = tuple(judges.GATED)
    """Judges: with --pool statement_bank any that has a twin, else of
    `jbt.simulation.judges.GATED`."""
    n_anchors: tuple[int, ...] = (5, 10, 20, 40, 60)
    """K, numbers of trusted labels (count), increasing; for members, draws."""
    sets: int = 100
    """Label sets a pool (count)."""
    many: tuple[int, ...] = (120, 180, 240, 320, 435)
    """Larger K (count), increasing, for the labels needed for power."""
    many_sets: int = 8
    """Label sets a pool for these (count)."""
    alpha: tuple[float, ...] = (0.05,)
    """Levels of the tests."""
    margin: int = 2
    """Labels by which bias-aware must lead for the rule `margin` (count)."""
    margin_share: float = gate.SHARE
    """The same for the rule `margin_share`, as a share of the labels bought."""
    noise: tuple[float, ...] = (0.1,)
    """Chances of a wrong label, beside 0, of the first judge's labels."""
    drift: tuple[float, ...] = (0.0, 0.2)
    """Standard deviations of the correlation between the pools of a family."""
    power: float = 0.8
    """Share of the helped pools in which the correction should be enabled."""

    @property
    def rules(self) -> Rules:
        """Rules tried at each of `n_anchors`."""
        return Rules(self.n_anchors, self.alpha, self.margin, self.sets, self.margin_share)

    @property
    def rules_of_many(self) -> Rules | None:
        """Rules tried at each of `many`; None without any."""
        if not self.many:
            return None
        return replace(self.rules, n_anchors=self.many, sets=self.many_sets)

    def decided(self) -> Self:
        swapped = self.legitimate == "covariate"
        rho = self.rho or ((0.0, 0.79) if swapped else CORRELATIONS)
        bound = self.max_correlation
        if bound is None and swapped and self.pool == BANK:
            bound = twins.MAX_CORRELATION
        return replace(self, rho=rho, max_correlation=bound)


PRESETS = {
    "smoke": Settings(
        pools=16,
        n_items=10,
        k=2,
        rho=(0.0, 0.6),
        judge=("llama", "qwen"),
        n_anchors=(5, 10, 20),
        sets=20,
        many=(45,),
    ),
    "paper": Settings(pools=12),  # 60 pools of five judges
    "full": Settings(),
}


def check(s: Settings) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    declare.check_listed("legitimate", (s.legitimate,), ("correlation", "covariate"))
    if s.legitimate == "covariate":
        s.check_pools()
        s.check_balance((0.0,), s.covariate)
        pools.check_rho(s.rho, "continuous")
        declare.check_increasing("rho", s.rho, least=0, needed=0.0)
    else:
        s.check_grid()
    if s.pool == BANK and s.sd != Settings.sd:
        raise ValueError(f"sd has no effect with --pool {BANK}: quality is a number of statements")
    declare.check_listed("judge", s.judge, list(twins.known() if s.pool == BANK else judges.GATED))
    declare.check_increasing("n_anchors", s.n_anchors, least=1)
    n_pairs = s.n_items * (s.n_items - 1) // 2
    declare.check_increasing("many", s.many, least=s.n_anchors[-1] + 1, length=0)
    for name in ("n_anchors", "many"):
        for number in getattr(s, name):
            if number > n_pairs:
                what = f"{name} has {number}, but {s.n_items} items make {n_pairs} pairs"
                raise ValueError(what)
    for name in ("sets", "many_sets", "margin"):
        check_count(name, getattr(s, name))
    if not 0 < s.margin_share <= 1:
        raise ValueError(f"margin_share must lie above 0 and at most at 1, got {s.margin_share:g}")
    if not s.alpha:
        raise ValueError("alpha must have a level at least")
    for level in s.alpha:
        gate.check_alpha(level)
    declare.check_increasing("noise", s.noise, least=0.001, most=0.5, length=0)
    declare.check_increasing("drift", s.drift, least=0)
    if not 0 < s.power < 1:
        raise ValueError(f"power must lie between 0 and 1, got {s.power:g}")


def scenarios(s: Settings) -> Iterator[dict[str, Any]]:
    """Conditions: every judge with true labels, then the first judge with wrong ones."""
    for judge in s.judge:
        for rho in s.rho:
            yield {"judge": judge, "rho": rho, "noise_kind": "none", "noise": 0.0}
    for kind in NOISES:
        for noise in s.noise:
            for rho in s.rho:
                yield {"judge": s.judge[0], "rho": rho, "noise_kind": kind, "noise": noise}


def decisions(rules: Rules) -> list[str]:
    """Names of the rules with their levels."""
    return [name if alpha is None else f"{name}@{alpha:g}" for name, alpha in rules.names]


def groups(s: Settings) -> list[declare.Group]:
    """One group: all conditions share shapes and rules."""
    check(s)
    cells = list(scenarios(s))
    if s.pool == BANK:
        conditions = twins.conditions([twins.twin(c["judge"]) for c in cells])
    else:
        conditions = judges.conditions([judges.GATED[c["judge"]] for c in cells])
        conditions |= dict.fromkeys(("pair_noise", "argmax"), np.zeros(len(cells)))
    conditions["interaction"] = conditions["interaction"] + s.interaction
    conditions["rho"] = np.array([c["rho"] for c in cells])
    for kind in NOISES:
        conditions[kind] = np.array([c["noise"] * (c["noise_kind"] == kind) for c in cells])
    labels = {name: [c[name] for c in cells] for name in cells[0]}
    names = {"decision": decisions(s.rules)}
    kinds = {"labels": list(LABELS)}
    by_k, by_many = {"n_anchors": list(s.n_anchors)}, {"many": list(s.many)}
    axes: dict[str, dict[str, Any]] = {
        "enable_rate": {**kinds, **names, **by_k},
        "labels_used": {**kinds, **names, **by_k},
        "half_enable_rate": {"half_labels": ["disputed", "members"], **names, **by_k},
    }
    if s.many:
        axes["many_enable_rate"] = {**kinds, **names, **by_many}
        axes["many_labels_used"] = {**kinds, **names, **by_many}
    return [
        declare.Group(
            "gate", experiment(s), conditions, labels, s.n_items, s.pools, axes=axes, fits=20
        )
    ]


def experiment(s: Settings) -> Experiment:
    """Experiment: every ordered pair judged once, two rankings, label sets of every kind, all
    rules."""

    def one(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = drawn(s, key, condition)
        verdicts = twins.answers(key, pool, condition)
        comparisons = judges.reveal(verdicts, pairs.every_pair(pool))
        if s.legitimate == "covariate":
            pool = with_another_covariate(key, pool, condition)
        fits = {
            name: estimator(comparisons, pool.design, s.prior)
            for name, estimator in estimators.ESTIMATORS.items()
        }
        naive, bias_aware = (fits[name].parameters.theta for name in ("naive", "bias_aware"))
        rankings = Rankings(pool, naive, bias_aware, s.k)
        noise = Noise(condition["fresh"], condition["stored"], condition["length"])
        trial = gate.trial(stream(key, "labels"), rankings, s.rules, noise)
        out = dict(vars(trial))
        if s.rules_of_many is not None:
            trial_of_many = gate.trial(stream(key, "many labels"), rankings, s.rules_of_many, noise)
            out["many_enable_rate"] = trial_of_many.enable_rate
            out["many_labels_used"] = trial_of_many.labels_used
        out["half_enable_rate"] = at_one_half(stream(key, "one half"), s.rules, s.k)
        out |= {f"status_{name}": fit.status for name, fit in fits.items()}
        return out

    return one


def drawn(s: Settings, key: Key[Array, ""], condition: Condition) -> Pool:
    """The pool with the covariate that sways the judge."""
    if s.legitimate == "covariate":
        condition = condition | {"rho": jnp.zeros(())}
    if s.pool != BANK:
        return s.draw(key, condition, s.covariate)
    options = {"covariate": s.covariate, "max_correlation": s.max_correlation}
    rho = condition["rho"]
    return pools.statement_bank(stream(key, "pool"), s.n_items, s.k, rho=rho, **options)


def with_another_covariate(key: Key[Array, ""], pool: Pool, condition: Condition) -> Pool:
    """The pool with a continuous covariate in the place of the judge's, which goes with quality; at
    rho = 0 the pool as it is."""
    score = (pool.quality - pool.quality.mean()) / pool.quality.std()
    rho, d = condition["rho"], pool.design
    another = pools.with_covariates(stream(key, "legitimate"), pool.quality, score, rho=rho)
    x = jnp.where(rho > 0, another.design.covariates, d.covariates)
    return Pool(pool.quality, Design(x, d.content, d.item_mask, d.n_contents))


def at_one_half(key: Key[Array, ""], rules: Rules, k: int) -> Array:
    """Enable rates [2, rules, K] where bias-aware is right on exactly half of the disputed pairs,
    and where as many of its members are good as of naive's."""
    half, none = jnp.asarray(HALF / 2), jnp.zeros(())
    pairs_key, members_key = jax.random.split(key)
    tests = {"sets": rules.sets, "alpha": rules.alpha}
    urn = Urn(half, none, half, none, none, none)
    one_of_two = gate.Members(jnp.asarray(2.0), jnp.arange(k) < 1, jnp.zeros(k, bool))
    drawn = [
        gate.of_pairs(pairs_key, urn, rules.n_anchors, **tests),
        gate.of_members(members_key, one_of_two, one_of_two, rules.n_anchors, **tests)[0],
    ]
    return jnp.stack([gate.decided(counts, rules)[0] for counts in drawn])


def exact_size(labels: str, n: int, alpha: float) -> float:
    """Chance that `sign` enables in the case of `at_one_half`."""
    from scipy.stats import binom, hypergeom

    critical = gate.critical_values(alpha, n)
    if labels == "disputed":
        drawn = min(n, int(HALF))
        return float(hypergeom(int(HALF), int(HALF) // 2, drawn).sf(critical[drawn] - 1))
    # One of two is good on either side: a draw is discordant half of the time.
    discordant = np.arange(n + 1)
    size = binom.sf(critical - 1, discordant, 0.5)
    return float(binom.pmf(discordant, n, 0.5) @ size)


def family_rate(right: np.ndarray, wrong: np.ndarray, n_labels: int, alpha: float) -> np.ndarray:
    """Chance that `sign` enables for a family of pools of one judge, on one label in each of some.

    Args:
      right, wrong: chances that the label of a pool drawn at random is so, of one shape.
      n_labels: labelled pools (count).
      alpha: level of the test.
    """
    from scipy.stats import binom

    n = np.arange(n_labels + 1)
    discordant = np.minimum(right + wrong, 1.0)[..., None]  # rounded, it may lie above
    share = np.minimum(np.asarray(right)[..., None] / np.maximum(discordant, 1e-12), 1.0)
    critical = gate.critical_values(alpha, n_labels)
    return (binom.pmf(n, n_labels, discordant) * binom.sf(critical - 1, n, share)).sum(-1)


def family_weights(rho: np.ndarray, mean: float, drift: float) -> np.ndarray:
    """Weights [rho] of the simulated correlations, increasing, in a family whose correlations are
    normal about a mean. Each pool takes the nearest simulated correlation, so that the ends are cut
    off."""
    from scipy.stats import norm

    if not drift:
        return (rho == mean).astype(float)
    ends = np.concatenate([[-np.inf], (rho[1:] + rho[:-1]) / 2, [np.inf]])
    return np.diff(norm.cdf(ends, mean, drift))
