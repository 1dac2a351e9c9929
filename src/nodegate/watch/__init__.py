"""Slow or silent training, recognised in the job's own log. A log alone never blames a node."""
