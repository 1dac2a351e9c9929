"""Lines that look alike and are of different devices, nodes or days are different errors."""

import json
from datetime import datetime, timezone

import pytest
from fleet.machine import Machine
from support.job_logs import iteration, kernel, write, xid

from nodegate.knowledge.words import Cause
from nodegate.records.evidence import Evidence
from nodegate.records.run_folder import RunFolder
from nodegate.triage import reading, sources
from nodegate.triage.triage import triage

NOW_S = 1_786_406_400.0  # 2026-08-11
GONE = "pid=1234, GPU has fallen off the bus."


def events_of(*paths):
    case = reading.read(sources.find([str(path) for path in paths], []), now_s=NOW_S)
    return sorted((event.place.node, event.kind.id, event.device) for event in case.events)


def journal(day, message):
    """A line of `journalctl -o json` whose message comes first: the order of its fields is not fixed."""
    when = datetime.fromisoformat(f"{day}+00:00").astimezone(timezone.utc)
    entry = {"MESSAGE": message, "PRIORITY": "3", "_TRANSPORT": "kernel", "_HOSTNAME": "gpu07"}
    return json.dumps({**entry, "__REALTIME_TIMESTAMP": str(int(when.timestamp() * 1e6))})


def test_a_fault_of_an_earlier_day_does_not_hide_the_same_one_of_today(tmp_path):
    failed = "[2026-08-10 15:36:05.0] RuntimeError: CUDA error: unspecified launch failure"
    write(tmp_path, "gpu07/rank3.log", iteration("15:36:00.0", 7), failed)
    lost = xid("0000:3b:00", 79, GONE)
    write(tmp_path, "gpu07.kernel.json", journal("2026-08-08T15:36:04", lost), journal("2026-08-10T15:36:04", lost))
    found = triage([str(tmp_path)], now_s=NOW_S)
    assert (found.cause, found.where.node, found.root.line) == (Cause.HARDWARE, "gpu07", 2)


def test_addresses_that_differ_in_their_domain_alone_are_different_gpus(tmp_path):
    """GB200 has each of its GPUs at bus 01 of a domain of its own."""
    gpus = [("gpu01", "0008:01:00"), ("gpu02", "0018:01:00"), ("gpu02", "0019:01:00")]
    lines = [f"{node}: {xid(address, 79, GONE)}" for node, address in gpus]
    path = write(tmp_path, "job.log", "gpu01: [2026-08-10 15:35:00.0] hello", *lines)
    assert events_of(path) == [(node, "xid_79", f"{address}.0") for node, address in gpus]


@pytest.mark.parametrize(
    ("message", "device"),
    [
        ("pciehp 0000:97:01.0:pcie004: Slot(7): Link Down", "0000:97:01.0"),
        ("bnxt_en 0000:5c:00.0 eth4: NIC Link is Down", "0000:5c:00.0"),
        ("XFS (nvme1n1): Internal error XFS_WANT_CORRUPTED_GOTO at line 1", "nvme1n1"),
        ("EXT4-fs (nvme3n1p1): I/O error while writing superblock", "nvme3n1"),
        ("Aborting journal on device sda2-8.", "sda"),
        ("XFS (md0): log I/O error -5", "md0"),
        ("Pool 'tank' has encountered an uncorrectable I/O failure and has been suspended.", "tank"),
    ],
)
def test_a_kernel_line_is_of_the_device_that_it_names_wherever_it_names_it(tmp_path, message, device):
    path = write(tmp_path, "dmesg-gpu01.txt", kernel("15:36:05.0", message))
    assert [found for *_, found in events_of(path)] == [device]


def test_two_gpus_of_a_recorded_node_are_two_even_in_one_minute(tmp_path):
    run = RunFolder.create(tmp_path / "run", profile="troubleshoot", started_epoch_s=NOW_S)
    machine = Machine.hgx_h100("gpu07", 7, epoch_s=NOW_S)
    for bus in ("1b", "9b"):
        machine.kernel(xid(f"0000:{bus}:00", 79, GONE), ago_s=30.0)
    run.write_evidence(Evidence("gpu07", "facts", NOW_S, 1.0, document=machine.document()))
    case = reading.read(sources.find([str(run.path)], []), now_s=NOW_S)
    assert {event.device for event in case.events if event.kind.id == "xid_79"} == {"0000:1b:00.0", "0000:9b:00.0"}
