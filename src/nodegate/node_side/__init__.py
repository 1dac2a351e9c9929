"""What runs on the nodes: Python 3.6 and later with only its standard library, sent by node_program.py."""
