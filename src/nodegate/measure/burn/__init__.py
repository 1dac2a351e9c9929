"""The burn of all GPUs of a node."""
