"""results.jsonl.gz: readable with gzip alone, whole up to the last node of a killed run, bounded when it is read."""

import gzip
import json
import os
import subprocess

import pytest
from support.sample_report import errored, passed

from nodegate.errors import UsageError
from nodegate.files.gz import compress
from nodegate.records import results
from nodegate.records.finding import Record
from nodegate.records.results import RESULTS, ResultsFile, fingerprint, is_cut, read, write_all
from nodegate.records.store import to_lines

NODES = [[passed(f"gpu{node:02}", "gpu.count"), errored(f"gpu{node:02}", "gpu.xid")] for node in range(5)]
ALL = [record for records in NODES for record in records]


@pytest.fixture
def folder(tmp_path):
    write_all(NODES, tmp_path)
    return tmp_path


def sizes(folder):
    """How long the member of each node is."""
    return [len(compress(to_lines(records))) for records in NODES]


def test_it_comes_back_as_it_went(folder):
    assert read(folder) == ALL
    assert not is_cut(folder)


def test_zcat_reads_it(folder):
    text = subprocess.run(["zcat", folder / RESULTS], capture_output=True, check=True).stdout
    found = [json.loads(each) for each in text.splitlines()]
    assert [(each["node"], each["check"]) for each in found] == [(each.node, each.check) for each in ALL]


def test_its_hash_is_that_of_its_sorted_lines(folder):
    command = f"zcat {folder / RESULTS} | LC_ALL=C sort | sha256sum"
    said = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
    assert fingerprint(folder) == (said.split()[0], len(ALL))


def test_its_hash_is_the_same_however_it_was_written(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    file = ResultsFile(other)
    for record in reversed(ALL):
        file.write([record])
    file.close()
    assert fingerprint(other) == fingerprint(folder)
    file = ResultsFile(other)
    file.write(ALL[1:])
    file.close()
    assert fingerprint(other) != fingerprint(folder)


def test_each_node_is_on_disk_when_it_is_written(tmp_path):
    file = ResultsFile(tmp_path)
    for count, records in enumerate(NODES, start=1):
        file.write(records)
        assert len(read(tmp_path)) == 2 * count
    file.close()


def test_a_run_that_was_killed_at_any_byte_is_read_up_to_its_last_whole_node(folder):
    whole = (folder / RESULTS).read_bytes()
    ends = [sum(sizes(folder)[:count]) for count in range(len(NODES) + 1)]
    assert ends[-1] == len(whole)
    for size in range(len(whole)):
        (folder / RESULTS).write_bytes(whole[:size])
        assert len(read(folder)) == 2 * sum(end <= size for end in ends[1:]), size
        assert is_cut(folder) is (size not in ends), size


def test_a_resumed_run_cuts_the_torn_member_and_appends(folder):
    file = folder / RESULTS
    os.truncate(file, file.stat().st_size - 3)
    again = ResultsFile(folder, resumed=True)
    assert read(folder) == ALL[:-2]
    again.write(NODES[-1])
    again.close()
    assert read(folder) == ALL
    assert not is_cut(folder)


def test_what_a_resumed_run_has_judged_again_counts(folder):
    again = ResultsFile(folder, resumed=True)
    again.write([passed("gpu00", "gpu.xid")])
    again.close()
    found = {(each.node, each.check): each.verdict.value for each in read(folder)}
    assert found["gpu00", "gpu.xid"] == "pass"
    assert found["gpu01", "gpu.xid"] == "error"
    assert len(found) == len(ALL)


def packed(folder, *members):
    (folder / RESULTS).write_bytes(b"".join(gzip.compress(member) for member in members))
    return folder


def refused(folder, message):
    with pytest.raises(UsageError, match=message) as caught:
        read(folder)
    assert str(caught.value).startswith(str(folder / RESULTS))


def test_a_line_that_is_no_record_is_named(folder):
    good = to_lines([ALL[0]])
    refused(packed(folder, good, good.replace(b"gpu00", b"gpu01").replace(b'"pass"', b'"fine"', 1)), r"jsonl\.gz:2: ")
    refused(packed(folder, good + good), "twice")
    refused(packed(folder, good + to_lines([ALL[2]])), "among the lines of another node")
    refused(packed(folder, good[:-1]), "without the end of its last line")
    refused(packed(folder, b"\n"), r"jsonl\.gz:1: ")


def test_what_is_not_gzip_is_named(folder):
    (folder / RESULTS).write_bytes(to_lines([ALL[0]]))
    refused(folder, "damaged gzip data")
    whole = gzip.compress(to_lines([ALL[0]]))
    (folder / RESULTS).write_bytes(whole + b"\0 and more")
    refused(folder, "damaged gzip data")
    (folder / RESULTS).write_bytes(whole[:-8] + bytes(8))
    refused(folder, "damaged gzip data")


def test_a_member_that_would_become_huge_is_refused_before(folder, monkeypatch):
    monkeypatch.setattr(results, "MOST_NODE_BYTES", 1 << 20)
    refused(packed(folder, bytes(50 << 20)), "a node has more than 1 MiB")


def test_a_missing_file_and_what_is_no_file_are_one_message(tmp_path):
    refused(tmp_path, "cannot be read")
    os.mkfifo(tmp_path / RESULTS)
    refused(tmp_path, "is not a regular file|cannot be read")


def test_nothing_is_left_where_they_cannot_be_written(folder):
    before = (folder / RESULTS).read_bytes()

    def nodes():
        yield NODES[0]
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="space"):
        write_all(nodes(), folder)
    assert (folder / RESULTS).read_bytes() == before
    assert [path.name for path in folder.iterdir()] == [RESULTS]


def test_empty_results_are_no_error(tmp_path):
    write_all([[]], tmp_path)
    assert read(tmp_path) == list[Record]()
    assert fingerprint(tmp_path)[1] == 0
