"""A table of the real recordings: how many there are of each kind, how many a test holds to their truth, who is missed.

Kernel logs are judged here by every check of the kernel log, exactly: a finding too many is as wrong as one too few.
NODEGATE_WRITE_GOLDEN=1 writes what is found into tests/golden/real_logs.txt.
The truths of the other kinds are held by the tests that name their files.
"""

import csv
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from fleet.machine import Machine
from support.corpus import NOT_JUDGED, corpus, corpus_folder
from support.judging import judge_all, judge_one

from nodegate import suite
from nodegate.probe.kernel_log import parse_lines
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict
from nodegate.unknown import Unknown

TESTS = Path(__file__).resolve().parents[1]
KINDS = ("kernel", "fabricmanager", "dcgm", "nvidia-smi", "nvidia-smi-xml", "lspci", "rdma", "trainlog")
NAMES = (
    *(f"kernel_log.{name}" for name in ("xid", "sxid", "gpu_driver", "pcie_errors", "pcie_bandwidth", "nic_flaps")),
    *(f"kernel_log.{name}" for name in ("nic_errors", "memory", "storage", "host_faults")),
    *(f"host_log.{name}" for name in ("hardware_errors", "lockups", "hung_tasks", "nvme", "file_systems")),
)
AFTER_THEM_ALL_S = 1_740_400_000.0  # 2025-02-24: later than the newest of these lines
UPTIME_S = 200 * 86400.0
NOW_S = 1_795_248_900.0
PREFIX = r"<\d|\[ *\d+\.\d+\]|\d+,\d+,\d+|kern +:|\[(Mon|Tue|Wed|Thu|Fri|Sat|Sun) "
A_YEAR_H = {"kernel.log_window_h": 24 * 366, "kernel.nic_flap_window_h": 24 * 366, "kernel.nic_flap_max": 2}
GOLDEN = TESTS / "golden" / "real_logs.txt"
LOGS: dict[str, list[str]] = {}  # what each log must lead to, and nothing else: none where nothing is wrong
for line in GOLDEN.read_text("utf-8").splitlines():
    if line.startswith("  "):
        LOGS[next(reversed(LOGS))].append(line.strip())
    else:
        LOGS[line] = []
# Words of the findings of a check, each of which is in one of them.
SAID = (
    ("kernel/gpud_dmesg_iso_xid13_43_oom.txt", "xid", ("16 times", "followed by Xid 43")),
    ("kernel/gpud_dmesg_iso_xid13_43_oom.txt", "memory", ("3 times",)),
    ("kernel/gpud_sxid_readme_xid79_sxid20034.txt", "sxid", 4 * ("follows the loss of GPU 0000:91:00.0",)),
    ("kernel/gpud_xid149_154_gb200.txt", "xid", ("asks for: Drain and Reset;", *3 * ("GPU Reset Required;",))),
    ("kernel/stas_limited_by_pcie.txt", "pcie_bandwidth", ("at 0000:01:00.0", "at 0000:87:00.0")),
    ("kernel/stas_limited_by_pcie.txt", "pcie_bandwidth", 2 * ("252 Gb/s, expected at least 504 Gb/s",)),
)


def found(path):
    """Every finding that is no pass, by its check, of a node with this kernel log, all of it of the present boot."""
    machine = Machine.hgx_h100(epoch_s=AFTER_THEM_ALL_S)
    machine.set("system", "uptime_s", UPTIME_S)
    machine.set("kernel_log", "lines", corpus(path).splitlines())
    machine.set("kernel_log", "source", "file:/var/log/kern.log")
    machine.set("kernel_log", "since_epoch_s", AFTER_THEM_ALL_S - UPTIME_S)
    records = judge_all(machine, map(suite.check, NAMES), baseline=A_YEAR_H)
    records["before_a_job.xid"] = judge_one("kernel_log.xid", machine, profile=Profile.BOOTCHECK, baseline=A_YEAR_H)
    return [
        (name.removeprefix("kernel_log.").removeprefix("host_log."), finding)
        for name, record in records.items()
        for finding in record.findings
        if finding.verdict is not Verdict.PASS
    ]


def findings(path):
    return sorted(f"{name} {each.verdict.value} {each.part.label}: {each.code or '-'}" for name, each in found(path))


@pytest.mark.parametrize("path", LOGS)
def test_a_kernel_log_leads_to_its_findings_and_to_no_other(path, request):
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        LOGS[path] = findings(path)
        GOLDEN.write_text("".join(f"{log}\n" + "".join(f"  {each}\n" for each in LOGS[log]) for log in LOGS), "utf-8")
    wanted, got = Counter(LOGS[path]), Counter(findings(path))
    request.node.user_properties.append(("corpus judged", path))
    rows = [f"{path} | missed | {each}" for each in (wanted - got).elements()]
    rows += [f"{path} | false | {each}" for each in (got - wanted).elements()]
    request.node.user_properties.extend(("corpus missed", row) for row in rows)
    assert rows == []


@pytest.mark.parametrize(("path", "check", "words"), SAID)
def test_a_finding_says_what_its_lines_come_to(path, check, words):
    messages = [finding.message for name, finding in found(path) if name == check]
    for each, count in Counter(words).items():
        assert sum(each in message for message in messages) == count, messages


def test_no_prefix_is_left_before_a_driver_message_and_the_time_of_most_is_known():
    timed = 0
    for path in (path for path in LOGS if path.startswith("kernel/")):
        lines = parse_lines(corpus(path).splitlines(), now_epoch_s=NOW_S, boot_epoch_s=NOW_S - 1e7)
        assert not [line.text for line in lines if re.match(PREFIX, line.text)], path
        timed += any(not isinstance(line.epoch_s, Unknown) for line in lines)
    assert timed > 10


def test_every_recording_is_held_by_a_test_or_known_to_be_missed(request):
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
    assert {path for path in LOGS if path.startswith("kernel/")} == {
        path for path, its in kinds.items() if its == "kernel"
    }


def held_by_tests():
    """The text of the tests that hold recordings to their truth."""
    here = Path(__file__).name
    files = sorted(file for file in TESTS.rglob("test_*.py") if file.name != here)
    return "\n".join((*LOGS, *(file.read_text("utf-8") for file in files)))


def names_of(path):
    """How a test may name a recording: with its kind, by its file name, or without the ending."""
    name = path.rpartition("/")[2]
    stem = name.rpartition(".")[0]
    return path, f'"{name}"', f'"{stem}"', f"{stem.rpartition('_')[0]}_*"


def why(path):
    return NOT_JUDGED.get(path, "no test names it")
