"""The dumps of PyTorch's flight recorder: who is behind, in which collective, on which node; and dumps that attack."""

import gzip
import io
import json
import pickle
import tarfile

import pytest
from support.flight_dumps import BEGAN_NS, dump, pair, pickled, step, write_dumps
from support.job_logs import iteration, joins, judge, remarks, times_out, write

from nodegate.knowledge.words import Cause
from nodegate.triage.triage import triage

NOW_S = 1_786_406_400.0  # 2026-08-11
DONE = [step(number) for number in range(1, 42)]
WAITS = [*DONE, step(42, state="started")]
HOURS_NS = 3600 * 10**9
STALE = [step(number, time_created_ns=BEGAN_NS - HOURS_NS) for number in range(1, 31)]
TENSOR_4, TENSOR_7 = ({"process_group": (uid, "undefined"), "pg_id": 1, "record_id": 50} for uid in ("4", "7"))
OTHER_SIZES = {"input_sizes": [[8, 2048]], "output_sizes": [[8, 2048]]}
TO_1, FROM_0 = pair(9, "send 0->1"), pair(9, "recv 1<-0")
TOGETHER = [pair(3, "send 1->2"), pair(3, "recv 1<-0"), pair(3, "coalesced", "started")]
UNKNOWN, PROGRAM, FABRIC = Cause.UNKNOWN, Cause.PROGRAM, Cause.FABRIC

CASES = {
    "the rank that did not come": (
        {0: WAITS, 1: WAITS, 2: DONE, 3: WAITS},
        {"says": "rank 2 did not come to nccl:all_reduce (SeqNum 42, default_pg)", "rank": 2, "cause": UNKNOWN},
    ),
    "a rank that left no dump is not the culprit": (
        {0: WAITS, 1: WAITS, 3: WAITS},
        {"says": "rank 0-1,3 came to it; no dump shows whether rank 2 did", "rank": None, "cause": UNKNOWN},
    ),
    "nor one whose dump is earlier": ({0: WAITS, 1: WAITS, 2: STALE, 3: WAITS}, {"says": "whether rank 2 did"}),
    "nor one whose last entries were overwritten": (
        {0: WAITS, 1: WAITS, 2: [step(9, **TENSOR_4)], 3: WAITS},
        {"says": "whether rank 2 did"},
    ),
    "another collective at the same number is the program's": (
        {0: WAITS, 1: WAITS, 2: [*DONE, step(42, "all_gather", "started")], 3: WAITS},
        {"says": "the ranks called different collectives at SeqNum 42", "rank": 2, "cause": PROGRAM, "sure": True},
    ),
    "and so are other sizes": (
        {0: WAITS, 1: [*DONE, step(42, state="started", **OTHER_SIZES)], 2: WAITS, 3: WAITS},
        {"rank": 1, "cause": PROGRAM, "sure": True},
    ),
    "other sizes of an all-to-all are not": (
        {
            **dict.fromkeys((2, 3), DONE),
            0: [*DONE, step(42, "all_to_all", "started")],
            1: [*DONE, step(42, "all_to_all", "started", **OTHER_SIZES)],
        },
        {"says": "rank 2-3 did not come to nccl:all_to_all", "cause": UNKNOWN},
    ),
    "nor is a collective of an earlier run": (
        {0: WAITS, 1: WAITS, 2: [step(42, "all_gather", time_created_ns=BEGAN_NS - 9 * HOURS_NS)], 3: WAITS},
        {"cause": FABRIC, "sure": False},
    ),
    "every rank came": (
        dict.fromkeys(range(4), WAITS),
        {"says": "hangs although every rank of its group came", "cause": FABRIC, "sure": False, "rank": None},
    ),
    "the GPU that did not start what the others started": (
        {0: WAITS, 1: WAITS, 2: WAITS, 3: [*DONE, step(42, state="scheduled")]},
        {"says": "the GPU of rank 3 did not start nccl:all_reduce", "rank": 3, "cause": UNKNOWN},
    ),
    "who waits in another group is only waited for in turn": (
        {
            0: [*DONE, step(7, state="scheduled", **TENSOR_4)],
            1: DONE,
            2: [*DONE, step(42, state="scheduled", record_id=41)],
            3: [*DONE, step(42, state="scheduled", record_id=41)],
        },
        {"says": "rank 1 did not come to", "rank": 1},
    ),
    "ranks that wait for each other": (
        {
            0: [*DONE, step(7, state="scheduled", **TENSOR_4)],
            1: [*DONE, step(42, state="scheduled")],
            2: [*DONE[:41], step(5, state="scheduled", **TENSOR_7)],
            3: [*DONE, step(42, state="scheduled")],
        },
        {"says": "ranks wait for each other", "rank": None, "cause": UNKNOWN},
    ),
    "a recv waits for the rank that sends nothing": (
        {0: DONE, 1: [*DONE, FROM_0], 2: DONE, 3: DONE},
        {"says": "rank 0 did not come to nccl:recv 1<-0", "rank": 0},
    ),
    "a recv whose sender waits too": (
        {0: [*DONE, TO_1], 1: [*DONE, FROM_0], 2: DONE, 3: DONE},
        {"says": "hangs although every rank", "cause": FABRIC},
    ),
    "operations enqueued as one have one end": (
        {0: DONE, 1: [*DONE, *TOGETHER], 2: [*DONE, pair(8, "recv 2<-1")], 3: DONE},
        {"says": "rank 0 did not come to nccl:send 1->2 + nccl:recv 1<-0", "rank": 0},
    ),
    "one that ended is not waited in": (
        {0: DONE, 1: [*DONE, *TOGETHER[:2], pair(3, "coalesced", "completed")], 2: DONE, 3: DONE},
        {"says": "cannot tell: no rank waited in a collective when the flight recorder was dumped (4 ranks)"},
    ),
}


@pytest.mark.parametrize(("by_rank", "expected"), CASES.values(), ids=CASES)
def test_who_waits_for_whom(tmp_path, by_rank, expected):
    write_dumps(tmp_path / "dumps", by_rank, 4, **{"4": [0, 1], "7": [2, 0]})
    judge(tmp_path, {}, **expected)


def as_json(entries, groups):
    """_dump_fr_trace_json: texts for the numbers of a status, 0 for a time that is not known."""
    found = dump([{**entry, "time_discovered_completed_ns": 0} for entry in entries], groups)
    found.update(pg_status={"0": {"last_enqueued_collective": str(len(entries)), "last_completed_collective": "41"}})
    return json.dumps(found, sort_keys=True, separators=(",", ":")).encode()


def of_first_version(entries, groups):
    """Version 1: seq_id, the name of the group as a text, no members."""
    old = [{**entry, "seq_id": entry["collective_seq_id"], "process_group": "0"} for entry in entries]
    for entry in old:
        del entry["collective_seq_id"], entry["is_p2p"]
    return pickled({"entries": old, "version": "1.0"})


FORMS = {
    "nccl_trace_rank_{}": lambda *dumped: pickled(dump(*dumped)),
    "comm_lib_trace_rank_{}": lambda *dumped: pickle.dumps(dump(*dumped), protocol=5),
    "trace_{}.json": as_json,
    "hccl_trace_rank_{}": of_first_version,
    "rank_{}.pkl.gz": lambda *dumped: gzip.compress(pickled(dump(*dumped))),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_of_a_dump_is_read_in_subfolders_named_after_nodes(tmp_path, name):
    starts = [f"gpu{node:02}:4827:4827 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.7<0>" for node in (0, 1)]
    (tmp_path / "launch.log").write_text("\n".join(starts) + "\n")
    for rank in range(4):
        path = tmp_path / f"gpu{rank // 2:02}" / name.format(rank)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(FORMS[name](DONE if rank == 2 else WAITS, {"0": range(4)}))
    judge(tmp_path, {}, rank=2, node="gpu01", says="rank 2 did not come to nccl:all_reduce (SeqNum 42")


def test_dumps_in_an_archive_are_read(tmp_path):
    with tarfile.open(tmp_path / "dumps.tar", "w") as archive:
        for rank in range(4):
            data = pickled(dump(DONE if rank == 2 else WAITS, {"0": range(4)}))
            info = tarfile.TarInfo(f"run/nccl_trace_rank_{rank}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    judge(tmp_path, {}, rank=2, says="rank 2 did not come")


HANGS = {rank: DONE if rank == 2 else WAITS for rank in range(4)}
LOGS = {
    "with the time-outs of the others the node is named": (
        [f"gpu{rank:02}" for rank in range(4)],
        {0: [times_out(0, "15:46:05.7")], 1: [times_out(1, "15:46:05.7")], 3: [times_out(3, "15:46:05.7")]},
        {"rank": 2, "node": "gpu02", "says": "rank 2 did not come to nccl:all_reduce"},
    ),
    "the dumps know more than who is silent": (
        [f"gpu{rank:02}" for rank in range(4)],
        {rank: [times_out(rank, "15:46:05.7")] for rank in (0, 1, 2)},
        {"rank": 2, "node": "gpu02"},
    ),
    "a wait leaves a later error its place": (
        [f"gpu{rank:02}" for rank in range(4)],
        {2: ["[2026-08-10 15:41:00.0] RuntimeError: CUDA error: uncorrectable ECC error encountered"]},
        {"root": "cuda_ecc", "rank": 2, "node": "gpu02", "cause": Cause.HARDWARE, "sure": True},
    ),
    "a dump from before the training went on says nothing": (
        [f"gpu{rank:02}" for rank in range(4)],
        {0: [iteration(f"15:{minute}:00.0", minute) for minute in range(37, 50)]},
        {"failed": False, "says": "no error in these logs"},
    ),
}


@pytest.mark.parametrize(("nodes", "lines", "expected"), LOGS.values(), ids=LOGS)
def test_dumps_beside_logs(tmp_path, nodes, lines, expected):
    write_dumps(tmp_path / "fr", HANGS, 4)
    logs = {
        f"rank{rank}.log": [*joins(node, 0, rank, 4, bus="19000", address=f"10.9.0.{rank}"), *lines.get(rank, [])]
        for rank, node in enumerate(nodes)
    }
    judge(tmp_path, logs, **expected)


HEAD = b"\x80\x02}(X\x07\0\0\0versionX\x03\0\0\x002.4X\x07\0\0\0entries"
HOSTILE = {
    "a call": b"\x80\x02}(X\x07\0\0\0versioncos\nsystem\n(X\x0d\0\0\0touch /tmp/hurttRu.",
    "a call of protocol 4": b"\x80\x04}(\x8c\x07version\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85Ru.",
    "an object": b"\x80\x02}(X\x07\0\0\0versionc__main__\nA\n)\x81}bu.",
    "a class of the extension registry": HEAD + b"\x82\x01u.",
    "a persistent object": HEAD + b"X\x01\0\0\0aQu.",
    "a memo of 16 GiB": HEAD + b"]r\xff\xff\xff\x7fu.",
    "a text longer than the file": HEAD + b"X\xff\xff\xff\x7fa",
    "no end": HEAD + b"](](](",
    "nothing on the stack": HEAD + b"eeee.",
    "a list in place of a dictionary": b"\x80\x02](X\x07\0\0\0versione.",
    "too many lists": HEAD + b"(" + b"]" * 2_000_001 + b"lu.",
    "groups that are none": pickled({"version": "2.4", "pg_config": [1, 2], "entries": []}),
    "deep JSON": b'{"entries":[{"collective_seq_id":' + b"[" * 500_000,
    "JSON with too large a number": b'{"entries":[{"collective_seq_id":' + b"9" * 5000 + b"}]}",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_dump_that_attacks_is_refused_and_the_others_are_read(tmp_path, data, monkeypatch):
    monkeypatch.setattr("os.system", pytest.fail)
    write_dumps(tmp_path, dict.fromkeys(range(3), WAITS), 4)
    (tmp_path / "nccl_trace_rank_3").write_bytes(data)
    assert "rank 0-2 came to it" in triage([str(tmp_path)], now_s=NOW_S).sentence.en
    alone = triage([str(tmp_path / "nccl_trace_rank_3")], now_s=NOW_S)
    assert (alone.failed, alone.sure) == (True, False)
    assert "is a flight-recorder dump that is damaged" in alone.sentence.en


def test_a_dump_without_a_rank_in_its_name_says_so(tmp_path):
    (tmp_path / "flight.bak").write_bytes(pickled(dump(WAITS, {"0": range(4)})))
    write(tmp_path, "rank0.log", *(iteration(f"15:3{minute}:00.0", minute) for minute in range(9)))
    answer = triage([str(tmp_path)], now_s=NOW_S)
    assert any("does not end in a rank" in said for said in remarks(answer))
    assert answer.failed


def test_numbers_and_texts_of_other_kinds_are_not_shown(tmp_path):
    odd = {"time_created_ns": ["a"], "input_sizes": "x", "output_dtypes": [HEAD.hex()], "collective_seq_id": 1 << 70}
    (tmp_path / "trace_0.json").write_bytes(json.dumps(dump([step(1, **odd)], {"0": [0]})).encode())
    judge(tmp_path, {}, says="cannot tell: no rank waited")
