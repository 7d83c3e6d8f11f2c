"""The paper's model for one pool: likelihood, fit, posterior, membership of the top k."""
