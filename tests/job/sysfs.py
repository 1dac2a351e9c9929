"""A made /sys with RDMA ports, and a real node_exporter that reads it."""

import contextlib

from job.server import answering
from support.sshd import free_port

PORT = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)",
        "counters/port_xmit_data": "1000", "counters/port_rcv_data": "2000"}  # fmt: skip


def made_sys(folder, hw_counters, devices=("mlx5_0", "mlx5_1")):
    """/sys with a port of each device; gives its path."""
    for device in devices:
        port = folder / "class" / "infiniband" / device / "ports" / "1"
        (port.parents[1]).mkdir(parents=True)
        for name, text in {"board_id": "MT_0000000838", "fw_ver": "28.43.2026", "hca_type": "MT4129"}.items():
            (port.parents[1] / name).write_text(f"{text}\n")
        more = {f"hw_counters/{name}": text for name, text in hw_counters.items()}
        for name, text in {**PORT, **more}.items():
            (port / name).parent.mkdir(parents=True, exist_ok=True)
            (port / name).write_text(f"{text}\n")
    return folder


@contextlib.contextmanager
def node_exporter(sysfs, textfiles):
    """A real node_exporter; gives its address."""
    port = free_port()
    command = ["prometheus-node-exporter", f"--path.sysfs={sysfs}", f"--collector.textfile.directory={textfiles}",
               "--collector.disable-defaults", "--collector.infiniband", "--collector.textfile", "--collector.uname",
               "--collector.meminfo", f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
    with answering(command, f"http://127.0.0.1:{port}/metrics"):
        yield f"http://127.0.0.1:{port}/metrics"
