"""`jbt fit`: every pool, the coefficients that pools share, and all judges of a table at once."""
