"""`jbt leaderboard`: models ranked over all prompts, with intervals over prompts."""
