"""Evidence that an earlier release kept under another name is read, replaced and deleted like that of today."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.errors import CannotMeasure
from nodegate.node import Connection, Node
from nodegate.records.evidence import Evidence
from nodegate.records.manifest import MANIFEST
from nodegate.records.run_folder import RunFolder
from nodegate.run.node_facts import recorded

if TYPE_CHECKING:
    from pathlib import Path


def burnt(rate: int) -> Evidence:
    return Evidence("gpu01", "burn", 1.0, 2.0, document={"rate": rate})


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run folder with the burn of one node, as a release before 0.2 kept it."""
    run = RunFolder.create(tmp_path / "run", profile="nightly", started_epoch_s=0.0)
    (run.path / "evidence/gpu01").mkdir(exist_ok=True)
    run.write_evidence(burnt(1))
    run.evidence_file("gpu01", "burn").rename(run.evidence_file("gpu01", "gpu_burn"))
    (run.path / MANIFEST).unlink()
    return run


def test_it_is_read(folder: RunFolder) -> None:
    found = folder.read_evidence("gpu01", "burn")
    assert found is not None
    assert (found.measurement, found.document) == ("burn", {"rate": 1})


def test_what_is_measured_now_stands_above_it(folder: RunFolder) -> None:
    folder.write_evidence(burnt(2))
    found = folder.read_evidence("gpu01", "burn")
    assert found is not None
    assert found.document == {"rate": 2}


def test_it_is_deleted_with_what_was_measured_since(folder: RunFolder) -> None:
    folder.write_evidence(burnt(2))
    folder.drop_evidence("gpu01", "burn")
    assert folder.read_evidence("gpu01", "burn") is None
    assert not folder.evidence_file("gpu01", "gpu_burn").exists()


def test_a_run_is_replayed_from_it(folder: RunFolder) -> None:
    connection = Connection(transport="replay", recordings=str(folder.path / "evidence"))
    assert recorded(Node("gpu01", connection), "burn").document == {"rate": 1}
    missing = recorded(Node("gpu02", connection), "burn").error
    assert isinstance(missing, CannotMeasure)
    assert "burn was not recorded" in missing.reason
