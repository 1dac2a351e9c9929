"""Memory bandwidth and copies of GPUs."""
