"""Slow or silent training, seen in the job's own log. A log alone never condemns a node."""
