"""Synthetic pools with known quality and covariates."""

from jbt.simulation.pools.covariates import (
    BINARY_RHO_MAX,
    RHO_MAX,
    CovariateKind,
    check_max_correlation,
    check_rho,
    realised_correlation,
    with_covariates,
)
from jbt.simulation.pools.kinds import (
    OTHERS,
    POOLS,
    check_balance,
    check_kind,
    gaussian,
    statement_bank,
    statements,
)
from jbt.simulation.pools.renderings import (
    check_renderings,
    in_both_forms,
    paired,
)

__all__ = [
    "BINARY_RHO_MAX",
    "OTHERS",
    "POOLS",
    "RHO_MAX",
    "CovariateKind",
    "check_balance",
    "check_kind",
    "check_max_correlation",
    "check_renderings",
    "check_rho",
    "gaussian",
    "in_both_forms",
    "paired",
    "realised_correlation",
    "statement_bank",
    "statements",
    "with_covariates",
]
