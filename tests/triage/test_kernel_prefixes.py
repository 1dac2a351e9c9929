"""Kernel logs as people hand them in: from dmesg -H, from other outputs of the journal, through pdsh and grep."""

import pytest

from nodegate.triage.triage import triage

NOW_S = 1_795_252_500.0
KILLED = "Out of memory: Killed process 4711 (python3) total-vm:77kB, anon-rss:50kB"


@pytest.mark.parametrize(("line", "notes"), [("acme: bad thing failed: -5", 1), ("acme: a thing works", 0)])
def test_an_error_of_a_kernel_that_no_row_knows_is_a_note(tmp_path, line, notes):
    log = tmp_path / "dmesg-gpu07.txt"
    log.write_text(f"[91001.100000] {line}\n[   12.100000] acme: failed while it boots\n", encoding="utf-8")
    found = triage([], kernel=[str(log)], now_s=NOW_S)
    assert not found.failed
    assert [line in note.text.en for note in found.notes] == [True] * notes


@pytest.mark.parametrize(
    ("prefix", "node"),
    [
        ("[  +0.000844] ", ""),
        ("[Nov21 08:15] ", ""),
        ("[六 11月 21 08:15:00 2026] ", ""),
        ("11月 21 08:15:00 gpu07 kernel: ", "gpu07"),
        ("sept. 21 08:15:00 gpu07 kernel: ", "gpu07"),
        ("Sat 2026-11-21 08:15:00 CST gpu07 kernel: ", "gpu07"),
        ("Nov 21 08:15:00.123456 gpu07 kernel: ", "gpu07"),
        ("[12345.678901] gpu07 kernel: ", "gpu07"),
        ("1795248900.123456 gpu07 kernel: ", "gpu07"),
        ("kern.log.1:77:Nov 21 08:15:00 gpu07 kernel: ", "gpu07"),
        ("gpu07: [12345.678901] ", "gpu07"),
        ("77:[12345.678901] ", ""),
        ("> ", ""),
    ],
)
def test_a_process_killed_for_want_of_memory_is_seen_behind_any_prefix(tmp_path, prefix, node):
    log = tmp_path / "job.log"
    log.write_text(f"{prefix}{KILLED}\n" * 3, encoding="utf-8")
    found = triage([str(log)], now_s=NOW_S)
    assert found.root is not None
    assert found.root.kind.id == "oom_host"
    assert found.where.node == node or not node  # without one the name of a folder may stand for it
