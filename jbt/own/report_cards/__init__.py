"""Report cards of judges: how often they are right and what they prefer, by counting."""
