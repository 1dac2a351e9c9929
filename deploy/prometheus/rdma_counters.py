#!/usr/bin/env python3
"""Writes the RDMA hw_counters of this node for node_exporter before 1.11 (textfile collector), as 1.11 names them.

    * * * * * root /usr/local/sbin/rdma_counters.py /var/lib/prometheus/node-exporter/rdma_counters.prom

From 1.11 on node_exporter reads them itself, and the same series twice would break all of its metrics: then the file is
removed, and it is not written where the version cannot be read. Python 3.6 and its standard library. Exit code 0:
written, or removed because node_exporter has them; 1: not written, the reason is said.
"""

import argparse
import http.client
import os
import re
import sys
import urllib.request
from typing import Iterable, Iterator, List, Optional, Tuple

HAS_THEM = (1, 11)
MOST_BYTES = 64 << 20  # of what node_exporter serves
PREFIX = "node_infiniband_"
# hw_counters/FILE -> the name in 1.11; the third of slow restarts is crossed there, and so it is here
NAMES = {
    "duplicate_request": "duplicate_requests_packets_total",
    "implied_nak_seq_err": "implied_nak_seq_errors_total",
    "local_ack_timeout_err": "local_ack_timeout_errors_total",
    "np_cnp_sent": "np_cnp_packets_sent_total",
    "np_ecn_marked_roce_packets": "np_ecn_marked_roce_packets_received_total",
    "out_of_buffer": "out_of_buffer_drops_total",
    "out_of_sequence": "out_of_sequence_packets_received_total",
    "packet_seq_err": "packet_sequence_errors_total",
    "rnr_nak_retry_err": "rnr_nak_retry_packets_received_total",
    "roce_adp_retrans": "roce_adp_retransmits_total",
    "roce_adp_retrans_to": "roce_adp_retransmits_timeout_total",
    "roce_slow_restart": "roce_slow_restart_used_total",
    "roce_slow_restart_cnps": "roce_slow_restart_cnps_total",
    "roce_slow_restart_trans": "roce_slow_restart_total",
    "rp_cnp_handled": "rp_cnp_packets_handled_total",
    "rp_cnp_ignored": "rp_cnp_ignored_packets_received_total",
    "rx_icrc_encapsulated": "rx_icrc_encapsulated_errors_total",
}
_VERSION = re.compile(rb'^node_exporter_build_info\{[^}\n]*version="([0-9]+)\.([0-9]+)[^"]*"', re.MULTILINE)


def exporter_version(url: str) -> Optional[Tuple[int, int]]:
    """(major, minor) of the node_exporter that answers there; None if none does or it does not say."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            found = _VERSION.search(answer.read(MOST_BYTES))
    except (OSError, ValueError, http.client.HTTPException):
        return None
    return (int(found.group(1)), int(found.group(2))) if found else None


def counters(sys_folder: str) -> Iterator[Tuple[str, str, str, int]]:
    """(name, device, port, value) of each counter below SYS/class/infiniband that is there and a number."""
    top = os.path.join(sys_folder, "class", "infiniband")
    for device in _names(top):
        for port in _names(os.path.join(top, device, "ports")):
            folder = os.path.join(top, device, "ports", port, "hw_counters")
            for file, name in sorted(NAMES.items(), key=lambda each: each[1]):
                value = _number(os.path.join(folder, file))
                if value is not None:
                    yield name, device, port, value


def _names(folder: str) -> List[str]:
    try:
        return [name for name in sorted(os.listdir(folder)) if re.match(r"[A-Za-z0-9_.-]{1,64}\Z", name)]
    except OSError:
        return []


def _number(path: str) -> Optional[int]:
    try:
        with open(path, "rb") as file:
            said = file.read(32).strip()
    except OSError:
        return None
    return int(said) if re.match(rb"[0-9]{1,20}\Z", said) else None


def text(found: Iterable[Tuple[str, str, str, int]]) -> str:
    """The lines of a textfile, by metric."""
    lines, last = [], ""  # type: List[str], str
    for name, device, port, value in sorted(found):
        if name != last:
            lines.append(f"# TYPE {PREFIX}{name} counter")
        last = name
        lines.append(f'{PREFIX}{name}{{device="{device}",port="{port}"}} {value}')
    return "".join(line + "\n" for line in lines)


def write(path: str, said: str) -> None:
    """Write a file as a whole: node_exporter never reads half of it."""
    beside = f"{path}.{os.getpid()}"
    with open(beside, "w") as file:
        file.write(said)
    os.chmod(beside, 0o644)
    os.rename(beside, path)


def main() -> int:
    """Write the file, or remove it."""
    parser = argparse.ArgumentParser(description="RDMA hw_counters for the textfile collector of node_exporter")
    parser.add_argument("file", help="the file to write: NAME.prom in the folder of --collector.textfile.directory")
    parser.add_argument("--exporter", default="http://127.0.0.1:9100/metrics", help="where node_exporter answers")
    parser.add_argument("--sys", default="/sys", help="the sysfs to read")
    asked = parser.parse_args()
    version = exporter_version(asked.exporter)
    try:
        if version is not None and version < HAS_THEM:
            write(asked.file, text(counters(asked.sys)))
            return 0
        if os.path.exists(asked.file):
            os.remove(asked.file)
    except OSError as said:
        print(f"rdma_counters: {asked.file}: {said.strerror}", file=sys.stderr)
        return 1
    if version is None:
        print("rdma_counters: not written: no node_exporter tells its version at " + asked.exporter, file=sys.stderr)
    return 1 if version is None else 0


if __name__ == "__main__":
    sys.exit(main())
