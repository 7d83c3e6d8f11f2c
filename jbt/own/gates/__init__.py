"""`jbt gate` and `jbt plan labels`: whether trusted labels support the correction."""
