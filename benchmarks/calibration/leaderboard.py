"""Intervals of `jbt leaderboard`, which are also those of `jbt identify --merge-pools`.

Six models answer every prompt; a prompt has verdicts on random ordered pairs of them. Prompts are
equally large, or a few are large, or their sizes are lognormal; c and the qualities may vary
between prompts. The truth is then the estimate from infinitely many prompts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from scipy.special import expit

from benchmarks.calibration import Cell
from jbt import runtime
from jbt.kernel.fit import fit_map
from jbt.own.leaderboards.intervals import Intervals, intervals
from jbt.own.leaderboards.problem import Fitted, Problem, places
from jbt.types import Design, Parameters, Prior, Rows, Status, Variant

MODELS = 6
C, KAPPA = 0.6, 0.3
AT_ONCE = 50
MOST = 1000
"""Studies of a setting: each takes a fit and all its intervals, some 10 ms."""
PRIOR = Prior(1.0, 0.1)


@dataclass(frozen=True)
class Setting:
    """A setting of studies."""

    sizes: str
    """Verdicts on the prompts: equal, 20 each; large, 9 (or 2) prompts with 100 (or 300) verdicts
    among others with 4; lognormal about 10."""
    prompts: int
    sd: float = 1.0
    """Standard deviation of quality, logits."""
    rho: float = 0.0
    """corr(theta, x) between models."""
    sd_c: float = 0.0
    """Standard deviation of c between prompts."""
    sd_theta: float = 0.0
    """Standard deviation of a model's quality between prompts."""

    @property
    def name(self) -> str:
        """The setting in words."""
        varied = [f"sd of c {self.sd_c:g}"] * (self.sd_c > 0)
        varied += [f"of theta {self.sd_theta:g} between prompts"] * (self.sd_theta > 0)
        return ", ".join(
            [
                f"{self.prompts} prompts, {self.sizes}",
                f"sd of quality {self.sd:g}, corr(theta, x) {self.rho:g}",
                *(varied or ["c constant"]),
            ]
        )

    @property
    def verdicts(self) -> np.ndarray:
        """[prompts] number of verdicts."""
        g = self.prompts
        if self.sizes == "equal":
            return np.full(g, 20)
        if self.sizes == "lognormal":
            at = stats.norm.ppf((np.arange(g) + 0.5) / g)
            return np.maximum(1, np.round(10 * np.exp(at))).astype(int)
        large = int(self.sizes.split()[0])
        return np.where(np.arange(g) < large, 100 if large == 9 else 300, 4)

    @property
    def theta(self) -> np.ndarray:
        """[models] quality, best first, mean 0."""
        return self.sd * normal_scores()

    def draw(self, rng: np.random.Generator, n: int, verdicts: np.ndarray) -> Rows:
        """n studies, [n, rows]."""
        g = len(verdicts)
        shuffled = normal_scores()[[2, 5, 0, 4, 1, 3]]  # nearly uncorrelated with quality
        mean = self.rho * normal_scores() + np.sqrt(1 - self.rho**2) * shuffled
        x = 0.8 * mean + rng.normal(size=(n, g, MODELS))
        c = C + self.sd_c * rng.normal(size=(n, g, 1))
        apparent = self.theta + self.sd_theta * rng.normal(size=x.shape) + c * x
        prompt = np.repeat(np.arange(g), verdicts)
        first = rng.integers(0, MODELS, (n, len(prompt)))
        second = (first + rng.integers(1, MODELS, first.shape)) % MODELS
        at = np.arange(n)[:, None], prompt
        apart, difference = (v[(*at, first)] - v[(*at, second)] for v in (apparent, x))
        won = (rng.random(first.shape) < expit(apart + KAPPA)).astype(float)
        ones = jnp.ones(first.shape)
        return Rows(
            jnp.asarray(first),
            jnp.asarray(second),
            jnp.asarray(difference[..., None]),
            ones,
            ones,
            jnp.asarray(won),
        )

    def truth(self) -> np.ndarray:
        """[models + 2] theta, c, kappa from very many prompts."""
        if not (self.sd_c or self.sd_theta):
            return np.r_[self.theta, C, KAPPA]
        rows = jax.tree.map(lambda v: v[0], self.draw(np.random.default_rng(0), 1, PLENTY))
        return np.asarray(_fit(rows, Prior(1e-6, 1e-6)).flat())


PLENTY = np.full(20000, 20)
"""Verdicts on very many prompts."""


def normal_scores() -> np.ndarray:
    """[models] quantiles of the normal distribution, best first, of variance 1."""
    at = -stats.norm.ppf((np.arange(MODELS) + 0.5) / MODELS)
    return at / at.std()


@jax.jit
def _fit(rows: Rows, prior: Prior) -> Parameters:
    return fit_map(rows, _design(), prior, _variant()).parameters


@jax.jit
def fits(rows: Rows) -> Parameters:
    """The MAP of studies, [n]."""
    return jax.vmap(lambda study: fit_map(study, _design(), PRIOR, _variant()).parameters)(rows)


def _design() -> Design:
    return Design.of_contents(MODELS, 1)


def _variant() -> Variant:
    return Variant(jnp.ones(1, bool), jnp.asarray(True))


def spreads(setting: Setting, studies: int, seed: int) -> Iterator[Intervals]:
    """The command's result for each study."""
    rng = np.random.default_rng([seed, setting.prompts])
    prompt = np.repeat(np.arange(setting.prompts), setting.verdicts)
    variant, at = _variant(), places(theta=(MODELS,), c=(1, 1), kappa=(1,))
    for begin in range(0, studies, AT_ONCE):
        drawn = setting.draw(rng, AT_ONCE, setting.verdicts)
        modes = fits(drawn)
        for i in range(min(AT_ONCE, studies - begin)):
            mode, rows = jax.tree.map(lambda v, i=i: v[i], (modes, drawn))
            problem = Problem.of(rows, variant, PRIOR, at, prompt)
            yield intervals(Fitted(problem, variant, mode.as_numpy(), Status.CONVERGED))


SIZES = (
    *(("equal", g) for g in (10, 12, 15, 30, 100)),
    *(("lognormal", g) for g in (15, 30, 100)),
    ("9 large", 100),
    ("2 large", 100),
)
VARIED: tuple[dict[str, float], ...] = ({"rho": 0.5}, {"sd_c": 0.3}, {"sd_c": 0.3, "rho": 0.5})
SETTINGS = (
    *(Setting(*size, **more) for size in SIZES for more in VARIED),
    *(
        Setting(*size, sd_c=0.3, sd_theta=0.7)
        for size in (("equal", 15), ("9 large", 100), ("lognormal", 100))
    ),
    *(
        Setting(*size, sd=sd)
        for sd in (0.4, 2.5)
        for size in (("equal", 30), ("equal", 100), ("9 large", 100))
    ),
)


def cells(studies: int, seed: int) -> Iterator[Cell]:
    """Cells of c, kappa, theta of the best and of a middle model, and its rank."""
    with runtime.precision("float64"):
        for setting in SETTINGS:
            yield from _cells(setting, list(spreads(setting, min(studies, MOST), seed)))


def _cells(setting: Setting, results: list[Intervals]) -> Iterator[Cell]:
    command = "jbt leaderboard, jbt identify --merge-pools"
    truth, middle = setting.truth(), 2
    kinds = {"c": MODELS, "kappa": MODELS + 1, "theta, best of 6": 0, "theta, third of 6": middle}
    for name, place in kinds.items():
        ends = [s.parameters.loc[place, ["low", "high"]] for s in results]
        low, high = np.array(ends, float).T
        printed = np.isfinite(low)
        covered = (low <= truth[place]) & (truth[place] <= high)
        width = float(np.median((high - low)[printed])) if printed.any() else float("nan")
        note = ""
        if printed.mean() < 0.5:
            note = "withheld in most studies: too few prompts, or prior-dominated"
        elif setting.sd > 2:
            note = "the report says how far the prior has moved theta, and to lower --lam"
        yield Cell(
            f"{name} ({command})",
            setting.name,
            len(results),
            int(printed.sum()),
            int(covered.sum()),
            median_width=width,
            note=note,
            may_miss=bool(note),
        )
    ranks = np.array(
        [(1 + s.better[middle].sum(), MODELS - s.better[:, middle].sum()) for s in results]
    )
    printed = np.array([s.ranked[middle] for s in results])
    covered = (ranks[:, 0] <= middle + 1) & (middle + 1 <= ranks[:, 1]) & printed
    yield Cell(
        f"rank, third of 6 ({command})",
        setting.name,
        len(results),
        int(printed.sum()),
        int(covered.sum()),
        one_sided=True,
        median_width=float(np.median(np.ptp(ranks[printed], axis=1))) if printed.any() else np.nan,
    )
