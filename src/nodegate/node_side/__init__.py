"""What runs on the nodes: Python 3.6 and later with its standard library alone, sent by node_program.py."""
