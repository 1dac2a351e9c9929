"""A table of the real recordings: how many there are of each kind, how many a test holds to their truth, who is missed.

Kernel logs are judged here by every check of the kernel log, exactly: a finding too many is as wrong as one too few.
The truths of the other kinds are held by the tests that name their files.
"""

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet.machine import Machine
from support.corpus import NOT_JUDGED, corpus, corpus_folder
from support.judging import judge_one

from nodegate.records.verdict import Verdict

TESTS = Path(__file__).resolve().parents[1]
KINDS = ("kernel", "fabricmanager", "dcgm", "nvidia-smi", "nvidia-smi-xml", "lspci", "rdma", "trainlog")
NAMES = (
    *(f"kernel_log.{name}" for name in ("xid", "sxid", "gpu_driver", "pcie_errors", "pcie_bandwidth", "nic_flaps")),
    *(f"kernel_log.{name}" for name in ("nic_errors", "memory", "storage", "host_faults")),
    *(f"host_log.{name}" for name in ("hardware_errors", "lockups", "hung_tasks", "nvme", "file_systems")),
)
AFTER_THEM_ALL_S = 1_740_400_000.0
UPTIME_S = 200 * 86400.0
A_YEAR_H = {"kernel.log_window_h": 24 * 366, "kernel.nic_flap_window_h": 24 * 366, "kernel.nic_flap_max": 2}

NVLINK5 = "; ".join(
    f"xid {verdict} GPU {gpu}:01:00.0"
    for verdict, gpu in (
        *(("warn", "0008"), ("warn", "0008"), ("fail", "0008"), ("warn", "0018"), ("warn", "0018")),
        *(("fail", "0018"), ("warn", "0019"), ("fail", "0019")),
    )
)
# What each log must lead to, and nothing else: check, verdict, part. "" where nothing is wrong.
KERNEL = {
    "azhpc_journald_audit_noise.txt": "",
    "case_clock_source_lost.txt": "host_faults fail clock",
    "case_ext4_superblock.txt": "; ".join(
        f"file_systems {verdict} file system nvme3n1p1" for verdict in ("fail", "fail", "warn")
    ),
    "case_gpu_no_power_state.txt": "gpu_driver fail GPU 2 (0000:3b:00.0, S/N 1650001000002); "
    "pcie_errors warn PCIe port 0000:3a:01.0; pcie_errors warn PCIe device 0000:3a:01.0",
    "case_gsp_heartbeat_new_words.txt": "gpu_driver fail GPU 3 (0000:3d:00.0, S/N 1650001000003)",
    "case_roce_firmware_stall.txt": "nic_errors fail mlx5_4 (0000:9a:00.0, ibs4)",
    "gpud_cpu_lockup_lines.txt": "lockups fail CPU 0; lockups fail CPU 18; hung_tasks warn process jfsmount:136986; "
    "hung_tasks warn process kcompactd1:1177",
    "gpud_dmesg_iso_xid13_43_oom.txt": "xid warn GPU 0000:38:00.0; memory warn memory",
    "gpud_fallen_off_bus_variants.txt": "; ".join(f"xid fail GPU 0000:{bus}:00.0" for bus in ("05", "18", "29")),
    "gpud_filemax.txt": "host_faults fail host",
    "gpud_kmsg_boot.txt": "",
    "gpud_kmsg_peermem.txt": "",
    "gpud_mlx5_lines.txt": "nic_errors warn NIC 0000:5c:00.0; nic_errors fail NIC; nic_errors warn NIC",
    "gpud_nccl_segfault_iso.txt": "host_faults warn program",
    "gpud_pstore_dmesg_mlx5.txt": "",
    "gpud_sxid_lines.txt": "sxid warn nvidia-nvswitch3 (0000:05:00.0); sxid fail nvidia-nvswitch0 (0000:00:00.0); "
    "sxid warn nvidia-nvswitch0 (0000:a9:00.0); sxid fail nvidia-nvswitch0 (0000:a9:00.0); sxid warn kernel log; "
    "sxid warn kernel log",
    "gpud_sxid_readme_xid79_sxid20034.txt": "xid fail GPU 0000:91:00.0 (S/N 1653723052734); "
    "sxid warn nvidia-nvswitch0 (0000:05:00.0); sxid warn nvidia-nvswitch1 (0000:06:00.0); "
    "sxid warn nvidia-nvswitch2 (0000:07:00.0); sxid warn nvidia-nvswitch2 (0000:07:00.0)",
    "gpud_xid119_gsp_rpc_history.txt": "xid fail GPU 4 (0000:9b:00.0, S/N 1650001000004)",
    "gpud_xid145_149_realnvl5.txt": NVLINK5,
    "gpud_xid149_154_gb200.txt": "; ".join(f"xid fail GPU {gpu}:01:00.0" for gpu in ("0008", "0009", "0018", "0019")),
    "nvsentinel_docs_nic.txt": "nic_errors fail NIC 0000:3b:00.0; nic_errors fail NIC 0000:03:00.0 (eno1); "
    "nic_errors warn NIC 0000:12:00.0; nic_errors fail NIC 0000:5c:00.0; nic_errors fail NIC 0000:d2:00.0; "
    "nic_errors fail NIC 0000:65:00.0 (ens15np0)",
    "nvsentinel_mlx5_lines.txt": "nic_errors fail NIC 0000:03:00.0 (eno1); nic_errors fail NIC 0000:41:00.0; "
    "nic_errors fail NIC 0000:41:00.0; nic_errors fail eth0; nic_errors fail NIC 0000:65:00.0 (ens15np0); "
    "nic_errors warn NIC 0000:01:00.0; nic_errors fail NIC 0000:5c:00.0; lockups fail CPU 94",
    "nvsentinel_xid_sxid_lines.txt": "xid fail GPU 0000:17:00.0; xid fail GPU 0000:17:00.0; xid fail GPU 0000:17:00.0; "
    "xid fail GPU 0 (0000:19:00.0, S/N 1650001000000); xid fail GPU 0001:00:00.0; xid fail GPU 0001:00:00.0; "
    "xid fail GPU 0001:00:00.0; "
    "xid warn GPU 0001:00:00.0; xid fail GPU 0002:00:00.0; xid warn GPU 0002:00:00.0; xid warn GPU 0002:00:00.0; "
    "sxid warn nvidia-nvswitch0 (0000:c3:00.0); sxid warn nvidia-nvswitch0 (0000:c3:00.0); "
    "sxid fail nvidia-nvswitch0 (0000:c3:00.0)",
    "stas_limited_by_pcie.txt": "pcie_bandwidth fail PCIe device 0000:04:00.0; "
    "pcie_bandwidth fail PCIe device 0000:8b:00.0",
    "stas_xid63_row_remapper.txt": "xid fail GPU 0000:10:1c.0",
}


@pytest.mark.parametrize("name", KERNEL)
def test_a_kernel_log_leads_to_its_findings_and_to_no_other(name: str, request: pytest.FixtureRequest) -> None:
    wanted, found = Counter(filter(None, KERNEL[name].split("; "))), Counter(findings(f"kernel/{name}"))
    request.node.user_properties.append(("corpus judged", f"kernel/{name}"))
    missed = [f"kernel/{name} | missed | {each}" for each in (wanted - found).elements()]
    false = [f"kernel/{name} | false | {each}" for each in (found - wanted).elements()]
    request.node.user_properties.extend(("corpus missed", row) for row in (*missed, *false))
    assert [*missed, *false] == []


def findings(path: str) -> Iterator[str]:
    """Every finding that is no pass, as "check verdict part", of a node with this kernel log of the present boot."""
    machine = Machine.hgx_h100(epoch_s=AFTER_THEM_ALL_S)
    machine.set("system", "uptime_s", UPTIME_S)
    machine.set("kernel_log", "lines", corpus(path).splitlines())
    machine.set("kernel_log", "source", "file:/var/log/kern.log")
    machine.set("kernel_log", "since_epoch_s", AFTER_THEM_ALL_S - UPTIME_S)
    for check in NAMES:
        for finding in judge_one(check, machine, baseline=A_YEAR_H).findings:
            if finding.verdict is not Verdict.PASS:
                yield f"{check.partition('.')[2]} {finding.verdict.value} {finding.part.label}"


def test_every_recording_is_held_by_a_test_or_known_to_be_missed(request: pytest.FixtureRequest) -> None:
    corpus("index.csv")
    with (corpus_folder() / "index.csv").open(encoding="utf-8", newline="") as file:
        kinds = {row["file"]: row["kind"] for row in csv.DictReader(file) if row["kind"] in KINDS}
    tests = held_by_tests()
    missed = {path for path in kinds if not any(name in tests for name in names_of(path))}
    for kind in KINDS:
        of_kind = [path for path, its in kinds.items() if its == kind]
        gone = sorted(missed.intersection(of_kind))
        row = f"{kind}: {len(of_kind)} recordings, {len(of_kind) - len(gone)} held to their truth, {len(gone)} missed"
        request.node.user_properties.append(("corpus table", row))
        request.node.user_properties.extend(("corpus table", f"{kind}:   {path}: {why(path)}") for path in gone)
    assert missed == set(NOT_JUDGED)
    assert set(KERNEL) == {path.removeprefix("kernel/") for path, kind in kinds.items() if kind == "kernel"}


def held_by_tests() -> str:
    """The text of the tests that hold recordings to their truth."""
    here = Path(__file__).name
    files = sorted(file for file in TESTS.rglob("test_*.py") if file.name != here)
    own = "\n".join(f"kernel/{name}" for name in KERNEL)
    return "\n".join((own, *(file.read_text("utf-8") for file in files)))


def names_of(path: str) -> tuple[str, ...]:
    """How a test may name a recording: with its kind, by its file name, or without the ending."""
    name = path.rpartition("/")[2]
    stem = name.rpartition(".")[0]
    return path, f'"{name}"', f'"{stem}"', f"{stem.rpartition('_')[0]}_*"


def why(path: str) -> str:
    return NOT_JUDGED.get(path, "no test names it")
