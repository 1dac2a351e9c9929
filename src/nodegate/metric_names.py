"""The name of every number that a measurement can give: each is a limit key that a site's baseline may hold."""

from __future__ import annotations

DTYPES = ("bf16", "fp16", "tf32", "fp32", "fp64")
COPIES = ("device", "host_to_device", "device_to_host", "host_to_device_at_once", "device_to_host_at_once", "peer")
COLLECTIVES = ("all_reduce", "all_reduce_ring", "all_gather", "reduce_scatter", "alltoall", "sendrecv")
OVER_NODES = ("group_all_reduce", "group_alltoall", "group_sendrecv", "apart_all_reduce")

METRICS = frozenset(
    (
        *(f"burn.{dtype}_tflops" for dtype in DTYPES),
        "burn.gpu_burn_tensor_tflops",
        "burn.gpu_burn_fp32_tflops",
        "burn.sm_clock_mhz",
        "burn.power_w",
        "burn.temperature_c",
        *(f"memory.{way}_gb_per_s" for way in COPIES),
        *(f"nccl.{what}_gb_per_s" for what in (*COLLECTIVES, *OVER_NODES)),
        "rdma.write_gbps",
        "rdma.read_gbps",
        "rdma.write_latency_us",
        "rdma.read_latency_us",
        "rdma.inside_gbps",
        "rdma.gpu_write_gbps",
    )
)
