"""Counters: no device counts errors under load, and none comes or goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import Limit, Unknown, Verdict, part
from nodegate.subjects.counters import (
    NVLINK5,
    Growth,
    allowed,
    is_too_many,
    judged,
    not_counted,
    of_link,
    of_nvlink5,
    of_part,
    port_growth,
    replays_allowed,
    skip_if_none,
)
from nodegate.subjects.pcie import end_without_counters
from nodegate.subjects.rdma import end_without_rails, rails

if TYPE_CHECKING:
    from nodegate.api import Baseline, Counters, RdmaPort, Verdicts
    from nodegate.subjects.counters import Pair

pytestmark = pytest.mark.tier("bootcheck")

_RESET = "drain the node and reset the GPU; if it comes back, run field diagnostics and replace the board"
_RESEAT = "reseat the board or riser; replace it if the count grows again"
_CABLE = "clean and reseat the cable or transceiver, then replace it; look at the switch port"
_NVLINK = "drain the node and reset the GPUs; if it comes back, run field diagnostics"
_DRIVER = "check /sys/class/infiniband/*/ports/*/counters on the node; update the NIC's driver"
_NETWORK = "look at the switch port, its buffers and congestion control"

# Counter of a port, its limit, what is worse than the limit, and what to do; the last three are those of AWS EFA.
# Source: NVSentinel, nic-health-monitor.
_PORT_COUNTERS = (
    ("link_downed", "counters.link_downed_per_h", Verdict.FAIL, _CABLE),
    ("symbol_error", "counters.symbol_error_per_h", Verdict.FAIL, _CABLE),
    ("local_link_integrity_errors", "counters.local_link_integrity_per_h", Verdict.FAIL, _CABLE),
    ("excessive_buffer_overrun_errors", "counters.excessive_buffer_overrun_per_h", Verdict.FAIL, _NETWORK),
    ("rnr_nak_retry_err", "counters.rnr_nak_retry_per_h", Verdict.FAIL, _NETWORK),
    ("link_error_recovery", "counters.link_error_recovery_per_h", Verdict.WARN, _CABLE),
    ("port_rcv_errors", "counters.port_rcv_errors_per_h", Verdict.WARN, _CABLE),
    ("port_xmit_discards", "counters.port_xmit_discards_per_h", Verdict.WARN, _NETWORK),
    ("out_of_sequence", "counters.out_of_sequence_per_h", Verdict.WARN, _NETWORK),
    ("local_ack_timeout_err", "counters.local_ack_timeout_per_h", Verdict.WARN, _NETWORK),
    ("roce_slow_restart", "counters.roce_slow_restart_per_h", Verdict.WARN, _NETWORK),
    ("rdma_read_wr_err", "counters.efa_errors_per_h", Verdict.WARN, _NETWORK),
    ("rdma_write_wr_err", "counters.efa_errors_per_h", Verdict.WARN, _NETWORK),
    ("unresponsive_remote_events", "counters.efa_errors_per_h", Verdict.WARN, _NETWORK),
)

# Counter of NVLinks, its limit, and what is worse than the limit: from the fourth on those of NVLink 5.
_NVLINK_COUNTERS = (
    ("replay", "counters.nvlink_replay_per_h", Verdict.FAIL),
    ("recovery", "counters.nvlink_recovery_per_h", Verdict.FAIL),
    ("CRC", "counters.nvlink_crc_per_h", Verdict.FAIL),
    ("recoveries that failed", "counters.nvlink_failed_recovery_per_h", Verdict.FAIL),
    ("recovered links", "counters.nvlink_recovered_per_h", Verdict.WARN),
    ("malformed packets", "counters.nvlink_bad_packets_per_h", Verdict.WARN),
    ("buffer overruns", "counters.nvlink_bad_packets_per_h", Verdict.WARN),
    ("receive errors", "counters.nvlink_bad_packets_per_h", Verdict.WARN),
    ("link integrity errors", "counters.nvlink_bad_packets_per_h", Verdict.WARN),
    ("discarded packets", "counters.nvlink_bad_packets_per_h", Verdict.WARN),
)


def test_devices(counters: Counters, verdicts: Verdicts) -> None:
    """Every GPU, NVSwitch, NIC and bridge that was there before the load is there after it. (F02, F07)

    A device that disappears under load will disappear under a job. One that appears was not there when the node was
    judged.
    """
    devices = counters.devices
    for name in devices["vanished"]:
        remedy = "look at the kernel log; reseat or replace the device"
        verdicts.found(Verdict.FAIL, part=name, text="gone after the load", action=remedy, code="gone")
    for name in devices["appeared"]:
        message = "appeared under load: it was not there before"
        verdicts.found(Verdict.WARN, part=name, text=message, action="measure this node again", code="appeared")
    if not (devices["vanished"] or devices["appeared"]) and devices["stayed"]:
        verdicts.passed(part=part.NODE, text=f"all {len(devices['stayed'])} devices are still there")


def test_ecc(counters: Counters, baseline: Baseline, verdicts: Verdicts) -> None:
    """No GPU adds memory errors under load that it cannot correct, and few that it can. (F03)

    An uncorrectable error ends the job that meets it. The counts by location say whether the memory or the chip is to
    blame. Corrected errors are normal for ECC; at a high rate they warn.
    """
    fatal = allowed(baseline.number("counters.ecc_uncorrected_per_h"), counters.seconds)
    corrected = allowed(baseline.number("counters.ecc_corrected_per_h"), counters.seconds)
    for pair in counters.gpus:
        before, after, name = pair.before.ecc, pair.after.ecc, pair.part
        grown = {
            "uncorrected memory errors": Growth(
                name, "volatile", before.volatile_uncorrected, after.volatile_uncorrected
            ),
            "uncorrectable errors in SRAM": Growth(
                name, "sram", before.aggregate_sram_uncorrected, after.aggregate_sram_uncorrected
            ),
            "uncorrectable errors in DRAM": Growth(
                name, "dram", before.aggregate_dram_uncorrected, after.aggregate_dram_uncorrected
            ),
        }
        for what, each in grown.items():
            judged(each, fatal, verdicts, what=what, remedy=_RESET, code="uncorrected")
        lasting = Growth(name, "corrected", before.volatile_corrected, after.volatile_corrected)
        what = "corrected memory errors"
        judged(lasting, corrected, verdicts, what=what, remedy=_RESET, otherwise=Verdict.WARN, code="corrected")
        skip_if_none((*grown.values(), lasting), pair, "does not count memory errors", verdicts)
    _no_gpu(counters, verdicts)


def test_remapped_rows(counters: Counters, verdicts: Verdicts) -> None:
    """No GPU remaps a row of its memory under load, or fails to. (F03)

    A row remapped for an uncorrectable error waits for a reset and may be hit again until then. One remapped for
    corrected errors works; it warns, for a healthy board needs none within a test.
    """
    for pair in counters.gpus:
        rows = [
            (Verdict.FAIL, "row remap failures", of_part(pair.before, "failed"), of_part(pair.after, "failed")),
            (Verdict.FAIL, "pending row remaps", of_part(pair.before, "pending"), of_part(pair.after, "pending")),
            (
                Verdict.FAIL,
                "rows remapped for uncorrectable errors",
                of_part(pair.before, "uncorrectable"),
                of_part(pair.after, "uncorrectable"),
            ),
            (
                Verdict.WARN,
                "rows remapped for corrected errors",
                of_part(pair.before, "correctable"),
                of_part(pair.after, "correctable"),
            ),
        ]
        grown = [(Growth(pair.part, what, first, last), verdict) for verdict, what, first, last in rows]
        for each, verdict in grown:
            limit = Limit(0, "", "none on a healthy GPU")
            judged(each, limit, verdicts, what=each.counter, remedy=_RESET, otherwise=verdict)
        skip_if_none([each for each, _ in grown], pair, "does not remap rows", verdicts)
    _no_gpu(counters, verdicts)


def test_nvlink(counters: Counters, baseline: Baseline, verdicts: Verdicts) -> None:
    """No NVLink had to be recovered or sent data again under load, and few of its packets were damaged. (F13)

    One replay or recovery within the test fails; CRC errors are corrected on the way and matter from 100 a second
    (DCGM health checks). Of NVLink 5 a recovery that failed fails; one that succeeded and bad packets warn.
    """
    joined = baseline.find_number("nvlink.count")
    limits = {
        counter: (allowed(baseline.number(key), counters.seconds), verdict)
        for counter, key, verdict in _NVLINK_COUNTERS
    }
    for pair in counters.gpus:
        links = counters.nvlinks(pair)
        if isinstance(links, Unknown):
            verdicts.unknown(part=pair.part, quantity="NVLinks", reason=links, absent=Verdict.SKIP)
            continue
        reported = [each for link in links for each in of_link(link) if each.is_reported]
        older = bool(reported)
        if not older or not isinstance(pair.after.nvlink5, Unknown):
            reported += [each for each in of_nvlink5(pair) if each.is_reported]
        bad = [each for each in reported if is_too_many(each, limits[each.counter][0])]
        for each in bad:
            limit, verdict = limits[each.counter]
            what = f"NVLink {each.counter}" if each.counter in NVLINK5 else f"{each.counter} errors"
            judged(each, limit, verdicts, what=what, remedy=_NVLINK, otherwise=verdict, code=each.counter.lower())
        if reported and not bad:
            kinds = "a replay, a recovery or too many CRC errors" if older else "a recovery or a bad packet"
            message = f"{len(links)} NVLinks without {kinds} under load"
            verdicts.passed(part=pair.part, text=message)
        elif not reported:
            silent = verdicts.left_out if joined and joined.value else verdicts.lacking
            silent(part=pair.part, text="has no NVLink error counters")
    _no_gpu(counters, verdicts)


def test_pcie_replays(counters: Counters, baseline: Baseline, verdicts: Verdicts) -> None:
    """PCIe packets of every GPU that had to be sent again stay within what the bit error rate allows. (F05)

    The limit is for each lane and minute, by PCIe generation, as DCGM has it (a bit error rate of 1e-12).
    """
    per_lane = baseline.table("counters.pcie_replays_per_lane_per_min")
    for pair in counters.gpus:
        grown = Growth(pair.part, "replays", pair.before.pcie_replays, pair.after.pcie_replays)
        lanes, generation = pair.before.link_width, pair.before.link_gen_max
        if not grown.is_reported:
            verdicts.lacking(part=pair.part, text="does not report PCIe replays")
            continue
        limit = replays_allowed(per_lane, lanes, generation, counters.seconds)
        if isinstance(limit, Unknown):
            verdicts.unknown(part=pair.part, quantity="PCIe generation and lanes", reason=limit)
            continue
        judged(grown, limit, verdicts, what="PCIe replays", remedy=_RESEAT)
    _no_gpu(counters, verdicts)


def test_pcie_errors(counters: Counters, baseline: Baseline, verdicts: Verdicts) -> None:
    """No GPU, NIC, NVSwitch or bridge above them counts PCIe errors under load. (F05)

    A fatal or non-fatal error lost data. A correctable one was repaired by sending again: it warns. Source: kernel,
    sysfs aer_dev_*; OCI alerts at any increase.
    """
    hard = allowed(baseline.number("counters.pcie_aer_uncorrectable_per_h"), counters.seconds)
    soft = allowed(baseline.number("counters.pcie_aer_correctable_per_h"), counters.seconds)
    for pair in counters.pci:
        before, after = pair.before.aer, pair.after.aer
        for what, first, last, limit, verdict in (
            ("fatal PCIe errors", before.fatal, after.fatal, hard, Verdict.FAIL),
            ("non-fatal PCIe errors", before.nonfatal, after.nonfatal, hard, Verdict.FAIL),
            ("correctable PCIe errors", before.correctable, after.correctable, soft, Verdict.WARN),
        ):
            grown = Growth(pair.part, what, first, last)
            judged(grown, limit, verdicts, what=what, remedy=_RESEAT, otherwise=verdict, code=what.split()[0])
    if not verdicts.findings:
        end_without_counters(counters.pci, verdicts)


def test_nic(counters: Counters, baseline: Baseline, verdicts: Verdicts) -> None:
    """The port of each rail counts no more errors under load than its limits allow. (F06, F07)

    Bad cables and ports show here first, while the bandwidth still looks good. Absolute values prove nothing, but a
    counter at its full scale shows no error: that one is not judged. A port that counts no link loss, or on
    InfiniBand no symbol errors, is not known to be good. Source: NVSentinel nic-health-monitor; IBTA (symbol errors).
    """
    rate, layer = baseline.find_number("rdma.rate_gbps"), baseline.find("rdma.link_layer")
    wanted = {port.part for port in rails(counters.before.rdma, rate=rate, layer=layer)}
    pairs = [pair for pair in counters.ports if pair.part in wanted]
    for pair in pairs:
        for counter, key, verdict, remedy in _PORT_COUNTERS:
            per_hour = baseline.find_number(key)
            limit = allowed(per_hour, counters.seconds) if per_hour else None
            grown = port_growth(pair, counter)
            judged(grown, limit, verdicts, what=counter, remedy=remedy, otherwise=verdict, code=counter)
        _carrier(counters, pair, baseline, verdicts)
        for missing in not_counted(counters, pair):
            verdicts.unknown(part=pair.part, quantity=missing, reason="the port does not report it", action=_DRIVER)
    if not pairs:
        end_without_rails(counters.before.pci, baseline, verdicts)


def _carrier(counters: Counters, pair: Pair[RdmaPort], baseline: Baseline, verdicts: Verdicts) -> None:
    """The flaps of the rail's network device: RoCE ports have no link_downed."""
    both = counters.netdev(pair.after.netdev) if pair.after.netdev else None
    per_hour = baseline.find_number("counters.carrier_changes_per_h")
    if both is None or per_hour is None:
        return
    grown = Growth(pair.part, "carrier", both[0].carrier_changes, both[1].carrier_changes)
    judged(grown, allowed(per_hour, counters.seconds), verdicts, what="carrier changes", remedy=_CABLE, code="carrier")


def _no_gpu(counters: Counters, verdicts: Verdicts) -> None:
    if not counters.gpus:
        verdicts.cannot(
            "no GPU responded both before and after the load",
            next_step="see the findings of counters.devices",
            blocked_by="counters.devices",
        )
