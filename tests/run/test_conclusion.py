"""The answer of profile troubleshoot: what each mix of verdicts and logs comes to, word for word."""

import gzip
from dataclasses import replace

import pytest
from support import sample_report
from support.made_findings import GPU3, NIC2, finding, record

from nodegate.claims.verdict import node_verdict
from nodegate.knowledge.words import Cause as LogCause
from nodegate.knowledge.words import Text
from nodegate.records import part
from nodegate.records.finding import AT_LEAST, Limit
from nodegate.records.run import NodeReport
from nodegate.records.verdict import NodeVerdict
from nodegate.report.model import Report
from nodegate.run.conclusion import conclude
from nodegate.triage.triage import triage

LINK = Limit(16, "lanes", "the device", AT_LEAST)
RATE = Limit(380.0, "Gb/s", "baselines/x.yaml", AT_LEAST)
PASSED = record("pcie.link_width", finding("pass", GPU3, quantity="link width", observed=16, unit="lanes"))
X8 = finding("fail", GPU3, quantity="link width", observed=8, unit="lanes", limit=LINK, share=0.5)
NARROW = record("pcie.link_width", X8)
OFF = finding("fail", part.setting("/etc/nccl.conf"), "NCCL_IB_DISABLE=1", action="remove it", code="nccl_ib_disable")
SETTING = record("software.nccl_settings", OFF)
SLOW = {"quantity": "RDMA write bandwidth", "observed": 190.0, "unit": "Gb/s", "limit": RATE, "metric": "rdma.write"}
SLOW_NIC = record("rdma_bandwidth.write", finding("fail", NIC2, **SLOW))
WAIVED = replace(NARROW, waiver="riser on order; owner dc-ops")
UNREAD = record("gpu.count", finding("error", text="NVML did not respond"))
XID_109 = record("kernel_log.xid", finding("warn", GPU3, "Xid 109 once", code="109", action="look at the job first"))
UNJUDGED = record("burn.fp64", finding("not-judged", GPU3, quantity="fp64", observed=1.4, unit="TFLOPS"))


def node(name, *records, reachable=True):
    mine = tuple(replace(record, node=name) for record in records)
    return NodeReport(name, node_verdict(mine, reachable=reachable), records=mine)


def report(*nodes):
    return Report(sample_report.run(), nodes)


ECC = "2026-11-21T08:00:00Z [rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
PROGRAM = "Traceback (most recent call last):\n  File \"train.py\", line 7, in <module>\nKeyError: 'lr'\n"


@pytest.fixture
def ecc_log(tmp_path):
    (tmp_path / "gpu02.log").write_text(ECC)
    return triage([str(tmp_path / "gpu02.log")], nodes=("gpu01", "gpu02"))


@pytest.fixture
def program_log(tmp_path):
    (tmp_path / "worker.log").write_text(PROGRAM)
    return triage([str(tmp_path / "worker.log")])


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (
            [[PASSED], [PASSED, NARROW]],
            "hardware: move the job off gpu02 because GPU 3 S/N 1650003000003: PCIe x8 of x16",
        ),
        ([[SETTING], [NARROW]], "hardware: move the job off gpu02 because GPU 3 "),
        ([[XID_109], [UNREAD], [NARROW]], "hardware: move the job off gpu03 because "),
        ([[SLOW_NIC]], "fabric: move the job off gpu01 because mlx5_2: RDMA write bandwidth 190 Gb/s"),
        ([[SETTING]], "host: fix gpu01 before the job runs there again: /etc/nccl.conf: NCCL_IB_DISABLE=1 - remove it"),
        ([[PASSED], None], "hardware: move the job off gpu02 because gpu02 cannot be reached"),
        ([[PASSED], [PASSED]], "nodes fine: nothing is wrong with the 2 nodes now; add the job's logs (--job-log)"),
        ([[PASSED, UNJUDGED]], "nodes fine: nothing is wrong with the node now (1 check not judged); "),
        ([[UNJUDGED]], "inconclusive: nothing of gpu01 could be judged - the report says why"),
        ([], "inconclusive: "),
        ([[WAIVED]], "nodes pass with waivers, which may be the reason: gpu01: GPU 3 "),
    ],
)
def test_without_logs_the_nodes_alone_decide(nodes, said):
    """None: it cannot be reached. A part stands above a setting, a failure above a warning and a gap."""
    of = [node(f"gpu{at:02}", *(each or ()), reachable=each is not None) for at, each in enumerate(nodes, 1)]
    assert conclude(report(*of)).startswith(said)


def test_of_several_bad_nodes_the_one_that_the_logs_name_comes_first(ecc_log):
    logs = replace(ecc_log, where=replace(ecc_log.where, node="gpu02"))
    said = conclude(report(node("gpu01", NARROW), node("gpu02", NARROW)), logs)
    assert said.startswith("hardware: move the job off gpu[01-02] because gpu02: GPU 3 ")
    assert "; the logs: " in said


def test_what_only_the_logs_know_is_said_to_be_so(ecc_log, program_log):
    good = report(node("gpu01", PASSED), node("gpu02", PASSED))
    unknown = replace(program_log, cause=LogCause.UNKNOWN, sentence=Text("the cause is not in these logs: X", ""))
    why = "the GPU of this rank met a memory error that it could not correct (from the logs alone: no check fails now)"
    assert [conclude(good, logs) for logs in (ecc_log, program_log, unknown)] == [
        f"hardware: move the job off gpu02 because {why}",
        "nodes fine: look at the code: the program stopped on an error of its own",
        "nodes fine: the cause is not in these logs: X",
    ]


def test_logs_that_were_not_read_to_their_end_are_not_said_to_be_without_an_error(tmp_path):
    file = tmp_path / "worker.log.gz"
    file.write_bytes(gzip.compress(b"".join(b"step %d\n" % (step * 7919) for step in range(5000)))[:-500])
    said = conclude(report(node("gpu01", PASSED)), triage([str(file)]))
    assert said.startswith("nodes fine: nothing is wrong with the node now; cannot tell: no error in what could be")


def test_a_node_that_could_not_be_measured_is_never_fine(program_log):
    told = report(node("gpu01", PASSED), node("gpu02", PASSED, UNREAD))
    assert told.nodes[1].verdict is NodeVerdict.INCOMPLETE
    said = "inconclusive: not everything could be measured on gpu02: node: NVML did not respond"
    assert all(conclude(told, logs).startswith(said) for logs in (None, program_log))


def test_an_interrupted_run_is_never_fine(program_log):
    told = Report(sample_report.run(interrupted=True), (node("gpu01", PASSED),))
    said = "inconclusive: the run ended before every check was judged - continue it with --resume"
    assert {conclude(told, logs) for logs in (None, program_log)} == {said}


def test_a_node_that_warns_is_never_simply_fine(program_log):
    told = report(node("gpu01", PASSED), node("gpu02", PASSED, XID_109))
    assert told.nodes[1].verdict is NodeVerdict.ACCEPTED
    words = "nodes pass with warnings, which may be the reason: gpu02: GPU 3 S/N 1650003000003: Xid 109 once - look at"
    assert conclude(told).startswith(words)
    assert "; add the job's logs" in conclude(told)
    assert conclude(told, program_log).startswith(words)
    assert "; look at the code: " in conclude(told, program_log)
