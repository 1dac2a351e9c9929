"""NCCL inside a node."""
