"""Units of the quantities that mean the same in every sweep, for the attributes of results."""

from __future__ import annotations

PER_UNIT = "logits per unit of the covariate"
SHARE_OF_TOP = "1 (share of the top k)"
SHARE_OF_PAIRS = "1 (share of labelled pairs; ties are halves)"
STATUS = "jbt.types.Status"

UNITS = {
    **dict.fromkeys(
        ("judge", "dataset", "question", "content", "pair", "prompt", "subset"), "name"
    ),
    **dict.fromkeys(("covariate", "link", "truth"), "kind"),
    **dict.fromkeys(("pool", "acquisition_seed"), "id"),
    **dict.fromkeys(("k", "n_items", "n_contents", "n_twice", "rank", "n_columns"), "count"),
    **dict.fromkeys(("budget", "table_budget", "refit_every", "asked"), "verdicts"),
    **dict.fromkeys(("naive_recall", "bias_aware_recall", "recall"), SHARE_OF_TOP),
    **dict.fromkeys(("agreement", "agreement_tied", "agreement_verdicts"), SHARE_OF_PAIRS),
    **dict.fromkeys(("bias", "c_map", "c_mle"), PER_UNIT),
    **dict.fromkeys(("sd", "theta", "pair_noise"), "logits"),
    **dict.fromkeys(("position", "kappa"), "logits in favour of the first shown"),
    **dict.fromkeys(("lam", "lam_b"), "1/logit^2"),
    "status": STATUS,
    "discrimination": "1 (factor on quality)",
    "rho": "1 (population correlation)",
    "realised_corr": "1 (correlation within the pool)",
    "uncertain": "1 (share of ordered pairs with 0.2 < p < 0.8)",
    "profile_range": "log-likelihood, over the estimate +- 1",
    "curvature": "log-likelihood per squared unit of c",
    "mle": f"{STATUS} of the MLE of c",
    "c_interval_width": f"{PER_UNIT} (95 %, profile)",
    "c_interval_width_wald": f"{PER_UNIT} (95 %)",
}
"""Unit of a coordinate or metric; a sweep's own `units` come before it."""
