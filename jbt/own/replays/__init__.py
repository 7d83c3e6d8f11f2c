"""`jbt replay`: acquisition rules tried on recorded verdicts."""
