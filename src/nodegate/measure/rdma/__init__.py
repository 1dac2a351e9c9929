"""RDMA bandwidth and latency between nodes."""
