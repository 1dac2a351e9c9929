"""A Kubernetes cluster: its GPU nodes as an inventory; verdicts on them as conditions, events and taints."""
