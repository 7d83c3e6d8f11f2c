"""Rules that decide whether to switch the correction on, from the labels it got right and wrong.

Every rule sees only the *discordant* labels, those on which the naive and the bias-aware ranking
differ: `right` where bias-aware agrees with the label, `wrong` where naive does. On all other
labels the two rankings agree, or one of them is tied, and they cannot be compared.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

Counts = Float[Array, "*labels"]


OF_COUNTS = ("at_least", "strict", "margin", "margin_share", "sign")
"""Rules that use only numbers of labels: bias-aware agrees with the labels at least as well as
naive (the paper's words; a tie enables, also none of either); better; by at least so many labels;
by at least a share of all labels bought; the sign test, which alone has a guarantee."""

SHARE = 0.075
"""Default of `margin_share`. Found by looking at the paper's table: among simple rules of counts
this one came near its enable rates. No theory gives it."""


def critical_values(alpha: float, most: int) -> np.ndarray:
    """For n = 0..most discordant labels, the smallest number of right ones at which `sign` enables:
    the smallest r with P(Bin(n, 1/2) >= r) <= alpha, n + 1 if there is none.

    Raises:
      ValueError: alpha not above 0 and below 1/2.
    """
    from scipy.stats import binom

    check_alpha(alpha)
    n = np.arange(most + 1)
    r = np.arange(most + 2)
    # The tail falls with r and is 0 beyond n.
    return (binom.sf(r - 1, n[:, None], 0.5) > alpha).sum(1)


def sign(right: Counts, wrong: Counts, critical: np.ndarray) -> Bool[Array, "*labels"]:
    """The exact one-sided sign test on the discordant labels: enable if bias-aware is right too
    often for a method that is right on at most half of them.

    **Guarantee**, at a level below one half. (1) Pairs, drawn at random from all or from the
    disputed ones: in any pool where the bias-aware model is right on at most half of the untied
    pairs that the two order differently, the test enables with probability at most alpha. (2)
    Members, a drawn from the contents in bias-aware's top k alone and b from those in naive's
    alone, independently and with replacement, `right` if a is good and b is not: in any pool whose
    recall the correction would not raise, the test enables with probability at most alpha. Labels
    of pairs do not protect pools where pairs are ordered better but top-k recall falls.

    **Proof.** Given their number n, the discordant pair labels are n of the D disputed untied pairs
    without replacement, R <= D/2 of them right. More right pairs make `right` stochastically
    larger, so let R = D/2 (D even; one pair more if odd). Then P(right = r) over the binomial's
    probability is proportional to 1 / ((R - r)! (R - n + r)!), symmetric about r = n/2 and falling
    away from it, so that the tails beyond n/2 are lighter than the binomial's, and a rejection lies
    beyond n/2. For members, with m contents a side of which g_a and g_b are good, g_a <= g_b, the
    chance of `right`, g_a (m - g_b) / m^2, is at most that of `wrong`, g_b (m - g_a) / m^2, and
    draws are independent. Given n discordant ones, `right` is then binomial with a chance of at
    most 1/2.

    **Wrong labels.** Both bounds hold if labels are reversed with the same chance e below one half,
    whichever ranking is right, and independently. Neither condition may be dropped: if the chance
    is 0.05 where bias-aware is right and 0.35 where naive is, 65 % of the labels of a pool at one
    half favour bias-aware; and a labeller who misjudges a content errs on all its pairs together.
    For pairs let s be the noisy lead, right minus wrong, of all labels but one. Making that one
    truly right instead of wrong raises the chance of a lead of at least c either way by (1 - 2e)
    (P(s = c - 1) - P(s = 1 - c)), which is not negative where the true lead of the others is not:
    so |lead| grows with the true |lead|. At R = D/2 the true |lead| is stochastically less than the
    binomial's, by the ratio above, hence the noisy one too; noise leaves the binomial as it is, and
    all are symmetric, so tails beyond n/2 compare the same way. With fewer right pairs the noisy
    count is smaller still. For members the chances of calling a and b good keep their order, if
    those for a good content and for another are the same on either side. A stored wrong label that
    is drawn again breaks the second bound, noise that favours length breaks both. Critical values
    of the hypergeometric, with D known, would have more power but hold only for true labels.

    Args:
      right, wrong: numbers of discordant labels.
      critical: from `critical_values`, for at least the largest possible number of labels.
    """
    n = (right + wrong).astype(jnp.int32)
    return right >= jnp.asarray(critical)[n]


def p_value(right: np.ndarray | int, wrong: np.ndarray | int) -> np.ndarray:
    """The p-value of `sign`: P(Bin(right + wrong, 1/2) >= right); 1 without discordant labels."""
    from scipy.stats import binom

    right, wrong = np.asarray(right), np.asarray(wrong)
    return np.asarray(binom.sf(right - 1, right + wrong, 0.5))


def decide(
    rule: str,
    right: Counts,
    wrong: Counts,
    *,
    critical: np.ndarray | None = None,
    margin: int = 2,
    bought: Counts | None = None,
    share: float = SHARE,
) -> Bool[Array, "*labels"]:
    """Whether a rule of counts enables the correction.

    Args:
      rule: one of `OF_COUNTS`.
      right, wrong: numbers of discordant labels.
      critical: for `sign`, from `critical_values`.
      margin: for `margin`, the least excess of right over wrong labels.
      bought, share: for `margin_share`, the number of labels, those on which the rankings agree
        included, and the least share of it by which right exceeds wrong, in (0, 1].

    Raises:
      ValueError: a rule not in `OF_COUNTS`, `sign` without its critical values, `margin_share`
        without the number of labels.
    """
    if rule == "sign" and critical is not None:
        return sign(right, wrong, critical)
    lead = right - wrong
    if rule == "margin_share" and bought is not None:
        # Less the rounding of the product, which would exclude a lead of exactly that share.
        return (lead > 0) & (lead >= share * (1 - 1e-6) * bought)
    least = {"at_least": 0, "strict": 1, "margin": margin}
    if rule in least:
        return lead >= least[rule]
    raise ValueError(
        f"a rule of counts ({', '.join(OF_COUNTS)}) is needed, sign with critical values and "
        f"margin_share with the number of labels, got {rule!r}"
    )


def check_alpha(alpha: float) -> None:
    """Raise `ValueError` unless alpha lies above 0 and below 1/2, where the guarantees hold."""
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie above 0 and below 1/2, got {alpha:g}")
