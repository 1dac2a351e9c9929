"""Measured numbers, judged: docs/reference/statistics.md has the methods in the order of these files."""
