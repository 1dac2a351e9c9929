"""The node side of the measurements under load: what is sent to a node and computes there.

These modules run on Python 3.6 and later with only the standard library and the NVIDIA driver. They are imported
under their own names on the node (from memory, see nodegate.node_program).
"""
