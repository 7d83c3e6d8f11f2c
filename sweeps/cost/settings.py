"""Settings of `cost`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from jbt.acquisition import RULES
from jbt.experiments import declare
from jbt.kernel.membership import DRAWS
from jbt.simulation import pools
from jbt.types import check_count

from .._shared import prices
from .._shared.active import RunSettings

N_ITEMS, K = 30, 5
"""Size and top set of the pools that twins are calibrated on."""

COLUMNS = ("judge", "budget", "n_pools_sharing", "model", "rule", "target")

PRICES = (
    *("cheap_input", "cheap_output", "dear_input", "dear_output"),
    *("input_tokens", "output_tokens", "cheap_reasoning", "dear_reasoning", "label_price"),
)


@dataclass(frozen=True, kw_only=True)
class Settings(RunSettings, declare.Sweep):
    pools: int = 1000
    cheap: str = "gpt_4o_mini"
    """The judge that is corrected, one of `jbt.twins.known()`."""
    dear: str = "gpt_5_1"
    """The judge that is not corrected, another of them."""
    oracle: Literal["argmax", "draws"] | None = None
    """How both judges' verdicts were cached: the likelier one, or one draw; default as each
    judge's were."""
    others: str = "uniform"
    """Qualities of the items that are not fully correct, one of `jbt.simulation.pools.OTHERS`."""
    rule: tuple[str, ...] = ("top_k_aware", "random")
    """Acquisition rules, of `jbt.acquisition.RULES`."""
    budget: tuple[int, ...] = (30, 64, 120, 200, 264, 320, 400, 528, 600, 800, 870)
    """Budgets of the table (verdicts), increasing; curves end at the largest, at most 870. At the
    paper's prices 264 cost $0.014, 528 of the dear judge $0.28 and 800 $0.42."""
    target: tuple[float, ...] = (0.6, 0.65, 0.7, 0.75, 0.89, 0.93, 1.0)
    """Recalls to be reached, increasing, in (0, 1]; 1 means at least 0.995, which prints as 1."""
    n_pools_sharing: tuple[int, ...] = prices.SHARING
    """Pools that reuse one decision of the gate (count), increasing."""
    cheap_input: float = 0.15
    """Dollars per million input tokens of the cheap judge."""
    cheap_output: float = 0.60
    """Dollars per million output tokens of the cheap judge."""
    dear_input: float = 1.25
    """Dollars per million input tokens of the dear judge."""
    dear_output: float = 10.0
    """Dollars per million output tokens of the dear judge."""
    input_tokens: float = 293.0
    """Input tokens of a comparison (mean count)."""
    output_tokens: float = 16.0
    """Output tokens of a comparison (mean count)."""
    cheap_reasoning: float = 0.0
    """Hidden tokens of a comparison that the cheap judge bills as output (mean count)."""
    dear_reasoning: float = 0.0
    """Hidden tokens of a comparison that the dear judge bills as output (mean count)."""
    n_anchors: int = 40
    """Trusted labels of one decision of the gate (count)."""
    label_price: float = prices.LABEL
    """Dollars a trusted label."""
    refit_every: int = 8
    """R, verdicts between refits (count)."""

    def decided(self) -> Settings:
        if self.n_samples is not None:
            return self
        return replace(self, n_samples=DRAWS.get(self.membership))

    @property
    def verdict_price(self) -> dict[str, float]:
        """Dollars a comparison, by judge."""
        tokens = self.output_tokens + self.cheap_reasoning, self.output_tokens + self.dear_reasoning
        cheap = self.input_tokens * self.cheap_input + tokens[0] * self.cheap_output
        dear = self.input_tokens * self.dear_input + tokens[1] * self.dear_output
        return {self.cheap: cheap / 1e6, self.dear: dear / 1e6}

    @property
    def labels(self) -> float:
        """Dollars for the labels of one decision."""
        return self.n_anchors * self.label_price


PRESETS = {
    "smoke": Settings(pools=16, n_seeds=2, budget=(32, 64), target=(0.4, 0.89)),
    "paper": Settings(pools=5, n_seeds=8, n_samples=1500, membership="counted"),
    "full": Settings(),
}


def check(s: Settings) -> None:
    """Raise `ValueError` for settings that make no sense, before anything runs."""
    if s.cheap == s.dear:
        raise ValueError(f"cheap and dear must be two judges, got {s.cheap} twice")
    if s.others not in pools.OTHERS:
        raise ValueError(f"others must be one of {', '.join(pools.OTHERS)}, got {s.others!r}")
    for name in PRICES:
        value = getattr(s, name)
        if not (np.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be finite and at least 0, got {value}")
    check_count("refit_every", s.refit_every)
    check_count("n_anchors", s.n_anchors, least=0)
    check_count("n_seeds", s.n_seeds)
    declare.check_listed("rule", s.rule, list(RULES))
    declare.check_increasing("budget", s.budget, least=s.refit_every, most=N_ITEMS * (N_ITEMS - 1))
    declare.check_increasing("target", s.target, least=0.01, most=1)
    declare.check_increasing("n_pools_sharing", s.n_pools_sharing, least=1)


def cases(s: Settings) -> list[tuple[str, str]]:
    """Judges, each with the model inside the loop."""
    return [(s.cheap, "bias_aware"), (s.cheap, "naive"), (s.dear, "naive")]
