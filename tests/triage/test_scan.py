"""The quick search finds every line that a signature fits, and nothing in a chunk costs more than it should."""

import json
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import planted

from fuzz.growth import cpu_s
from nodegate.knowledge.signatures import signatures
from nodegate.knowledge.words import Side
from nodegate.triage import grep, kernel_log, launchers, place, scan
from nodegate.triage.clock import Times
from nodegate.triage.triage import triage

USER = [each.example.encode() for each in signatures() if each.side is Side.USER]


def test_a_line_is_given_once_however_many_triggers_it_holds():
    chunk = b"a\nRuntimeError: NCCL WARN failed, Killed, SIGTERM\nb\n"
    assert [(line.text, line.start) for line in scan.interesting(chunk)] == [
        ("RuntimeError: NCCL WARN failed, Killed, SIGTERM", 2)
    ]


def test_a_line_that_names_its_place_in_the_program_is_read_only_if_it_has_glog_s_level_of_an_error():
    healthy = b"INFO 2026-11-21 08:15:44 worker.py:88] cache usage: 81 %\nI1121 08:15:44.118 loop.cpp:9] step\n"
    assert scan.interesting(healthy) == []
    broken = b"E1121 08:15:44.118204311 4711 store.cpp:9] gone\n"
    assert [line.text for line in scan.interesting(healthy + broken)] == [broken.decode().rstrip()]


@pytest.mark.parametrize("more", [0, 5000], ids=["short", "long enough for grep"])
@pytest.mark.parametrize("before", ["", "2026-08-10T08:00:00.1Z stdout F "], ids=["json", "json of a container"])
@pytest.mark.parametrize("digits", [str, str.upper], ids=["5931", "5B9E"])
def test_an_error_whose_chinese_letters_are_escaped_is_found(tmp_path, digits, before, more):
    path = tmp_path / "job.log"
    error = '{"message": "' + "".join(f"\\u{digits(f'{ord(each):04x}')}" for each in "错误 显存不足 程序退出") + '"}'
    steps = [json.dumps({"message": f"iteration {number}/9999 loss 2.1"}) for number in range(10 + more)]
    path.write_text("".join(f"{before}{line}\n" for line in [*steps, error]))
    assert triage([str(path)]).root.kind.id == "gpu_memory_full_zh"


@given(st.binary(max_size=3000))
@settings(max_examples=300, deadline=None)
def test_lines_are_cut_at_line_ends_whatever_the_bytes(data):
    for line in scan.interesting(data):
        assert 0 <= line.start <= line.end <= len(data)
        assert b"\n" not in data[line.start : line.end]


@pytest.mark.skipif(grep.program() is None, reason="no GNU grep on this machine")
@given(st.lists(st.sampled_from(USER) | st.binary(max_size=200), max_size=30))
@settings(max_examples=30, deadline=None)
def test_grep_finds_the_same_lines(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("grep") / "job.log"
    data = b"\n".join([*lines, b"end"])
    path.write_bytes(data)
    with closing(grep.Positions(str(path))) as positions:
        found = positions.between(0, len(data))
    assert scan.interesting(data, found) == scan.interesting(data)


@pytest.mark.skipif(grep.program() is None, reason="no GNU grep on this machine")
@pytest.mark.parametrize("step", [1, 7, 100, 100_000])
def test_a_line_that_begins_in_one_part_and_ends_in_another_is_found_in_each(tmp_path, step):
    path = tmp_path / "job.log"
    lines = ["healthy", "ValueError: boom", "", "healthy", "ValueError: " + "x" * 70_000, "RuntimeError: bang"]
    path.write_text("\n".join(lines))
    size = path.stat().st_size
    with closing(grep.Positions(str(path))) as positions:
        parts = [(at, positions.between(at, at + step)) for at in range(0, size, step)]
    text = path.read_bytes()
    found = b"".join(text[at + start : at + end] for at, ranges in parts for start, end in ranges)
    assert found.decode().splitlines() == [line for line in lines if "Error" in line]


@pytest.mark.skipif(grep.program() is None, reason="no GNU grep on this machine")
@pytest.mark.parametrize("gives_up", [False, True], ids=["grep reads it", "grep gives up"])
def test_a_large_file_is_answered_as_a_small_one(tmp_path, monkeypatch, gives_up):
    monkeypatch.setattr(grep, "LARGE_BYTES", 1)
    if gives_up:
        monkeypatch.setattr(grep.Positions, "_read", _give_up)
    path = tmp_path / "rank3.log"
    path.write_text("healthy\n" * 300_000 + "ValueError: boom\n" + "healthy\n" * 300_000)
    found = triage([str(path)], now_s=1.8e9)
    assert (found.root.kind.id, found.root.line, found.read.lines) == ("python_error", 300_001, 600_001)


def _give_up(positions):
    raise grep.GrepGaveUp


@pytest.mark.parametrize(
    "near_miss",
    [
        "[rank1]: " * 3000,
        "a1-" * 10_000,
        "0" * 30_000,
        "[2026-08-10 15:36:05.1] " * 2000,
        "gpu01:1:1 [0] " * 2000,
        "WorkNCCL(SeqNum=1, OpType=A" + ", NumelIn=1" * 3000,
        "[PG " + "Rank " * 5000,
        "time : \n" * 5000,
        "(" * 20_000,
    ],
    ids=lambda text: text[:12],
)
def test_near_misses_take_linear_time(near_miss):
    def read(text):
        place.of_line(text)
        place.of_path(text)
        list(launchers.of_torchrun(text, Times(1.8e9)))
        kernel_log.looks_like(text, text)
        scan.interesting(text.encode())

    # a hundred times what linear work needs, and far below what the square would
    assert cpu_s(read, near_miss * 2) < 3


@pytest.mark.skipif(grep.program() is None, reason="no GNU grep on this machine")
@pytest.mark.parametrize("most", [1000, 2, 1], ids=lambda most: f"{most} files a grep")
def test_one_grep_searches_many_files_and_a_file_that_is_passed_over_disturbs_no_other(tmp_path, monkeypatch, most):
    monkeypatch.setattr(grep, "MOST_FILES", most)
    paths = []
    for number in range(5):
        path = tmp_path / f"rank {number}.log"
        path.write_text("healthy\n" * number + "ValueError: boom\n" + "healthy\n" * 9 + "RuntimeError: bang\n")
        paths.append(str(path))
    with closing(grep.Searches(paths)) as searches:
        for number in (0, 2, 4):  # 1 and 3 are not asked for
            positions = searches.of(paths[number])
            begin = 8 * number
            assert positions.between(0, begin + 17) == [(begin, begin + len("ValueError: boom\n"))]
            assert len(positions.between(begin + 17, 10_000)) == 1
        assert searches.of("another.log") is None


@pytest.mark.long
@pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
@pytest.mark.parametrize("searched_by", ["grep", "python"])
def test_each_form_of_each_row_is_found_in_a_healthy_log(tmp_path, monkeypatch, side, searched_by):
    if searched_by == "python":
        monkeypatch.setattr(grep, "program", lambda: None)
    path = tmp_path / ("kern-gpu07.log" if side is Side.KERNEL else "job.log")
    plants = planted.write(path, side, 1_500_000)
    assert path.stat().st_size > 1_400_000
    assert {each.row for each in plants} == {each.id for each in signatures() if each.side is side}
    assert planted.missed(path, side, plants) == []
