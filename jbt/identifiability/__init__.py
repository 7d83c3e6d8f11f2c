"""What the comparisons made identify, and what they do not.

A direction of the parameters that changes no logit of a comparison made is a null direction of the
design matrix: the likelihood is flat along it, and the prior chooses. The design alone decides
whether a null direction moves a coefficient c (`null_space`, `unidentified_parts`). The profile
log-likelihood of c (`profile`) measures how much the verdicts say about it; where that has a single
maximum, `estimate_bias` returns it.

With one covariate and kappa known, c is identified exactly if some closed chain of comparisons,
which may pass from one rendering of a content to another of it at any point, changes the covariate.
Any pair shown in both orders identifies kappa; without one, kappa may be confounded with c.
With several covariates the renderings must differ in as many independent ways: if all differ by the
same amounts, only the sum of these amounts times c is identified. `jbt.identifiability.directions`
treats several judges, and has the proofs.

`null_space` calls a direction null if it moves no logit by more than a millionth of what
others do. `estimate_bias` calls c flat if less than 1e-10 of its information is left: a remainder
of 1e-5 in the covariate.
"""

from jbt.identifiability.coefficient import efficient_information
from jbt.identifiability.design_matrix import NULL, comparison_matrix, with_gram
from jbt.identifiability.directions import NullSpace, null_directions, null_space
from jbt.identifiability.estimate import BiasEstimate, estimate_bias
from jbt.identifiability.profile_likelihood import Profile, grid_around, profile
from jbt.identifiability.supremum import undetermined
from jbt.identifiability.unidentified import unidentified_parts
from jbt.kernel.fit import FLAT

__all__ = [
    "FLAT",
    "NULL",
    "BiasEstimate",
    "NullSpace",
    "Profile",
    "comparison_matrix",
    "efficient_information",
    "estimate_bias",
    "grid_around",
    "null_directions",
    "null_space",
    "profile",
    "undetermined",
    "unidentified_parts",
    "with_gram",
]
