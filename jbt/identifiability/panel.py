"""Several judges of the same items: what their comparisons identify, with proofs; and differences.

Judge g, of given discrimination s_g, has logits s_g (theta_i - theta_j) + (x_i - x_j) . c_g +
kappa_g. Let b_g = c_g / s_g, its bias in units of quality. Every kappa_g is taken to be identified:
it is known, or judge g saw some pair in both orders, whose logits sum to 2 kappa_g. Otherwise
kappa_g is the coefficient of one more covariate, to which a step of a chain adds 1 if it goes to
the item shown first, and -1 if it goes to the other.

**Chains.** A closed chain C of comparisons goes from content to content and back to where it began,
each step being a comparison by some judge between an item i of the one content and an item j of the
next. Let X_g(C), in R^D, be the sum of x_j - x_i over the steps that judge g made. *Changes d_g of
the coefficients c_g can be undone by qualities, for every comparison made, exactly if the sum over
g of X_g(C) . d_g / s_g is 0 for every closed chain C.* So the sum over g of a_g . b_g is identified
exactly if (a_1 ... a_J) is a linear combination of vectors (X_1(C) ... X_J(C)); where coefficients
are known, their entries do not count. If the X(C) span r dimensions, there are D J - r null
directions, beside the constants, one for each connected component of contents.

Proof. The change t of the qualities undoes them if at every step t_j - t_i = -(x_j - x_i) . d_g /
s_g. Along a spanning tree of each connected component this defines t, up to a constant for each
component. It holds at the other steps as well exactly if the prescribed differences sum to 0 around
every closed chain.

**(a) Nothing known, no content rendered twice.** Every closed chain leads x back to where it was:
the X_g(C) sum to 0 over g. So theta + x . delta, c_g - s_g delta for *all g at once* is a null
direction for every delta in R^D, whatever is compared and however often: D directions beside the
constants, each trading quality against one covariate. There is no other exactly if the X(C) span
the D (J - 1) dimensions that are left, that is, if all differences b_g - b_h are identified.
For b_g - b_h it is enough that the x_i - x_j span R^D over those pairs of items that chains of
g's comparisons link and chains of h's do too: along the one from i to j and back along the other,
X_g = x_j - x_i = -X_h. For two judges and one covariate the difference is identified exactly if
along some closed chain the steps of one judge change the covariate.

**(b) A reference, judge h, whose c_h is known; again no content rendered twice.** With c_h held,
the trade delta of all others stays a null direction exactly if (x_i - x_j) . delta = 0 for every
pair that h compared, as t = x . delta must change none of them. So a reference that only compared
items of equal x identifies nothing. And *if a judge g's own comparisons link all contents, a . c_g
is identified exactly for the a in the span of the x_i - x_j of h's comparisons*: with one
covariate, as soon as h compared one pair of differing x. For g's chain closes each of h's
comparisons, with X_g = x_i - x_j, and d_h is 0, so that d_g is at right angles to all these
differences; and an a beyond their span has a delta at right angles to them, but not to a. If they
span R^D, theta is identified up to its constant, and the coefficients of any other judge exactly if
its own pairs span R^D too. Where g links only some contents, it is enough that h's pairs within
that component span R^D. Where all differences are identified as in (a), one known coefficient of
each covariate, of any judge, identifies the rest: it sets one entry of the remaining delta to 0.

**(c) A second biased judge** buys differences and nothing about the common part. By (a) only sums
of a_g . b_g whose a_g sum to 0 are identified, so the profile of each c_g is flat from end to end
for any number of judges and verdicts. The likelihood depends on theta and c through theta + x . b_1
and the b_g - b_1 alone; given these, the posterior of b_1 is what its prior says.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Int

from jbt.types import Panel


def difference(panel: Panel, judge: int | Int[Array, ""], reference: int | Int[Array, ""]) -> Panel:
    """The same panel with a difference as a parameter: set `judge` of the coefficients becomes
    c_g - (s_g / s_h) c_h, the excess over the reference's, logits of judge g per unit; for equal
    discriminations c_g - c_h. `estimate_bias(difference(panel, g, h), design, judge=g)` estimates
    it with its intervals, and `profile` draws it.

    A `Variant` that fixes a coefficient of `judge` then fixes the difference, not c_g itself.

    Args:
      panel: whose judges each have coefficients of their own.
      judge, reference: g and h, two of 0..J-1; may be traced.

    Raises:
      ValueError: no such judge, the reference itself, judges that share coefficients.
    """
    n, pair = panel.discrimination.shape[0], (judge, reference)
    for name, value in zip(("judge", "reference"), pair, strict=True):
        if not isinstance(value, Tracer) and not 0 <= int(value) < n:
            raise ValueError(f"{name} must lie in 0..{n - 1}, got {int(value)}")
    if not any(isinstance(value, Tracer) for value in pair) and int(judge) == int(reference):
        raise ValueError(f"judge {int(judge)} cannot differ from itself")
    sharing, s = panel.sharing, panel.discrimination
    if not isinstance(sharing, Tracer) and not np.array_equal(sharing, np.eye(n)):
        raise ValueError("the judges must have coefficients of their own: sharing the identity")
    share = sharing.at[judge, reference].set(s[judge] / s[reference])
    return dataclasses.replace(panel, sharing=share)
