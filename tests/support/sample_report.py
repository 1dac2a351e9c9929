"""Reports made up for tests: a small one that holds every kind of verdict, and fleets of any size."""

import random
from dataclasses import replace

from nodegate.claims.verdict import node_verdict
from nodegate.files.text_file import Source
from nodegate.records import part
from nodegate.records.finding import AT_LEAST, AT_MOST, Finding, Limit, Record, share_left
from nodegate.records.part import NODE
from nodegate.records.run import CheckInfo, Drift, NodeReport, Run
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.model import Report

CHECKS = {
    "gpu": "count ecc_errors remapped_rows retired_pages xid clocks_idle power_limit temperature persistence mig gsp",
    "pcie": "link_width link_speed replays aer acs",
    "nvlink": "links_up errors fabric_state fabric_manager nvswitch_log",
    "rdma": "ports_active rate link_flaps symbol_errors gids firmware mtu pfc",
    "system": "kernel shm hugepages limits oom clock dns mounts storage_io memory dstate sshd drift_bios",
    "burn": "throughput clocks_loaded throttle temperature_spread memory_errors power",
    "copy": "host_to_device device_to_host peer",
    "nccl": "all_reduce all_reduce_nvls alltoall sendrecv version environment settings",
    "fabric": "write_bw read_bw latency",
}
IDS = [f"{module}.{name}" for module, names in CHECKS.items() for name in names.split()]
MEASURED = {
    "burn.throughput": ("throughput", 702.0, "TFLOPS", 650.0),
    "burn.power": ("power", 695.0, "W", 660.0),
    "copy.host_to_device": ("host to device", 55.2, "GB/s", 50.0),
    "fabric.write_bw": ("ib_write_bw", 392.6, "Gb/s", 370.0),
    "nccl.all_reduce": ("busbw at 8 GiB", 478.0, "GB/s", 450.0),
    "pcie.link_width": ("link width", 16, "lanes", 16),
}


def run(**changes):
    values: dict[str, object] = {
        "id": "20261121T081500Z-delivery",
        "profile": "delivery",
        "started_epoch_s": 1795248900.0,
        "finished_epoch_s": 1795252145.5,
        "suite_version": "0.1.0",
        "command": "pytest --inventory hosts.yaml --profile delivery",
        "host": "deploy01",
        "user": "mia",
        "inventory": (Source("hosts.yaml", "3b" * 32),),
        "baselines": (Source("baselines/hgx-h100-sxm5.yaml", "a7" * 32),),
        "versions": {"python": "3.11.7", "pytest": "9.2.0", "paramiko": "5.1.0"},
    }
    return Run(**{**values, **changes})


def gpu(index, node="gpu001"):
    """A GPU by all of its names."""
    return part.gpu(index, address=f"0000:{index + 0x3A:02x}:00.0", serial=serial(node, index))


def serial(node, index):
    number = int("".join(filter(str.isdecimal, node)) or 0)
    return f"16{number:08d}{index:03d}"


def finding(check, of, value, verdict):
    quantity, _, unit, low = MEASURED[check]
    limit = Limit(low, unit, "baselines/hgx-h100-sxm5.yaml", AT_LEAST)
    remedy = "power-cycle the node; if it stays, reseat the board or riser"
    action = "" if verdict is Verdict.PASS else remedy
    return Finding(of, verdict, quantity, value, unit, limit, action=action, share=share_left(value, limit))


def measured(node, check, chance, bad=False, devices=8):
    _, typical, _, limit = MEASURED[check]
    found = []
    for index in range(devices):
        value = typical if isinstance(typical, int) else round(chance.gauss(typical, typical * 0.006), 2)
        slow = bad and index == 3
        verdict = Verdict.FAIL if slow else Verdict.PASS
        found.append(finding(check, gpu(index, node), limit / 2 if slow else value, verdict))
    verdict = Verdict.FAIL if bad else Verdict.PASS
    evidence = (f"evidence/{node}/{check.partition('.')[0]}.json",)
    return Record(node, check, verdict, tuple(found), ("F05",), evidence)


def passed(node, check):
    said = Finding(NODE, Verdict.PASS, text="as expected")
    return Record(node, check, Verdict.PASS, (said,), ("F33",), (f"evidence/{node}/facts.json",))


def skipped(node, check, why="not asked for: no second node in this run"):
    return Record(node, check, Verdict.SKIP, (Finding(NODE, Verdict.SKIP, text=why),))


def unjudged(node, check, quantity="fp64", value=1.4):
    """Measured, but nothing says what is right."""
    note = "no baseline has burn.fp64_tflops and 5 of platform l40s measured this alike, 8 are needed"
    action = "add limits: nodegate baseline learn"
    metric = "burn.fp64_tflops"
    found = Finding(
        gpu(2, node), Verdict.NOT_JUDGED, quantity, value, "TFLOPS", note=note, action=action, metric=metric
    )
    return Record(node, check, Verdict.NOT_JUDGED, (found,), ("F08",))


def errored(node, check):
    action = "install nccl-tests or name it with nodegate_nccl_tests"
    said = Finding(NODE, Verdict.ERROR, text="all_reduce_perf is not on the node", action=action, code="no tool")
    return Record(node, check, Verdict.ERROR, (said,), ("F21",))


XID = "Xid 79 (GPU has fallen off the bus) once since boot"


def node(name, chance, fate, rack="", devices=8):
    """A node that meets its fate: good, slow, xid, untested, waived, warm or lost."""
    serials = {"chassis": f"SN{chance.randrange(10**9):09d}"}
    serials |= {f"GPU {index}": serial(name, index) for index in range(devices)}
    model, machine = ("GPU model", "NVIDIA H100 80GB HBM3"), ("kernel", "5.15.0-113-generic")
    identity = (model, ("driver", "550.90.07"), ("VBIOS", "96.00.89.00.01"), ("BIOS", "2.1.6"), machine)
    if fate == "lost":
        reason = "connection timed out after 15 s"
        action = "power on the node or repair its management network"
        said = Finding(NODE, Verdict.ERROR, text=reason, action=action, code="timeout")
        lost = tuple(Record(name, check, Verdict.ERROR, (said,)) for check in IDS)
        return NodeReport(name, NodeVerdict.UNREACHABLE, "hgx-h100-sxm5", rack, records=lost, unreachable=reason)
    records = []
    for check in IDS:
        if check.startswith("fabric.read"):
            records.append(skipped(name, check))
        elif check in MEASURED:
            bad = fate in ("slow", "waived") and check == "pcie.link_width"
            record = measured(name, check, chance, bad, devices)
            if bad and fate == "waived":
                waiver = "riser on order, PO 8841; owner R. Weiss; expires 2026-12-15"
                record = replace(record, waiver=waiver)
            records.append(record)
        elif fate == "xid" and check == "gpu.xid":
            action = "power-cycle; then RMA"
            said = Finding(gpu(5, name), Verdict.FAIL, text=XID, action=action, code="79")
            records.append(Record(name, check, Verdict.FAIL, (said,), ("F02",), (f"evidence/{name}/kernel.json",)))
        elif fate == "untested" and check.startswith("nccl.all"):
            records.append(errored(name, check))
        elif fate == "warm" and check == "burn.temperature_spread":
            action, limit = "check fans and heat sink paste", Limit(5, "°C", "fleet of 8", AT_MOST)
            said = Finding(NODE, Verdict.WARN, "temperature spread", 9, "°C", limit, action=action)
            records.append(Record(name, check, Verdict.WARN, (said,), ("F08",)))
        else:
            records.append(passed(name, check))
    verdict = node_verdict(records)
    return NodeReport(name, verdict, "hgx-h100-sxm5", rack, serials, identity, tuple(records), gpus=devices)


def fleet(size, seed=7, devices=8):
    """A fleet with about 6 % of bad nodes of every kind; the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - made up values
    fates = ["slow", "xid", "untested", "waived", "warm", "lost"]
    digits = max(3, len(str(size)))
    every = max(2, size // max(6, round(size * 0.06)))
    nodes = []
    for index in range(1, size + 1):
        fate = "good" if index % every else fates[index // every % len(fates)]
        rack = f"r{(index - 1) // 32 + 1:02d}"
        nodes.append(node(f"gpu{index:0{digits}d}", chance, fate, rack, devices))
    checks = {
        check: CheckInfo(f"The {check.replace('.', ' ').replace('_', ' ')} is as it should be. (F05)", ("F05",))
        for check in IDS
    }
    odd = {"550.54.15": (nodes[0].node,), "535.183.01": tuple(entry.node for entry in nodes[1:3])}
    drift = (
        Drift("hgx-h100-sxm5", "driver", "550.90.07", size - 3, size, odd),
        Drift("hgx-h100-sxm5", "BIOS", "2.1.6", size, size, {}),
    )
    return Report(run(), tuple(nodes), drift, checks)
