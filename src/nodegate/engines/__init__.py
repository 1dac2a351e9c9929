"""Engines: what already reaches every node of a cluster, knows who is busy, and lends nodes. One package for each.

The Protocols are in `engine`, the names in `registry`; nothing else of nodegate knows an engine by its name.
"""
