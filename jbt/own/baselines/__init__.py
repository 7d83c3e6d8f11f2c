"""`jbt leaderboard --beside`: other people's corrections, computed from the same verdicts and shown
beside the corrected ranking."""
