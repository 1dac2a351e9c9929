"""The sentences of a certificate; each is asked for in the language of its page."""

from nodegate.words.catalogue import known

PARTIES = {
    "supplier": known("Supplier"),
    "customer": known("Customer"),
    "supervisor": known("Supervisor"),
    "test_body": known("Test body"),
}
HEAD = (
    ("contract", "number", known("Contract number")),
    ("contract", "project", known("Project")),
    ("contract", "date", known("Contract date")),
    ("lot", "number", known("Lot number")),
    ("lot", "text", known("Lot")),
    ("site", "name", known("Site")),
    ("site", "address", known("Address")),
)
RESULTS = (known("accepted with reservations"), known("refused"), known("not decided"))
NO_ACCEPTANCE = known("no acceptance")
KINDS = {
    "rule": known("by its meaning"),
    "device": known("the device's own limit"),
    "baseline": known("platform's baseline"),
    "order": known("the order"),
    "derived": known("share of what physics allows"),
    "floor": known("only a floor: proves nothing"),
    "fleet": known("the other nodes"),
    "node": known("the other parts of the node"),
    "past": known("its earlier runs"),
}
TRAITS = (
    known("driver version"),
    known("CUDA driver version"),
    known("GPU model"),
    known("GPU VBIOS"),
    known("GSP firmware"),
    known("fabric manager version"),
    known("kernel"),
    known("operating system"),
    known("BIOS version"),
    known("server model"),
    known("NIC models"),
    known("NIC firmware"),
    known("NCCL version"),
    known("CUDA toolkit"),
    known("OFED version"),
    known("disks"),
)
ITEMS = {  # of an order
    "server_model": known("server model"),
    "cpu_model": known("CPU model"),
    "sockets": known("CPU sockets"),
    "cores": known("CPU cores online"),
    "numa_nodes": known("NUMA nodes"),
    "cpus": known("CPUs online"),
    "memory_gib": known("installed memory"),
    "gpus": known("GPUs on PCIe"),
    "gpu_model": known("GPU model"),
    "gpu_part_number": known("GPU part number"),
    "gpu_memory_mib": known("GPU memory"),
    "nvswitches": known("NVSwitches on PCIe"),
    "nics": known("RDMA NICs on PCIe"),
    "nic_model": known("NIC model"),
    "disks": known("disks"),
    "disk_model": known("disk model"),
    "disk_gb": known("disk size"),
}
