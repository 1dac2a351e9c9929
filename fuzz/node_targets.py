"""Readers of the documents that our own programs bring from a node, and of the evidence that is made of them."""

from __future__ import annotations

import json
from dataclasses import replace

from fuzz import seeds
from fuzz.target import Target, refusals_allowed, text_of
from nodegate.facts import FACTS, read
from nodegate.knowledge import kernel_signatures, nvlink5, xid_lines
from nodegate.knowledge.signatures import find
from nodegate.knowledge.words import Side
from nodegate.measure.burn import document as burn_document
from nodegate.measure.burn import run
from nodegate.measure.copies import document as copies_document
from nodegate.measure.copies import result as copies_result
from nodegate.measure.groups import result as group_result
from nodegate.measure.measurement import Measurement, attempts_of, document
from nodegate.measure.rdma import result as rdma_result
from nodegate.measure.registry import measurement
from nodegate.probe.collect import decode
from nodegate.probe.document import ProbeDocument, document_of
from nodegate.probe.kernel_log import parse_line
from nodegate.records.evidence import parse_evidence
from nodegate.records.program_run import Attempt, LaunchPlan, LinkNotes, LinkPlan, Plan, ProgramRun, Role
from nodegate.toolbox import found
from nodegate.unknown import Unknown, Why

NOW_S = 1_800_000_000.0
_NO_BOOT = Unknown(Why.MISSING, "")
# Loaded here and not at their first use: atheris counts what is loaded while it looks on.
_MEASURED = tuple(measurement(name) for name in ("burn", "nccl", "rdma_bandwidth"))
_BURN, _NCCL, _RDMA = _MEASURED


def _facts(document: ProbeDocument) -> None:
    for name in FACTS:
        with refusals_allowed():
            read(name, document)


def _wire(data: bytes) -> None:
    """What the probe sent, compressed or plain, and every fact in it."""
    _facts(decode(data, received_epoch_s=NOW_S, round_trip_s=0.2))


def _sections(data: bytes) -> None:
    """The data of one section or of several, as evidence holds them: there nothing was checked on the wire."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    whole = {"schema": "nodegate.probe/1", "uid": 0, "epoch_s": NOW_S, "duration_s": 1.0, "sections": value}
    _facts(document_of(whole, received_epoch_s=NOW_S, round_trip_s=0.2))


def _evidence(data: bytes) -> None:
    """An evidence file of a run folder, whatever it holds."""
    evidence = parse_evidence(data, node="gpu01", measurement="facts", file="facts.json")
    if evidence.document is not None:
        with refusals_allowed():
            _facts(document_of(evidence.document))
        _measured(evidence.document)


def _measured(value: object) -> None:
    if isinstance(value, dict):
        for each in _MEASURED:
            _of_document(each, value)
        with refusals_allowed():
            attempts = attempts_of(value)
            json.dumps(document("nccl", attempts))
            print_metrics(copies_result.parse(attempts).metrics)
            print_metrics(group_result.parse(attempts).metrics)


def _of_document(one: Measurement, value: dict[str, object]) -> None:
    with refusals_allowed():
        print_metrics(one.of_document(value).metrics)
    if one.doubtful:
        with refusals_allowed():
            one.doubtful(attempts_of(value))


def print_metrics(metrics: object) -> None:
    """Metrics as the report and the evidence print them."""
    for metric in metrics:  # type: ignore[attr-defined]
        json.dumps(metric.to_json())


def _rans(data: bytes) -> None:
    """What programs under load left, as evidence holds it: JSON of one attempt, or of several."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    _measured(value)


def _printed(what: str, plan: Plan, data: bytes) -> ProgramRun:
    """A program that printed this."""
    stdout, _, stderr = text_of(data).partition("\n=stderr=\n")
    return ProgramRun(what, ("x",), stdout, stderr, 0, plan=plan)


def _nccl_output(data: bytes) -> None:
    plan = Plan(gpus=8, size_bytes=1 << 30, limit_s=60.0)
    for what in ("all_reduce", "alltoall"):
        with refusals_allowed():
            print_metrics(_NCCL.parse([Attempt((_printed(what, plan, data),))]).metrics)
    nodes, good = ("gpu1", "gpu2"), ("gpu2",)
    launch = LaunchPlan("pair 1", "pair", "gpu1", nodes, 2, good, gpus_of_node=4, turns=4, builds=1)
    with refusals_allowed():
        ran = _printed("all_reduce", replace(plan, launch=launch), data)
        print_metrics(group_result.parse([Attempt((ran,), node="gpu1")]).metrics)


def _rdma_output(data: bytes) -> None:
    plan = Plan(version="6.24", link=LinkPlan("gpu02", "mlx5_0", device="mlx5_0", round="1"))
    for what in ("ib_write_bw", "ib_read_bw", "ib_write_lat"):
        ran = replace(_printed(what, plan, data), link=LinkNotes(peer_best=390.0))
        server = replace(ran, link=LinkNotes(program=Role.SERVER))
        attempts = [Attempt((ran, server), rails=("mlx5_0",), partners=1)]
        with refusals_allowed():
            print_metrics(_RDMA.parse(attempts).metrics)
        rdma_result.doubtful(attempts)


def _burn_output(data: bytes) -> None:
    with refusals_allowed():
        burn_document.decode(text_of(data))
    for what in (run.OWN, run.OTHER):
        with refusals_allowed():
            print_metrics(_BURN.parse([Attempt((_printed(what, Plan(mode="fp32"), data),))]).metrics)


def _copies_output(data: bytes) -> None:
    with refusals_allowed():
        copies_document.decode(text_of(data))
    for what in (copies_result.OWN, copies_result.OTHER):
        with refusals_allowed():
            print_metrics(copies_result.parse([Attempt((_printed(what, Plan(), data),))]).metrics)


def _tools_found(data: bytes) -> None:
    found.parse_found(data, node="gpu01")


def _kernel_lines(data: bytes) -> None:
    """Everything that is looked for in a line of a kernel log."""
    texts = text_of(data).split("\n")
    lines = []
    for names_host in (False, True):
        for boot in (_NO_BOOT, NOW_S - 1e6):
            lines += [parse_line(text, now_epoch_s=NOW_S, boot_epoch_s=boot, names_host=names_host) for text in texts]
    list(xid_lines.gpu_events(lines))
    list(xid_lines.switch_events(lines))
    xid_lines.serials(lines)
    for text in texts:
        for side in Side:
            find(text, side)
        kernel_signatures.find_code(text)
        if event := nvlink5.parse(text):
            for code in range(144, 151):
                nvlink5.decode(code, event)


TARGETS = {
    "probe.wire": Target(_wire, seeds.wire, "text"),
    "probe.sections": Target(_sections, seeds.sections, "json"),
    "probe.evidence": Target(_evidence, seeds.evidence, "json"),
    "knowledge.lines": Target(_kernel_lines, seeds.kernel_lines),
    "measure.rans": Target(_rans, seeds.rans, "json"),
    "measure.nccl_output": Target(_nccl_output, lambda: seeds.recordings("nccl_tests")),
    "measure.rdma_output": Target(_rdma_output, lambda: seeds.recordings("perftest")),
    "measure.burn_document": Target(_burn_output, seeds.burn_documents, "json"),
    "measure.copies_document": Target(_copies_output, seeds.copies_documents, "json"),
    "measure.found": Target(_tools_found, seeds.tools_found, "json"),
}
