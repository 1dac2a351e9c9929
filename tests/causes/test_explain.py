"""What findings amount to on one node: which is a cause, what follows from it, and what must not be put under it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_findings import GPU3, GPU4, NIC2, finding, rate, record

from nodegate.causes.conditions import conditions
from nodegate.causes.explain import HEALTHY, causes_of
from nodegate.records import part
from nodegate.records.cause import Class, Severity
from nodegate.records.finding import COUNTER_FULL, Limit
from nodegate.records.verdict import Verdict
from nodegate.unknown import Why

LOST = record("gpu.lost", finding("fail", GPU3, "lost: PCIe configuration space reads all ff"))
NARROW = record(
    "pcie.link_width",
    finding("fail", NIC2, quantity="link width", observed=8, unit="lanes", limit=Limit(16, "lanes"), share=0.5),
)


def causes(*records):
    return causes_of(records, conditions())


def names(*records):
    return [(cause.condition, cause.part.short, len(cause.follows)) for cause in causes(*records)]


def test_checks_that_show_one_condition_of_one_part_are_one_cause_and_the_most_telling_decides():
    xid = finding("fail", part.gpu(address="0000:3d:00.0", serial="1650003000003"), "Xid 79", code="79")
    found = causes(record("kernel_log.xid", xid), LOST)
    assert [(cause.condition, cause.decisive.check, len(cause.same)) for cause in found] == [
        ("gpu_lost", "gpu.lost", 1)
    ]
    assert found[0].severity is Severity.LOST
    assert found[0].sort is Class.GPU


def unread(where, why):
    return finding("error", where, f"{why.value}: NVML 15", quantity="its state", why=why)


def blocked_by(check):
    return record("rdma_bandwidth.write", finding("error", text=f"blocked by {check}", blocked_by=check))


def slow_rail(nic=NIC2, observed=245.0):
    return record("rdma_bandwidth.write", rate("fail", nic, observed, 392.0, "rdma.write_gbps"))


BRIDGE = record(
    "pcie.bridge_width",
    finding("fail", part.bridge("0000:39:00.0"), quantity="width", observed=8, limit=Limit(16, "lanes"), share=0.5),
)
GROUP = record("nccl_groups.all_reduce", rate("fail", part.NODE, 239.0, 383.0, "nccl.group_all_reduce_gb_per_s"))
FLAPS = record("kernel_log.nic_flaps", finding("warn", NIC2, "link down once"))
OF_LOST = [record(check, unread(GPU3, Why.LOST)) for check in ("ecc.volatile", "clocks.sm_max")]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([LOST, *OF_LOST], [("gpu_lost", "GPU 3", 2)]),
        ([LOST, blocked_by("gpu.lost")], [("gpu_lost", "GPU 3", 1)]),
        ([NARROW, slow_rail()], [("pcie_narrow", "mlx5_2", 1)]),  # it explains half of the rate and no less
        ([NARROW, slow_rail(observed=100.0)], [("pcie_narrow", "mlx5_2", 0), ("rail_slow", "mlx5_2", 0)]),
        ([BRIDGE, slow_rail()], [("pcie_narrow", "bridge 0000:39:00.0", 1)]),
        ([NARROW, slow_rail(part.nic("mlx5_5"))], [("pcie_narrow", "mlx5_2", 0), ("rail_slow", "mlx5_5", 0)]),
        ([NARROW, slow_rail(), GROUP], [("pcie_narrow", "mlx5_2", 2)]),
        ([FLAPS, slow_rail()], [("rail_slow", "mlx5_2", 0), ("link_flaps", "mlx5_2", 0)]),  # a warning explains none
    ],
)
def test_what_follows_from_what(records, expected):
    assert names(*records) == expected


@pytest.mark.parametrize(
    "other", [record("ecc.volatile", unread(GPU4, Why.TIMEOUT)), blocked_by("host.hung_mounts")], ids=["GPU", "check"]
)
def test_what_has_another_reason_does_not_follow(other):
    assert len(causes(LOST, other)) == 2


def test_the_same_finding_on_all_gpus_is_one_cause_with_all_parts():
    off = [finding("warn", part.gpu(index), quantity="persistence mode", observed="off") for index in range(8)]
    (cause,) = causes(record("gpu.persistence", *off))
    assert [each.index for each in cause.parts] == list(range(8))


def test_errors_of_many_checks_with_one_reason_are_one_cause():
    reason = {"text": "the node is busy: python3 (pid 77120)", "code": "busy", "action": "drain it"}
    (cause,) = causes(*(record(check, finding("error", **reason)) for check in ("burn.complete", "copies.data")))
    assert cause.severity is Severity.NOT_MEASURED
    assert len(cause.findings) == 2


def test_what_has_no_limit_is_one_cause_that_names_the_checks():
    (cause,) = causes(
        *(record(check, finding("not-judged", GPU3, "no limit")) for check in ("burn.throughput", "copies.peer"))
    )
    assert cause.severity is Severity.NOT_JUDGED
    assert cause.message == "2 checks have nothing to judge by: burn.throughput, copies.peer"


def test_what_is_not_judged_for_another_reason_than_a_limit_says_its_own_step():
    text = "link_downed not judged: full since before the load (255)"
    full = {"text": text, "action": "clear it", "code": COUNTER_FULL}
    nothing, port = sorted(
        causes(
            record("counters.nic", finding("not-judged", part.port(part.nic("mlx5_1"), 1), **full)),
            record("burn.throughput", finding("not-judged", GPU3, "no limit")),
        ),
        key=lambda cause: cause.condition,
        reverse=True,
    )
    assert (port.action, port.message) == ("clear it", text)
    assert nothing.message == "1 check has nothing to judge by: burn.throughput"


def test_the_check_of_a_site_needs_no_line_in_the_table():
    (cause,) = causes(record("site.mine", finding("fail", part.host("clock"), "off by an hour")))
    assert (cause.condition, cause.severity) == ("site.mine", Severity.UNUSABLE)


def test_a_cause_is_waived_where_all_its_failures_are():
    waived = record("pcie.link_width", *NARROW.findings, waiver="wired so (owner ops, expires 2030-01-01)")
    (cause,) = causes(waived)
    assert cause.waiver == "wired so (owner ops, expires 2030-01-01)"


VERDICTS = st.sampled_from([verdict.value for verdict in Verdict])
PARTS = st.sampled_from([part.NODE, GPU3, GPU4, NIC2, part.port(NIC2, 1), part.nvlink(GPU3, 7), part.service("slurmd")])
CHECKS = sorted({pattern.partition("/")[0].rstrip("*.") for each in conditions().known for pattern in each.findings})


@given(st.lists(st.tuples(st.sampled_from([*CHECKS, "site.own"]), VERDICTS, PARTS, st.floats(0, 1)), max_size=25))
def test_every_finding_that_is_not_healthy_is_in_exactly_one_cause_and_a_failure_in_one_that_fails(drawn):
    records = [
        record(check, finding(verdict, where, f"seen {share:.1f}", share=share, metric="x.y_gbps"))
        for check, verdict, where, share in drawn
    ]
    found = causes(*records)
    expected = [id(each) for one in records for each in one.findings if each.verdict not in HEALTHY]
    assert sorted(id(each.finding) for cause in found for each in cause.findings) == sorted(expected)
    fails = any(one.verdict is Verdict.FAIL for one in records)
    assert fails == any(cause.verdict is Verdict.FAIL for cause in found)
