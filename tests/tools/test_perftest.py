"""perftest: the rows of all versions with their units, and what it says when something is wrong."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.corpus import corpus
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.tools import perftest


@pytest.mark.parametrize("change", [("Gb/sec", "Gb/min"), ("391.87", "nan"), ("391.87", "-nan"), ("391.87", "inf")])
def test_a_unit_or_a_number_that_nobody_knows_is_refused(change):
    with pytest.raises(CannotMeasure, match=r"cannot be read at|no result row"):
        perftest.parse(recording("perftest", "healthy.txt").replace(*change))


def test_a_deviation_that_is_no_number_spoils_no_latency():
    written = recording("perftest", "latency.txt")
    assert "\t0.05 " in written
    assert perftest.parse(written.replace("\t0.05 ", "\t-nan ")).latency == perftest.parse(written).latency


def test_terminal_codes_and_carriage_returns_are_taken_out():
    written = recording("perftest", "healthy.txt").replace("\n", "\r\n").replace("391.87", "\x1b[1m391.87\x1b[0m")
    assert perftest.parse(written).bandwidth[0].average_gbps == 391.87


def test_client_and_server_in_one_file_count_once_and_the_worse_one():
    written = recording("perftest", "healthy.txt")
    assert [row.average_gbps for row in perftest.parse(written + written.replace("391.87", "388.01")).bandwidth] == [
        388.01
    ]


@pytest.mark.parametrize(
    ("stderr", "kind", "step"),
    [
        (" Failed to modify QP 123 to RTR", "link", "GID tables"),
        (" Unable to Connect the HCA's through the link", "link", "GID tables"),
        (" Found Incompatibility issue with GID types.", "link", "GID tables"),
        (" Couldn't connect to 192.0.2.2:18515\n Unable to init the socket connection", "setup", "let TCP through"),
        (" Couldn't listen to port 18515", "setup", "end the process that listens"),
        (" IB device mlx5_0 not found\n Unable to find the Infiniband/RoCE device", "setup", "ibv_devinfo"),
        (" Did not detect devices \n If device exists, check if driver is up", "setup", "ibv_devinfo"),
        (" Unable to query port 2 attributes", "setup", "ibv_devinfo"),
        (" Couldn't allocate MR\n failed to create mr", "setup", "locked memory"),
        (" ibv_reg_mr failed: Cannot allocate memory", "setup", "locked memory"),
        (" Unsupported memory type", "setup", "newer perftest"),
        ("ib_write_bw: unrecognized option '--use_cuda=0'", "setup", "newer perftest"),
        ("ib_write_bw: not found\n", "setup", "install perftest"),
    ],
)
def test_an_error_is_told_in_its_own_words_with_a_step(stderr, kind, step):
    found = perftest.trouble("", stderr)
    assert found.kind == kind
    assert step in found.next_step
    assert found.said in stderr


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (12, "status 12 (transport retry counter exceeded)"),
        (5, "status 5 (flushed)"),
        (13, "status 13 (receiver not ready, retries exceeded)"),
        (99, "status 99"),
    ],
)
def test_a_completion_error_has_its_status_in_words(status, words):
    found = perftest.trouble(recording("perftest", "completion-error.txt").replace("12:", f"{status}:"), "")
    assert (found.kind, found.said) == ("link", f"completion with error, {words}")


@pytest.mark.parametrize("status", [4, 9, 10, 11])
def test_a_request_that_an_end_refused_is_no_fault_of_the_link(status):
    found = perftest.trouble(recording("perftest", "completion-error.txt").replace("12:", f"{status}:"), "")
    assert found.kind == "setup"
    assert f"status {status} (" in found.said
    assert "nvidia_peermem" in found.next_step


HEAD = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"


@pytest.mark.parametrize(
    ("head", "row", "gbps"),
    [
        (HEAD, " 65536      5000             196.35             196.07             0.373974\n", 196.07),
        (HEAD, " 8388608    5000             393.10             392.94             0.005855\n", 392.94),
        (HEAD, " 65536      5000             23406.70           23373.40           0.373974\n", 196.07),
        (HEAD.replace("MB/", "Gb/"), " 65536  5000  23406.70  23373.40  0.373974\n", 196.07),
        (HEAD, " 65536      5000             196.35             196.07             0.000000\n", 1.645),
        (HEAD, " 65536      5000             196.35             196.07             0.500000\n", 1.645),
        (HEAD.replace("   MsgRate[Mpps]", ""), " 65536  5000  196.35  196.07  0.373974\n", 196.07),
        (HEAD.replace("MsgRate", "\nMsgRate"), " 65536  5000  23406.70  23373.40  0.373974\n", 196.07),
    ],
)
def test_the_message_rate_decides_where_the_head_names_another_unit(head, row, gbps):
    (found,) = perftest.parse(head + row).bandwidth
    assert found.average_gbps == pytest.approx(gbps, rel=0.001)


def test_version_and_options():
    assert perftest.parse_version("Version: 6.06\n") == "6.06"
    assert perftest.parse_version("") == ""
    help_text = "      --use_cuda=<cuda device id>\n      --use_cuda_dmabuf Use CUDA DMA-BUF\n  -a, --all Run sizes\n"
    assert perftest.options_in(help_text) == {"use_cuda", "use_cuda_dmabuf", "all"}


@pytest.mark.parametrize(
    ("name", "gbps", "sizes"),
    [
        ("deepops_roce_write_bw_cpufreq.txt", 92.40, 1),
        ("oci_oke_4qp.txt", 98.01, 1),
        ("superbench_ib_loopback_8M.txt", 201.80, 1),
        ("superbench_ib_loopback_all_sizes.txt", 194.96, 23),
    ],
)
def test_real_outputs_are_read(name, gbps, sizes):
    written = corpus(f"perftest/{name}")
    report = perftest.parse(written)
    assert len(report.bandwidth) == sizes
    assert report.bandwidth[-1].average_gbps == pytest.approx(gbps, abs=0.01)
    assert perftest.trouble(written, "") is None


@given(st.text(max_size=300))
def test_whatever_is_written_is_read_or_refused(written):
    for text in (written, " #bytes #iterations BW average[Gb/sec]\n" + written):
        with contextlib.suppress(CannotMeasure):
            perftest.parse(text)


@given(st.integers(0, 60), st.data())
def test_half_a_row_is_never_a_result(cut, data):
    whole = recording("perftest", "healthy.txt")
    short = whole[: whole.index(" 1048576") + cut]
    try:
        report = perftest.parse(short)
    except CannotMeasure:
        return
    assert report.bandwidth[0].average_gbps == 391.87
