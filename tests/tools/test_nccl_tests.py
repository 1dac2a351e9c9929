"""nccl-tests: every layout, through every launcher, whole and broken; and the real outputs with their truth."""

import csv
import io
import re

import pytest
from support.corpus import corpus
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.tools import nccl_tests
from nodegate.unknown import Unknown, Why

GIB = 1 << 30
ROW = "1024 256 float sum -1 20.48 0.05 0.09 0 20.48 0.05 0.09 0\n"


def read(name):
    return nccl_tests.parse(recording("nccl_tests", name))


@pytest.mark.parametrize(
    ("cells", "busbw"),
    [
        ("float sum -1 4145.6 129.50 226.63 0 4138.5 129.73 227.02 0", 226.63),
        ("float none -1 4145.6 259.00 226.63 N/A 4138.5 259.45 227.02 N/A", 226.63),
        ("half sum -1 1.2e+03 447.39 782.93 0 1.2e+03 447.39 782.93 1e+06", 782.93),
        ("float sum 0 4145.6 129.50 129.50 0 4138.5 129.73 129.73 0 20", 129.50),  # root, and #iters at the end
        ("float 0 4145.6 129.50 129.50 N/A 4138.5 129.73 129.73 N/A", 129.50),  # broadcast of 2.9
        ("float 4145.6 129.50 113.31 5e-07 4138.5 129.73 113.51 5e-07", 113.31),  # alltoall of 2.9
    ],
)
def test_rows_are_found_by_their_shape(cells, busbw):
    (row,) = nccl_tests.parse(f"536870912 134217728 {cells}\n").rows
    assert row.out_of_place.busbw_gb_per_s == busbw


def test_a_size_of_zero_is_no_row():
    zero = "0 0 float sum -1 34.6 0.00 0.00 0 inf -nan 0.00 0\n"
    assert [row.size_bytes for row in nccl_tests.parse(zero + ROW).rows] == [1024]


@pytest.mark.parametrize(
    ("written", "version", "nccl"),
    [
        ("# nccl-tests version 2.17.5 nccl-headers=2804 nccl-library=2804\n", "2.17.5", "2.8.4"),
        ("# nccl-tests version 2.17.5 nccl-headers=23007 nccl-library=23007\n", "2.17.5", "2.30.7"),
        ("# nccl-tests version 2.20.1 (0a1b2c3) nccl-headers=22907 nccl-library=22907\n", "2.20.1", "2.29.7"),
        ("NCCL version 2.16.2+cuda11.6\n", Unknown(Why.MISSING, "not written before 2.17.5"), "2.16.2"),
    ],
)
def test_the_version_of_nccl_is_read_from_the_banner_or_from_the_library_code(written, version, nccl):
    test = nccl_tests.parse(f"{written}{ROW}")
    assert (test.version, test.nccl) == (version, nccl)


def test_windows_line_ends_and_colours_change_nothing():
    text = recording("nccl_tests", "2.19-healthy.txt").replace("\n", "\x1b[0m\r\n")
    assert nccl_tests.parse(text).rows == read("2.19-healthy.txt").rows


def one_run(of, busbw="0.24", wrong=0):
    ranks = "".join(
        f"#  Rank {rank} Group 0 Pid 70{rank} on {of} device {rank} [0000:0{rank}:00] L40S\n" for rank in (0, 1)
    )
    row = f"1048576 262144 float none -1 2189.16 0.48 {busbw} {wrong} 2189.16 0.48 {busbw} {wrong}\n"
    ended = f"# Out of bounds values : {2 * wrong} {'FAILED' if wrong else 'OK'}\n# Avg bus bandwidth    : {busbw}\n"
    return f"# Collective test starting: all_gather_perf_mpi\n{ranks}{row}{ended}"


def test_of_runs_one_after_another_the_last_counts_or_the_first_that_went_wrong():
    last = nccl_tests.parse(one_run("n01", "0.21") + one_run("n01", "0.24"))
    assert (last.ranks, last.collective, last.average_gb_per_s) == (2, "all_gather", 0.24)
    assert nccl_tests.parse(one_run("n01", wrong=3) + one_run("n01")).corrupt


def test_runs_of_other_gpus_one_after_another_are_separate_programs():
    with pytest.raises(CannotMeasure, match="4 separate programs ran"):
        nccl_tests.parse(one_run("n01") + one_run("n02"))


def test_a_size_that_was_reduced_was_not_run():
    gaps = read("2.19-reduced.txt").gaps(ranks=8, size_bytes=8 * GIB)
    assert gaps[0].startswith("the largest size was reduced to 4294971392 bytes")


def test_fewer_ranks_than_gpus_are_a_gap():
    assert read("2.19-healthy.txt").gaps(ranks=16, size_bytes=GIB) == ("8 of 16 GPUs took part",)


def test_a_list_of_many_gpus_that_the_program_cuts_short_is_counted_by_its_options():
    device = "#  Rank {0:2} Group  0 Pid 104711 on a-long-host-name.example.org device {0:2} [0000:1b:00] NVIDIA H100\n"
    header = "# nThread 1 nGpus 16 minBytes 1024 maxBytes 1024 step: 2(factor)\n"
    listed = "".join(device.format(rank) for rank in range(13)) + "...\n"
    assert nccl_tests.parse(header + listed + ROW).ranks == 16
    assert nccl_tests.parse(header + device.format(0) + device.format(3) + ROW).gaps(ranks=16, size_bytes=1024)[0] == (
        "how many GPUs took part is unknown (missing: not every rank is listed)"
    )


def test_a_collective_rounds_its_size_down_to_its_ranks():
    row = "1073741760 268435440 float none -1 3023.5 355.13 304.40 0 3023.5 355.13 304.40 0\n"
    assert nccl_tests.parse(row).row(GIB) is None  # without ranks nothing says how far
    listed = "".join(f"# Rank {rank} Pid 1 on gpu01 device {rank} [0x1b] H100\n" for rank in range(7))
    rounded = nccl_tests.parse(listed + row)
    assert rounded.row(GIB) is rounded.rows[0]
    assert rounded.row(8 * GIB) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("272.20  476.35", "472.20  826.35"), "algbw 472.2 GB/s is not size over time"),
        (("272.20  476.35", "272.20  276.35"), "busbw 276.35 GB/s does not follow from algbw"),
    ],
)
def test_numbers_that_contradict_each_other_are_named(change, said):
    text = recording("nccl_tests", "2.19-healthy.txt").replace(*change, 1)
    assert nccl_tests.parse(text).inconsistent[0] == f"{GIB} bytes, out of place: {said}"


def test_without_labels_and_process_the_rank_is_unknown():
    alone = nccl_tests.parse("gpu01: Test timeout (30s) common.cu:524\n")
    assert alone.faults[0].text == "Test timeout (30s)"
    assert alone.faults[0].rank == Unknown(Why.MISSING, "no line names the rank")


def test_a_missing_library_is_said():
    said = "error while loading shared libraries: libnccl.so.2"
    with pytest.raises(CannotMeasure, match=f"did not run: {said}"):
        nccl_tests.parse("", f"all_reduce_perf: {said}: cannot open shared object file\n")


@pytest.mark.parametrize("cut", range(0, 2900, 61))
def test_every_beginning_of_an_output_is_an_error_or_has_gaps(cut):
    text = recording("nccl_tests", "2.19-healthy.txt")[:cut]
    try:
        test = nccl_tests.parse(text)
    except CannotMeasure:
        return
    assert test.gaps(ranks=8, size_bytes=8 * GIB) or test.open_ends == ()


def real_outputs():
    try:
        rows = list(csv.DictReader(io.StringIO(corpus("index.csv"))))
    except pytest.skip.Exception:
        return []
    return [row for row in rows if row["kind"] == "nccl"]


def said_of(file):
    """In one word what the output says of the run, and the output."""
    try:
        test = nccl_tests.parse(corpus(file))
    except CannotMeasure:
        return "error", None
    if test.corrupt:
        return "corrupt", test
    if test.inconsistent:
        return "inconsistent", test
    return ("incomplete" if test.open_ends else "healthy"), test


def told_by(truth):
    words = {
        "NOT A RESULT": "error",
        "DID NOT RUN": "error",
        "data corruption": "corrupt",
        "first row 20.20": "inconsistent",  # numbers that the author invented
        "no Avg line": "incomplete",
        "avg absent": "incomplete",
    }
    return next((word for part, word in words.items() if part in truth), "healthy")


@pytest.mark.parametrize("row", real_outputs(), ids=lambda row: row["file"].removeprefix("nccl/"))
def test_a_real_output_says_what_its_index_says(row):
    truth = row["truth"]
    said, test = said_of(row["file"])
    if test is not None and row["file"].endswith("aws_p5_prefixed.txt"):  # ends with its table, healthy by its index
        assert said == "incomplete"
        said = "healthy"
    assert said == told_by(truth)
    average = re.search(r"avg=([\d.]+)", truth)
    if test is not None and average:
        assert test.average_gb_per_s == float(average[1])


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("cuda", "gpu01: Test CUDA failure all_reduce.cu:40 'out of memory'"),
        ("nccl", "gpu01: Test NCCL failure common.cu:961 'unhandled system error'"),
        ("gpus", "Invalid number of GPUs: 8 requested but only 7 were found"),
        ("timeout", "gpu01: Test timeout (120s) all_reduce.cu:40"),
    ],
)
def test_each_kind_of_fault_is_seen_also_where_a_return_cuts_its_line(kind, said):
    for written in (said, f"{said[:12]}\r{said[12:]}"):
        (fault,) = nccl_tests.parse(f"# nThread 1\n{written}\n", collective="all_reduce").faults
        assert fault.kind == kind
