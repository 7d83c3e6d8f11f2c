"""What the comparisons made can tell, and what they cannot.

A direction of the parameters along which no logit of a comparison made changes is a null direction
of the design matrix: the likelihood is flat along it, and the prior chooses. Whether a coefficient
c is touched by one is settled by the design alone (`null_space`, `rank`, `prior_selected`). How
much the verdicts say about c is measured by its profile log-likelihood (`profile`), and where that
has a single top, by the estimate there (`estimate_bias`).

With one covariate and kappa known, c is identified exactly if some closed chain of comparisons,
which may pass from one rendering of a content to another of it at any point, changes the covariate.
Kappa is told by any pair shown in both orders; where nothing tells it, it may be confounded with c.
With several covariates the renderings must differ in as many independent ways: if all differ by the
same amounts, only the sum of these amounts times c is told. Of several judges see
`jbt.identifiability.panel`, where all of this is proved.

`null_space` and `rank` call a direction null if it moves no logit by more than a millionth of what
others do; `estimate_bias` calls c flat if less than 1e-10 of its information is left, which is a
remainder of 1e-5 in the covariate.
"""

from jbt.identifiability.coefficient import efficient_information
from jbt.identifiability.design_matrix import comparison_matrix
from jbt.identifiability.directions import NullSpace, null_space
from jbt.identifiability.estimate import BiasEstimate, estimate_bias
from jbt.identifiability.likelihood import Profile, grid_around, likelihood_slice, profile
from jbt.identifiability.panel import difference
from jbt.identifiability.supremum import undetermined
from jbt.identifiability.unidentified import prior_selected, rank, unidentified_parts
from jbt.kernel.fit import FLAT

__all__ = [
    "FLAT",
    "BiasEstimate",
    "NullSpace",
    "Profile",
    "comparison_matrix",
    "difference",
    "efficient_information",
    "estimate_bias",
    "grid_around",
    "likelihood_slice",
    "null_space",
    "prior_selected",
    "profile",
    "rank",
    "undetermined",
    "unidentified_parts",
]
