"""What a node sent is parsed once, however many nodes there are, and what is kept of it judges alike."""

from collections.abc import Mapping

import pytest
from fleet.load.recordings import recordings
from fleet.machine import Machine

from nodegate import suite
from nodegate.baseline.baseline import Baselines
from nodegate.judge.waivers import Waivers
from nodegate.node import Node
from nodegate.probe import nvml
from nodegate.probe.gpu import Gpus
from nodegate.profile import Profile
from nodegate.records.evidence import FACTS, Evidence
from nodegate.records.finding import Record
from nodegate.run import contexts as contexts_module
from nodegate.run.judging import Judging

NODES = 5
CHECKS = ("gpu.count", "pcie.link_width", "drift.same_as_fleet", "fabric.one_domain", "copies.link", "counters.ecc")


class _Folder:
    def __init__(self, documents: Mapping[tuple[str, str], object]) -> None:
        self._documents, self.read = documents, []  # type: ignore[var-annotated]

    def read_evidence(self, node: str, measurement: str = FACTS) -> Evidence | None:
        self.read.append((node, measurement))
        document = self._documents.get((node, measurement))
        return Evidence(node, measurement, 0.0, 0.0, document=document) if document else None  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def documents() -> Mapping[tuple[str, str], object]:
    machines = [Machine.hgx_h100(f"gpu{number:03}", number) for number in range(1, NODES + 1)]
    machines[2].set_link(machines[2].gpu_address(5), width=2)
    return {(node, name): each for node, found in recordings(machines).items() for name, each in found.items()}


def judged(documents: Mapping[tuple[str, str], object]) -> tuple[_Folder, list[Record]]:
    nodes = {node: Node(node) for node, name in documents if name == FACTS}
    run = Judging(nodes, Profile.DELIVERY, Baselines.read(), Waivers())
    folder = _Folder(documents)
    run.evidence.folder = folder  # type: ignore[assignment]
    checks = [suite.check(name) for name in CHECKS]
    for check in checks:
        for node in nodes:
            run.register.ask(check, node)
    for node in nodes:
        run.judge_node(node)
    return folder, [run.record(check, node) for check in checks for node in nodes]


def test_what_is_kept_judges_as_what_was_read(
    documents: Mapping[tuple[str, str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole = judged(documents)
    monkeypatch.setattr(contexts_module, "MOST_AT_HAND", 1)
    _, packed = judged(documents)
    assert packed == whole
    assert {record.verdict.value for record in whole} >= {"pass", "fail"}


def test_each_node_is_parsed_once(documents: Mapping[tuple[str, str], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts_module, "MOST_AT_HAND", 1)
    parsed: list[object] = []
    parse = nvml.parse

    def counted(data: object) -> Gpus:
        parsed.append(data)
        return parse(data)

    monkeypatch.setattr(nvml, "parse", counted)
    folder, _ = judged(documents)
    assert len(parsed) == 2 * NODES  # before the load and after it
    assert sorted(folder.read) == sorted({*folder.read})
