"""NCCL over groups of nodes."""
