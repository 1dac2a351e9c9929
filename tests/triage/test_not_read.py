"""What could not be read is never called good: the answer says how much that was, and why."""

# ruff: noqa: RUF001 - Chinese punctuation
import gzip

import pytest
from support.job_logs import answered, iteration, kernel, remarks, write

from nodegate.errors import UsageError
from nodegate.triage import sources
from nodegate.triage.sources import Source

HEALTHY = "\n".join(f"{iteration(f'15:{minute:02}:07.{minute * 7919 % 10}', minute)}" for minute in range(1, 60)) + "\n"


def packed(folder, name, text=HEALTHY):
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()))
    return path


def refuse(monkeypatch, target, name, error):
    """Reading this file fails as it does for a user without the right, or on a broken disk."""
    opened = getattr(*target)

    def broken(source, *arguments):
        if str(getattr(source, "name", source)).endswith(name):
            raise error
        return opened(source, *arguments)

    monkeypatch.setattr(*target, broken)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-200])


def with_other_data(path):
    path.write_bytes(path.read_bytes() + b"something else")


def damaged(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) * 3 // 4] ^= 0xFF
    path.write_bytes(raw)


@pytest.mark.parametrize("spoil", [cut_short, with_other_data, damaged])
def test_a_packed_log_that_is_not_whole_forbids_the_word_that_there_is_no_error(tmp_path, spoil):
    write(tmp_path, "rank0.log", HEALTHY)
    spoil(packed(tmp_path, "rank1.log.gz"))
    found = answered(tmp_path)
    assert (found.failed, found.sure, found.recognised) == (True, False, False)
    assert found.sentence.en.startswith(
        "cannot tell: no error in what could be read, but 1 log could not be, or not all"
    )
    assert found.sentence.zh.startswith("无法判断：可读部分没有错误，但有 1 个日志未能读取")


def test_what_is_before_the_damage_is_read_to_the_last_line(tmp_path):
    path = packed(tmp_path, "rank1.log.gz")
    damaged(path)
    assert answered(path).read.lines > 30


def test_a_damaged_packed_line_without_an_end_takes_linear_time(tmp_path):
    text = "".join(chr(33 + number * number * 7919 % 90) for number in range(1 << 20))
    path = packed(tmp_path, "rank1.log.gz", text)
    damaged(path)
    assert answered(path).read.size_bytes > 1 << 19


def test_a_packed_log_that_is_damaged_from_its_start_is_not_called_empty(tmp_path):
    path = packed(tmp_path, "rank1.log.gz")
    path.write_bytes(path.read_bytes()[:10] + b"\xff" * 50)
    with pytest.raises(UsageError, match="gzip data is corrupt"):
        answered(path)


@pytest.mark.parametrize("target", [(Source, "open"), (sources, "open_regular")], ids=["opened", "looked at"])
def test_a_log_that_cannot_be_opened_forbids_the_word_that_there_is_no_error(tmp_path, monkeypatch, target):
    write(tmp_path, "rank0.log", HEALTHY)
    write(tmp_path, "rank1.log", HEALTHY)
    refuse(monkeypatch, target, "rank1.log", PermissionError(13, "Permission denied"))
    found = answered(tmp_path)
    assert (found.failed, found.sure, found.recognised) == (True, False, False)
    assert found.sentence.en.startswith("cannot tell: no error in what could be read, but 1 log could not be")
    assert any(f"not read: {tmp_path}/rank1.log: Permission denied" in note for note in remarks(found))


def test_a_link_whose_target_is_gone_is_no_log(tmp_path):
    write(tmp_path, "rank0.log", HEALTHY)
    (tmp_path / "latest.log").symlink_to("gone.log")
    found = answered(tmp_path)
    assert found.sentence.en == "no error in these logs"
    assert any("a link to a file that is not there" in note for note in remarks(found))


def test_all_that_was_not_read_is_counted(tmp_path, monkeypatch):
    for rank in range(30):
        write(tmp_path, f"rank{rank}{'.broken' if rank else ''}.log", HEALTHY)
    refuse(monkeypatch, (Source, "open"), ".broken.log", OSError(5, "Input/output error"))
    assert "not read: 9 more logs" in remarks(answered(tmp_path))


def test_a_kernel_log_that_is_not_whole_does_not_make_a_node_fine(tmp_path):
    write(tmp_path, "gpu01/rank0.log", HEALTHY, "[2026-08-10 16:00:00.0] KeyError: 'attention_mask'")
    lines = [kernel(f"15:{minute:02}:15.000000", f"systemd[1]: Started Session {minute}.") for minute in range(60)]
    path = packed(tmp_path, "dmesg-gpu01.txt.gz", "\n".join(lines))
    assert answered(tmp_path).sentence.en.startswith("the nodes are fine")
    cut_short(path)
    assert answered(tmp_path).sentence.en.startswith("nothing here speaks against a node")
