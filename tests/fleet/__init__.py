"""Recorded nodes that look like real ones: the machines of the tests, and the demo fleet with its planted faults."""
