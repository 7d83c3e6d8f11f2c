"""Twins: simulated judges whose average results match the paper's for its real judges.

A twin is a judge of Eq. 1 (discrimination a, bias c*, position kappa*, and a pair noise if it
answers with the likelier verdict) such that on the paper's pools the means of c_hat, kappa_hat and
the naive recall are the published ones. The other published numbers, first of all the bias-aware
recall, are not targets: they test whether the model behaves like the real judge.

**Three parameters for three targets.** A judge that draws its verdicts has only (a, c*, kappa*). A
judge that answers with the likelier verdict has a fourth parameter, the pair noise, but its
verdicts depend only on the ratios of the four: the search takes the pair noise as the unit. This
unit in logits matters only where the judge's verdicts are drawn afresh. It is set separately, by
the share of pairs that the judge is uncertain of (`UNCERTAIN`).

**Predictions of a twin include the calibration's error**, as its targets are means over a few
pools: see `error`.

`python -m jbt.twins` writes the twins of the paper's judges, with their distances from the targets,
to `data/twins.csv`. A recall printed as 1.00 has the target 0.995, the least that is printed so.
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
from jbt.twins.simulated import (
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
    errors,
    known,
    paper_pool,
    probability,
    read,
    twin,
    unit,
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
    "errors",
    "known",
    "observed",
    "paper_pool",
    "probability",
    "read",
    "slopes",
    "twin",
    "unit",
]
