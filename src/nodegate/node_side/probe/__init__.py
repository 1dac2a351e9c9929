"""The node side of the probe: what is sent to a node and run there.

These modules run on Python 3.6 and later with only the standard library. They are imported under their own
names on the node (from memory, see nodegate.probe.program), so they may import each other and nothing else of nodegate.
"""
