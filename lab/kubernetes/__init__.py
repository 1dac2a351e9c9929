"""Kubernetes' own programs on this machine: an API server with as many nodes as a test writes, and one real node."""
