"""Regression gates: the verdict on two studies, its evidence, rival checkouts, and the pytest plugin."""
