"""What the comparisons made can tell, and what they cannot.

A direction of the parameters along which no logit of a comparison made changes is a null direction
of the design matrix: the likelihood is flat along it, and the prior chooses. Whether a coefficient
c is touched by one is settled by the design alone (`null_space`, `rank`, `prior_selected`). How
much the verdicts say about c is measured by its profile log-likelihood (`profile`), and where that
has a single top, by the estimate there (`estimate_bias`).

c is identified exactly if some cycle of comparisons changes the covariate without changing the
contents shown: two renderings of one content, linked by a chain of comparisons. Comparisons in
one order alone, between renderings whose covariates always differ by the same amount, tell c plus
kappa and not c.
"""

from jbt.fit import FLAT
from jbt.identifiability.directions import (
    NullSpace,
    comparison_matrix,
    null_space,
    prior_selected,
    rank,
)
from jbt.identifiability.likelihood import (
    BiasEstimate,
    Profile,
    efficient_information,
    estimate_bias,
    grid_around,
    profile,
)

__all__ = [
    "FLAT",
    "BiasEstimate",
    "NullSpace",
    "Profile",
    "comparison_matrix",
    "efficient_information",
    "estimate_bias",
    "grid_around",
    "null_space",
    "prior_selected",
    "profile",
    "rank",
]
