"""The name of every number that a measurement can give, and what people call it.

Each is a limit key that a site's baseline may hold.
"""

DTYPES = ("bf16", "fp8", "fp4", "fp32", "fp64")  # what the burn computes in

# What people call each: "GPU 5: host to device 27.8 GB/s", "could not read bf16 rate".
WORDS = {
    **{f"burn.{dtype}_tflops": f"{dtype} rate" for dtype in DTYPES},
    "burn.gpu_burn_tensor_tflops": "gpu_burn rate on tensor cores",
    "burn.gpu_burn_fp32_tflops": "gpu_burn rate in fp32",
    "burn.sm_clock_mhz": "SM clock under load",
    "burn.power_w": "power under load",
    "burn.temperature_c": "temperature under load",
    "memory.read_gb_per_s": "memory bandwidth (read)",
    "memory.copy_gb_per_s": "memory bandwidth (copy)",
    "memory.triad_gb_per_s": "memory bandwidth (triad)",
    "memory.device_gb_per_s": "memory bandwidth (copy engine)",
    "memory.host_to_device_gb_per_s": "host to device",
    "memory.device_to_host_gb_per_s": "device to host",
    "memory.host_both_ways_gb_per_s": "host copies both ways",
    "memory.host_to_device_at_once_gb_per_s": "host to device with all GPUs at once",
    "memory.device_to_host_at_once_gb_per_s": "device to host with all GPUs at once",
    "memory.peer_gb_per_s": "GPU to GPU",
    "nccl.all_reduce_gb_per_s": "all_reduce",
    "nccl.all_reduce_ring_gb_per_s": "all_reduce ring",
    "nccl.all_gather_gb_per_s": "all_gather",
    "nccl.reduce_scatter_gb_per_s": "reduce_scatter",
    "nccl.alltoall_gb_per_s": "alltoall",
    "nccl.sendrecv_gb_per_s": "sendrecv",
    "nccl.group_all_reduce_gb_per_s": "all_reduce over nodes",
    "nccl.group_alltoall_gb_per_s": "alltoall over nodes",
    "nccl.group_sendrecv_gb_per_s": "sendrecv over nodes",
    "nccl.apart_all_reduce_gb_per_s": "all_reduce in every node at once",
    "rdma.write_gbps": "RDMA write bandwidth",
    "rdma.read_gbps": "RDMA read bandwidth",
    "rdma.sends_gbps": "RDMA write bandwidth of what it sends",
    "rdma.receives_gbps": "RDMA write bandwidth of what it receives",
    "rdma.write_latency_us": "RDMA write latency",
    "rdma.read_latency_us": "RDMA read latency",
    "rdma.both_ways_gbps": "RDMA write bandwidth of both directions at once",
    "rdma.inside_gbps": "RDMA write bandwidth inside the node",
    "rdma.gpu_write_gbps": "RDMA write bandwidth from GPU memory",
}
METRICS = frozenset(WORDS)


def words(name: str) -> str:
    """What people call a metric; of a site's own the last word of its key."""
    return WORDS.get(name) or name.rpartition(".")[2].replace("_", " ")
