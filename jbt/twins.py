"""Twins: simulated judges that show on average what the paper prints of its real ones.

A twin is a judge of Eq. 1 (discrimination a, bias c*, position kappa*, and for one who answers with
the likelier verdict a pair noise) such that on the paper's pools the means of c_hat, kappa_hat and
the naive recall are the published ones. What is published beside these three, the bias-aware recall
first of all, is not aimed at: it tests whether the model does as the real judge.

**Three numbers for three targets.** A judge who draws has (a, c*, kappa*) and no more. One who
answers with the likelier verdict has a fourth, the pair noise, but its verdicts depend on the
ratios of the four alone: the search takes the pair noise as the unit. What the unit is in logits
matters only where that judge's verdicts are drawn afresh, and is set apart, by the share of pairs
that it is uncertain of (`UNCERTAIN`).

The twins of the paper's judges are in `data/twins.csv`, which `python -m jbt.twins` writes; how far
each is from its targets stands there too. Recall that is printed as 1.00 is aimed at with 0.995,
the least that is printed so.
"""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from jaxtyping import Array, Bool, Key

from jbt import estimators, judges, metrics, pairs, pools, runtime
from jbt.judges import PUBLISHED, SECOND_DOMAIN, Published
from jbt.simulate import Condition, Experiment, Simulation, simulate, stream
from jbt.types import Judge, Pool, Prior

DATA = Path(__file__).resolve().parent / "data" / "twins.csv"
ORACLES = ("argmax", "draws")
"""How verdicts are cached: the likelier one, or one draw."""
MAX_CORRELATION = 0.12
"""Of quality and elaboration in the paper's pools."""
UNCERTAIN = 0.43
"""Share of pairs of which an open judge of the paper has 0.2 < p < 0.8, by its own logits."""
DOUBT = (0.2, 0.8)
PERFECT = 0.995
"""Aim of a recall that is printed as 1.00."""
TOLERANCE = {"c_hat": 0.05, "kappa_hat": 0.05, "naive_recall": 0.02}
"""How near a twin is to be to each target; the unit of the search's residuals."""
LEAST, MOST = 1e-3, 50.0
"""Discriminations that are tried, in units of the pair noise or in logits a statement."""
STARTS = (0.05, 0.2, 0.6, 2.0)
DAMPING = (0.01, 0.3, 3.0, 30.0)
"""Of the steps that are tried at once: near Gauss-Newton's to short ones down the slope."""

Draw = Callable[[Key[Array, ""], Condition], Pool]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Twin:
    """A simulated judge in a published one's place."""

    name: str
    """Of the judge whose twin it is."""
    oracle: str
    """One of `ORACLES`."""
    others: str
    """Qualities of the bank's items that are not fully correct, one of `pools.OTHERS`."""
    discrimination: float
    """Logits per statement."""
    bias: float
    """c*, logits."""
    position: float
    """kappa*, logits."""
    pair_noise: float
    """Standard deviation, logits; 0 for one who draws."""
    c_hat: float
    """Found, mean over the pools it was calibrated on; so are the next two."""
    kappa_hat: float
    naive_recall: float
    bias_aware_recall: float
    """Not aimed at."""

    @property
    def judge(self) -> Judge:
        return Judge.of(self.bias, self.position, self.discrimination)

    @property
    def argmax(self) -> bool:
        return self.oracle == "argmax"

    def misses(self, published: Published) -> list[str]:
        """The targets that it is further from than `TOLERANCE`."""
        found = dataclasses.asdict(self)
        return [n for n, t in TOLERANCE.items() if not abs(found[n] - getattr(published, n)) <= t]


def conditions(twins: Sequence[Twin]) -> dict[str, np.ndarray]:
    """The twins as conditions of an experiment, one each; `answers` takes them."""
    found = judges.conditions([twin.judge for twin in twins])
    found["pair_noise"] = np.array([twin.pair_noise for twin in twins])
    found["argmax"] = np.array([float(twin.argmax) for twin in twins])
    return found


def answers(key: Key[Array, ""], pool: Pool, condition: Condition) -> Bool[Array, "N N"]:
    """The frozen verdicts of a twin, True where the first shown wins.

    Args:
      key: of the pool; the streams "verdicts" and "pair noise" are taken from it.
      condition: of one twin, see `conditions`.
    """
    judge = judges.of_condition(condition)
    drawn = judges.frozen_draw(stream(key, "verdicts"), pool, judge)
    noise = condition["pair_noise"]
    likelier = judges.frozen_argmax(stream(key, "pair noise"), pool, judge, pair_noise=noise)
    return jnp.where(condition["argmax"] > 0, likelier, drawn)


def probability(key: Key[Array, ""], pool: Pool, condition: Condition) -> Array:
    """P(first wins) of a twin [N, N], whose verdicts are drawn afresh; arguments as `answers`."""
    own = condition["pair_noise"] * judges.pair_preference(stream(key, "pair noise"), pool)
    return judges.verdict_probability(pool, judges.of_condition(condition), own)


def paper_pool(others: str = "uniform", *, n_items: int = 30, k: int = 5) -> Draw:
    """Pools of statements as the paper's, their elaboration balanced to `MAX_CORRELATION`."""

    def draw(key: Key[Array, ""], condition: Condition) -> Pool:
        return pools.statement_bank(key, n_items, k, others=others, max_correlation=MAX_CORRELATION)

    return draw


def calibrate(
    targets: Sequence[Published],
    *,
    oracle: str | None = None,
    others: str = "uniform",
    draw: Draw | None = None,
    also: Mapping[str, Any] | None = None,
    k: int = 5,
    prior: Prior | None = None,
    n_pools: int = 512,
    rounds: int = 10,
    seed: int = 0,
) -> list[Twin]:
    """Twins of some judges, all searched for at once on the same pools.

    Levenberg and Marquardt's steps on the three residuals in units of `TOLERANCE`, derivatives by
    differences on common draws, each round trying the steps of four dampings and keeping the best.

    Args:
      targets: what is to be met; their c_hat, kappa_hat and naive_recall are looked at.
      oracle: one of `ORACLES`, default each judge's own.
      others: of the paper's pools, and told to the twins; not looked at if `draw` is given.
      draw: (key, condition) -> Pool, default the paper's pools.
      also: name -> a number a target, further conditions for `draw`.
      k: size of the top set.
      prior: of the fits, default the paper's.
      n_pools: pools a mean is over; the standard error of a recall is about 0.15 / sqrt(n_pools).
      rounds: of the search.
      seed: root of the draws.

    Returns:
      A twin for each target, the nearest that was found: look at its `misses`.

    Raises:
      ValueError: no target, one that is no judge's, an unknown oracle, wrong counts.
    """
    if not targets:
        raise ValueError("nothing to calibrate: no target")
    if oracle is not None and oracle not in ORACLES:
        raise ValueError(f"unknown oracle {oracle!r}: one of {', '.join(ORACLES)}")
    if n_pools < 1 or rounds < 1:
        raise ValueError(f"n_pools and rounds must be at least 1, got {n_pools} and {rounds}")
    for target in targets:
        _check_target(target)
    argmax = np.array([(oracle or target.oracle) == "argmax" for target in targets])
    aims = np.array([_aim(target) for target in targets])
    widths = np.array(list(TOLERANCE.values()))
    draw, prior = draw or paper_pool(others), prior or Prior()
    fixed = {"argmax": argmax * 1.0, "pair_noise": argmax * 1.0, **(also or {})}
    fixed = {name: np.repeat(np.asarray(v, float), len(STARTS)) for name, v in fixed.items()}
    simulation: Simulation | None = None

    def means(at: np.ndarray) -> np.ndarray:
        """[J, 4, 3] log discrimination, bias, position -> [J, 4, 4] means of what is observed."""
        nonlocal simulation
        flat = at.reshape(-1, 3)
        moved = {"discrimination": np.exp(flat[:, 0]), "bias": flat[:, 1], "position": flat[:, 2]}
        if simulation is None:
            experiment = _observed(draw, k, prior)
            simulation = Simulation(experiment, moved | fixed, range(n_pools), seed=seed)
        chunks = [out for _, out in simulation.under(moved | fixed).chunks()]
        return np.stack(
            [np.concatenate([c[name] for c in chunks]).mean(0) for name in OBSERVED], axis=-1
        ).reshape(*at.shape[:2], len(OBSERVED))

    def cost(found: np.ndarray) -> np.ndarray:
        return (((found[..., :3] - aims[:, None]) / widths) ** 2).sum(-1)

    each = np.arange(len(targets))
    tried = np.empty((len(targets), len(STARTS), 3))
    tried[..., 0] = np.log(STARTS)
    # A probit's coefficients are some 0.6 of a logit's.
    tried[..., 1:] = (aims[:, :2] * np.where(argmax, 0.6, 1.0)[:, None])[:, None]
    found = means(tried)
    nearest = np.abs(found[..., 2] - aims[:, 2:]).argmin(1)
    at, best = tried[each, nearest], found[each, nearest]
    for _ in range(rounds):
        step = np.stack([np.full(len(at), 0.15), *(0.15 + 0.1 * np.abs(at[:, 1:].T))], axis=-1)
        around = np.repeat(at[:, None], 4, axis=1)
        around[:, 1:] += step[:, :, None] * np.eye(3)
        slopes = means(around)[..., :3]
        slopes = (slopes[:, 1:] - slopes[:, :1]) / widths / step[:, :, None]
        tried = at[:, None] + _steps(slopes, (best[:, :3] - aims) / widths, at)
        tried[..., 0] = tried[..., 0].clip(math.log(LEAST), math.log(MOST))
        found = means(tried)
        winner = cost(found).argmin(1)
        better = cost(found)[each, winner] < cost(best[:, None])[:, 0]
        at = np.where(better[:, None], tried[each, winner], at)
        best = np.where(better[:, None], found[each, winner], best)
    unit = np.ones(len(targets))
    if argmax.any():
        unit[argmax] = _units(at[argmax], draw, fixed, argmax, seed)
    return [
        Twin(
            name=target.name,
            oracle="argmax" if argmax[j] else "draws",
            others=others,
            discrimination=float(unit[j] * np.exp(at[j, 0])),
            bias=float(unit[j] * at[j, 1]),
            position=float(unit[j] * at[j, 2]),
            pair_noise=float(unit[j] * argmax[j]),
            **dict(zip(OBSERVED, best[j].tolist(), strict=True)),
        )
        for j, target in enumerate(targets)
    ]


OBSERVED = ("c_hat", "kappa_hat", "naive_recall", "bias_aware_recall")


def _check_target(target: Published) -> None:
    for name in ("c_hat", "kappa_hat"):
        if not math.isfinite(getattr(target, name)):
            raise ValueError(f"{target.name}: {name} must be finite, got {getattr(target, name)}")
    if not 0 <= target.naive_recall <= 1:
        raise ValueError(f"{target.name}: naive_recall must lie in 0..1, got {target.naive_recall}")
    if target.oracle not in ORACLES:
        known = ", ".join(ORACLES)
        raise ValueError(f"{target.name}: unknown oracle {target.oracle!r}: one of {known}")


def _aim(target: Published) -> tuple[float, float, float]:
    return target.c_hat, target.kappa_hat, min(target.naive_recall, PERFECT)


def _observed(draw: Draw, k: int, prior: Prior) -> Experiment:
    def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = draw(stream(key, "pool"), condition)
        verdicts = judges.reveal(answers(key, pool, condition), pairs.every_pair(pool))
        naive = estimators.naive(verdicts, pool.design, prior).parameters
        aware = estimators.bias_aware(verdicts, pool.design, prior).parameters
        return {
            "c_hat": aware.c[0],
            "kappa_hat": aware.kappa,
            "naive_recall": metrics.top_k_recall(naive.theta, pool.quality, k),
            "bias_aware_recall": metrics.top_k_recall(aware.theta, pool.quality, k),
        }

    return experiment


def _steps(slopes: np.ndarray, residuals: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The step of every damping, [J, 4, 3], none too long for the differences to mean something.

    Args:
      slopes: [J, 3 parameters, 3 residuals].
      residuals: [J, 3].
      at: [J, 3].
    """
    square = slopes @ slopes.swapaxes(-1, -2)
    down = (slopes @ residuals[..., None])[..., 0]
    diagonal = np.eye(3) * np.diagonal(square, axis1=-2, axis2=-1)[..., None, :]
    damped = [square + d * diagonal + 1e-6 * np.eye(3) for d in DAMPING]
    steps = -np.linalg.solve(np.stack(damped, axis=1), down[:, None, :, None])[..., 0]
    longest = np.stack(
        [
            np.full(len(at), 0.7),
            np.maximum(1.0, 0.5 * np.abs(at[:, 1])),
            np.maximum(0.7, 0.5 * np.abs(at[:, 2])),
        ],
        axis=-1,
    )
    return np.clip(steps, -longest[:, None], longest[:, None])


def _units(
    at: np.ndarray, draw: Draw, fixed: Mapping[str, np.ndarray], argmax: np.ndarray, seed: int
) -> np.ndarray:
    """The pair noise in logits, for each argmax judge [J]: with it the share of uncertain pairs is
    `UNCERTAIN`."""
    powers = np.linspace(-3.0, 4.0, 29)

    def experiment(key: Key[Array, ""], condition: Condition) -> dict[str, Array]:
        pool = draw(stream(key, "pool"), condition)
        own = condition["pair_noise"] * judges.pair_preference(stream(key, "pair noise"), pool)
        z = judges.verdict_logits(pool, judges.of_condition(condition), own)
        p = sigmoid(jnp.exp(jnp.asarray(powers, z.dtype))[:, None, None] * z)
        asked = pairs.every_pair(pool)
        return {"share": (asked * (p > DOUBT[0]) * (p < DOUBT[1])).sum((1, 2)) / asked.sum()}

    given = {name: values[:: len(STARTS)][argmax] for name, values in fixed.items()}
    given |= {"discrimination": np.exp(at[:, 0]), "bias": at[:, 1], "position": at[:, 2]}
    share = simulate(experiment, given, range(64), seed=seed)["share"].mean(0)  # falls from 1 to 0
    # np.interp wants what increases. Between two powers the share is all but linear in the power.
    return np.exp([np.interp(-UNCERTAIN, -each, powers) for each in share])


def read() -> dict[tuple[str, str, str], Twin]:
    """The twins of the paper's judges, by (name, oracle, others)."""
    text = ("name", "oracle", "others")
    found = {}
    with DATA.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            read: dict[str, Any] = {k: v if k in text else float(v) for k, v in row.items()}
            found[tuple(row[name] for name in text)] = Twin(**read)
    return found


def known() -> dict[str, Published]:
    """The judges that have twins, by name: the fifteen, and the first of them in its second
    domain."""
    return {**PUBLISHED, SECOND_DOMAIN.name: SECOND_DOMAIN}


def twin(name: str, *, oracle: str | None = None, others: str = "uniform") -> Twin:
    """The twin of one of the paper's judges.

    Args:
      oracle: one of `ORACLES`, default the judge's own.

    Raises:
      ValueError: unknown name (the message lists them), oracle or others.
    """
    if name not in known():
        raise ValueError(f"unknown judge {name!r}: one of {', '.join(known())}")
    asked = oracle or known()[name].oracle
    found = read()
    if (name, asked, others) not in found:
        oracles, kinds = (sorted({key[i] for key in found}) for i in (1, 2))
        raise ValueError(
            f"no twin of oracle {asked!r} and others {others!r}: oracle is one of "
            f"{', '.join(oracles)}, others one of {', '.join(kinds)}"
        )
    return found[name, asked, others]


def main() -> None:
    """Calibrate every twin and write `DATA`: five minutes on two cores."""
    runtime.start()
    twins = [
        twin
        for others in pools.OTHERS
        for oracle in ORACLES
        for twin in calibrate(list(known().values()), oracle=oracle, others=others)
    ]
    with DATA.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in dataclasses.fields(Twin))
        for each in twins:
            row = dataclasses.astuple(each)
            writer.writerow(f"{v:.5g}" if isinstance(v, float) else v for v in row)
    for each in twins:
        missed = each.misses(known()[each.name])
        print(
            f"{each.name} {each.oracle} {each.others}: {', '.join(missed) or 'meets its targets'}"
        )


if __name__ == "__main__":
    main()
