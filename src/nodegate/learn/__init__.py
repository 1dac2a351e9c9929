"""Baselines learned from a run, and compared."""
