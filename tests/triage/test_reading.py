"""What triage takes as a log: packed, cut, hostile, many, from standard input; and lines that only look alike."""

import gzip
import json
import shutil
import tracemalloc
from datetime import datetime, timezone

import pytest
from fleet.machine import Machine
from support.job_logs import ecc_case, iteration, kernel, remarks, times_out, write, xid

from nodegate.cli import main
from nodegate.errors import UsageError
from nodegate.knowledge.words import Cause
from nodegate.records.evidence import Evidence
from nodegate.records.run_folder import RunFolder
from nodegate.triage import reading, sources
from nodegate.triage.triage import triage

NOW_S = 1_786_406_400.0  # 2026-08-11
ERROR = "[rank3]: ValueError: Token IDs outside valid range"


def root_of(*logs, **options):
    return triage([str(log) for log in logs], now_s=NOW_S, **options)


def test_a_gzip_bomb_is_read_in_bounded_memory(tmp_path):
    path = tmp_path / "bomb.log.gz"
    with gzip.open(path, "wb", compresslevel=9) as stream:
        for _ in range(64):
            stream.write(b"\0" * (1 << 20))
        stream.write(b"\n" + ERROR.encode())
    tracemalloc.start()
    found = root_of(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.root.kind.id == "python_error"
    assert peak < 32 << 20
    assert any("1 MiB" in note for note in remarks(found))


@pytest.mark.skipif(shutil.which("zstd") is None, reason="no zstd program on this machine")
def test_broken_zstd_is_said(tmp_path):
    path = tmp_path / "rank3.log.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"nonsense" * 100)
    write(tmp_path, "rank4.log", ERROR)
    found = root_of(tmp_path)
    assert any("zstd" in note for note in remarks(found))


def test_zstd_without_the_program_is_a_clear_message(tmp_path, monkeypatch):
    path = tmp_path / "rank3.log.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd....")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="zstd"):
        root_of(path)


ECC = b"RuntimeError: CUDA error: uncorrectable ECC error encountered"
ODD = {
    "NUL bytes and invalid UTF-8": (
        b"\xff\xfe\x00\x80 \xc3\n" + ERROR.encode() + b"\xed\xa0\x80\n",
        ("python_error", None),
        "NUL",
    ),
    "a line of 10 MB": (b"x" * 6_000_000 + b" " + ECC + b" " + b"y" * 4_000_000, ("cuda_ecc", None), "1 MiB"),
    "progress bars on its line": (
        b"".join(b"\r %d/1000 [00:%02d<10:00,  1.00s/it]" % (step, step) for step in range(1, 50))
        + b"\rValueError: bad batch\n",
        ("python_error", 49),
        "",
    ),
}


@pytest.mark.parametrize(("data", "expected", "note"), ODD.values(), ids=ODD)
def test_an_error_is_found_amid(tmp_path, data, expected, note):
    (tmp_path / "rank3.log").write_bytes(data)
    found = root_of(tmp_path)
    assert (found.root.kind.id, found.iteration) == expected
    assert any(note in said for said in remarks(found))


def test_an_error_behind_a_progress_bar_is_of_the_writer_of_the_whole_line(tmp_path):
    lines = [f"[pod/job-worker-{worker}/pytorch] {iteration('15:30:00.0', 7)}" for worker in range(3)]
    bar = "[pod/job-worker-1/pytorch]  50%|##   |\r 51%|##   |\r"
    found = root_of(write(tmp_path, "job.log", *lines, bar + ECC.decode()))
    assert (found.root.kind.id, found.root.line, found.where.pod) == ("cuda_ecc", 4, "job-worker-1")


def test_a_folder_is_searched_for_logs_and_the_rest_passed_over(tmp_path):
    write(tmp_path, "a/rank3.log", ERROR)
    (tmp_path / "a" / "model.pt").write_bytes(b"RuntimeError")
    (tmp_path / "a" / "core").write_bytes(b"\0" * 5000 + b"RuntimeError: x")
    found = root_of(tmp_path)
    assert found.read.job_logs == 1
    assert any("2 files skipped" in note for note in remarks(found))


def test_a_glob_of_200_ranks(tmp_path):
    for rank in range(200):
        lines = [ERROR.replace("rank3", "rank123")] if rank == 123 else [times_out(rank, "15:46:05.7")]
        write(tmp_path, f"rank_{rank}.log", iteration("15:36:00.0", 7), *lines)
    found = root_of(tmp_path / "rank_*.log")
    assert (found.where.rank, found.root.kind.id) == (123, "python_error")
    hang = next(group for group in found.followed if group.kind.id == "watchdog_timeout")
    assert len(hang.ranks) == 199
    assert found.read.ranks == 200


@pytest.mark.parametrize(("apart", "node"), [(True, "gpu-n1"), (False, "")], ids=["a log each", "one log"])
def test_nccl_names_the_node_of_a_worker_that_has_its_own_log(tmp_path, apart, node):
    starts = "gpu-n{0}:71:99 [0] NCCL INFO comm 0x5 rank {0} nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE\n"
    error = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    for number, text in enumerate((starts.format(0), starts.format(1) + error)):
        with (tmp_path / (f"lm-worker-{number}.log" if apart else "job.log")).open("a") as file:
            file.write(text)
    assert root_of(*sorted(tmp_path.iterdir())).root.place.node == node


def test_a_kernel_log_can_be_given_with_its_node(tmp_path):
    folder = ecc_case(tmp_path)
    (folder / "dmesg-gpu08.txt").rename(folder / "x.txt")
    found = root_of(folder / "rank0.log", folder / "rank1.log", kernel=[f"gpu08={folder / 'x.txt'}"])
    assert (found.root.kind.id, found.where.node) == ("xid_48", "gpu08")


@pytest.mark.parametrize(
    ("arguments", "why"), [([], ""), (["/no/such/log"], ""), (["--utc-offset", "8", "x"], ""), (["empty.log"], "empty")]
)
def test_bad_input_is_exit_2_with_one_line(arguments, why, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.log").write_bytes(b"")
    assert main(["triage", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("nodegate: ")
    assert why in said
    assert said.count("\n") == 1


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
