"""What a user chooses among: options of the commands and arguments of the library.

Nothing here loads JAX or pandas, so that the help of a command is shown at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Difference = Literal["plain", "relative"]
Missing = Literal["drop", "bounds"]
Position = Literal["yes", "no", "auto"]
Ties = Literal["half", "drop", "davidson"]
Transform = Literal["none", "log", "log1p"]
Orders = Literal["both", "random", "rule"]
Repeats = Literal["never", "fresh"]
Stops = Literal["posterior", "anytime"]
Fitted = Literal["naive", "bias_aware"]
"""Model of the fits of a replay."""

LEASE = 600.0
"""Seconds that an ask is held for whoever asked, unless said otherwise."""

FEW_RULES = ("top_k_aware", "thompson", "lucb", "random")
"""Rules of a replay, of which compiling takes seconds each; see `acquisition.RULES` for others."""


def check_distinct(names: Sequence[str | None]) -> None:
    """Raise `ValueError` where one column is named for two things."""
    for name in names:
        if name is not None and names.count(name) > 1:
            raise ValueError(f"column {name!r} is named for two things")


def check_names(covariates: Sequence[str]) -> None:
    """Raise `ValueError` for anything but a list of names: letters of a string would be taken for
    names."""
    listed = isinstance(covariates, (list, tuple))
    if not listed or not all(isinstance(name, str) for name in covariates):
        shown = repr(covariates) if isinstance(covariates, str) else type(covariates).__name__
        raise ValueError(f"covariates must be a list of columns, got {shown}")


@dataclass(frozen=True)
class Columns:
    """Names of the verdict table's columns; `pool` applies to the other tables too. With None for
    the judge, all verdicts are one judge's."""

    first: str = "first"
    second: str = "second"
    winner: str = "winner"
    pool: str = "pool"
    judge: str | None = "judge"

    def __post_init__(self) -> None:
        check_distinct(list(asdict(self).values()))


@dataclass(frozen=True, kw_only=True)
class Model:
    """What may bias the judges, and how it enters every fit."""

    covariates: Sequence[str] = ()
    """Columns of the items table."""
    transform: Transform = "none"
    """Of every covariate, before it is standardised."""
    standardise: bool = True
    """Whether covariates are centred and scaled over the whole items table, so that c is in logits
    per standard deviation; else it is in logits per unit."""
    position: Position = "auto"
    """Whether kappa is estimated, or fixed at 0. auto estimates it in each pool where some pair was
    shown in both orders. Elsewhere kappa would rest on the additivity of the model and on the prior
    of quality, and absorb that better items were listed first, say."""

    def check(self) -> None:
        """Raise `ValueError` where a word is not allowed."""
        from jbt.types import check_word  # loads JAX

        check_names(self.covariates)
        check_word("transform", self.transform, get_args(Transform))
        check_word("standardise", self.standardise, (True, False))
        check_word("position", self.position, get_args(Position))


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What to rank by, beside what every fit is asked: options of `jbt leaderboard`."""

    difference: Difference = "plain"
    """How the covariates a and b of two items are compared: a - b (plain), or (a - b) / (a + b)
    (relative). Standardising divides a relative difference by its root mean square."""
    robust: bool = False
    """Also print the ranks under log1p, no transform and relative differences of the covariates,
    and with ties dropped."""
    missing: Missing = "drop"
    """Missing verdicts are left out (drop). With bounds, c and the ranks are also estimated as if
    the item with more of the covariate had won all of them, and as if the other had."""
    rho: tuple[float, float] = (-0.5, 0.5)
    """If c is not identified: the lowest and the highest correlation of quality and covariate, over
    the models, for which to give the ranks."""
    against: str | None = None
    """Give win rates against this model. By default the mean over all others."""
    elo: str | None = None
    """Give qualities as Elo, 400 / ln 10 points a logit. NAME=1000 fixes one model, and intervals
    are then of the difference from it; 1000 fixes the mean over the models."""
    judge_aware: bool = False
    """With --joint, estimate each judge's discrimination, the factor on quality in its logits. It
    is 1 for the reference, or else for the anchors or the first judge."""
    one_comparison: bool = False
    """Also estimate each judge's c on one comparison, and how much quality and c vary between
    prompts and models, by a fit with random effects (up to a minute for each judge). No verdict may
    be a tie or graded."""
    beside: tuple[str, ...] = ()
    """Also show the results of another correction (space-separated). ppi: prediction-powered win
    rates, which rest on trusted labels (--anchors), so that no bias of the judge can move them."""


@dataclass(frozen=True, kw_only=True)
class StudyChoices:
    """How a study asks and when it stops: options of `jbt ask`."""

    k: int = 1
    """Number of contents of the top k."""
    covariates: tuple[str, ...] = ()
    """Columns of the items table that may bias the judge (space-separated)."""
    transform: Transform = "none"
    """Transformation of every covariate before it is standardised."""
    standardise: bool = True
    """Centre and scale covariates over the whole items table."""
    content: str = "content"
    """Column of the items table that says which items share a quality; with `none` each item has
    its own."""
    text: str = "text"
    """Column of the items table with the text to show to the judge, if there is one."""
    judges: tuple[str, ...] = ()
    """Names of the judges that can be asked, the cheapest first. Without names there is one
    judge."""
    price: tuple[float, ...] = ()
    """Price of a verdict of each judge, in any unit (space-separated). By default 1 each."""
    reference: str | None = None
    """A judge whose c and kappa are 0."""
    rule: Any = None
    """Acquisition rule; by default that of `stop` in `RULE_OF`."""
    stop: Stops = "posterior"
    """When the top k is sure, which stops the study. `posterior`: once the model gives it the
    probability `level`. `anytime`: once tests of single pairs decide it; it is then the judge's
    own top k, its bias included (`jbt.acquisition.anytime`)."""
    budget: int | None = None
    """Largest number of verdicts. By default all that can be asked. With `--repeats fresh` there is
    no end to them, so a budget or a purse is needed."""
    purse: float | None = None
    """Budget in money: the most that may be spent, in the unit of the prices."""
    orders: Orders = "both"
    """`both`: every pair is shown in both orders, so that kappa can be estimated. `random`: it is
    shown in one order, drawn at random. `rule`: the rule chooses among ordered pairs."""
    repeats: Repeats = "never"
    """`never`: a pair is asked once in each order, because the judge would repeat itself. `fresh`:
    it may be asked again, and the judge answers anew."""
    refit_every: int = 1
    """Number of verdicts of a pool between refits."""
    level: float = 0.95
    """Stop once the top k is certain with this probability; 1 never stops for this reason. In each
    pool an `anytime` stop is wrong with a probability of at most 1 - level."""
    indifferent: float = 0.0
    """At the boundary of the top k, contents whose qualities differ by less than this count as
    equally good (logits)."""
    least_gain: float = 0.0
    """Stop once the rest of the budget can remove less than this share of the doubt about the top k
    (`jbt.acquisition.stopping.attainable`); 0 never stops for this reason."""
    lam: float = 1.0
    """Prior precision of quality (1/logit^2)."""
    lam_b: float = 0.1
    """Prior precision of c and kappa (1/logit^2)."""
    attempts: int = 3
    """Number of errors after which an ordered pair is not asked again; with `--repeats fresh`, of
    errors in a row."""
    seed: int = 0
    """Root of every random draw, from 0 to 2^32 - 1."""
