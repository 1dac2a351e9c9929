"""Causes: the findings of a node put together into lines that a person can act on."""
