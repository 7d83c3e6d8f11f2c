"""Synthetic pools and judges, and the driver that runs one-pool functions on thousands of pools."""
