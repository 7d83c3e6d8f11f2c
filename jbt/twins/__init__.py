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

**What a twin predicts has the calibration's error in it**: its targets are means of a few pools.
`error` carries it.

The twins of the paper's judges are in `data/twins.csv`, which `python -m jbt.twins` writes; how far
each is from its targets stands there too. Recall that is printed as 1.00 is aimed at with 0.995,
the least that is printed so.
"""

from jbt.twins.calibration import aim_of, calibrate
from jbt.twins.error import (
    DISPLACED,
    PARAMETERS,
    ROUNDING,
    TARGETS,
    CalibrationError,
    displaced,
    observed,
    slopes,
)
from jbt.twins.twin import (
    DATA,
    DOUBT,
    MAX_CORRELATION,
    ORACLES,
    PERFECT,
    TOLERANCE,
    UNCERTAIN,
    Twin,
    answers,
    conditions,
    known,
    paper_pool,
    probability,
    read,
    twin,
)

__all__ = [
    "DATA",
    "DISPLACED",
    "DOUBT",
    "MAX_CORRELATION",
    "ORACLES",
    "PARAMETERS",
    "PERFECT",
    "ROUNDING",
    "TARGETS",
    "TOLERANCE",
    "UNCERTAIN",
    "CalibrationError",
    "Twin",
    "aim_of",
    "answers",
    "calibrate",
    "conditions",
    "displaced",
    "known",
    "observed",
    "paper_pool",
    "probability",
    "read",
    "slopes",
    "twin",
]
