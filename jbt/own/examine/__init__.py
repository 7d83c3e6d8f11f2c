"""`jbt doctor` and `jbt identify`: what a table supports, and what its verdicts identify."""
