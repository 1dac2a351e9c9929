"""What Slurm's own database says of its nodes reaches the record."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from lab import needs
from lab.nodes.nodes import why_not
from lab.slurm import database
from lab.slurm.cluster import cluster
from lab.slurm.config import RELEASES
from nodegate.node import Node
from nodegate.run import slurm_events

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DRAINS = ("power cable|PSU 2", "nodegate: GPU 3: lost (Xid 79) - RMA")


def test_of_slurmdbd_and_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.require(why_not())
    asked = {"gpu-2.site": Node("gpu-2.site", expected={"hold": "slurm"}), "gpu-3": Node("gpu-3")}
    with cluster(2, tmp_path, database.PACKAGES, database.prepare, suite=RELEASES["22.05"]) as slurm:
        monkeypatch.setenv("PATH", f"{slurm.programs(tmp_path)}:{os.environ['PATH']}")
        worker = slurm.workers[0]
        slurm.drain(worker, "before the database")
        found, why = slurm_events.events(asked, {})
        assert ([(each.kind, each.text) for each in found["gpu-2.site"]], why) == (
            [("drain", "before the database")],
            "",
        )
        assert abs(found["gpu-2.site"][0].epoch_s - time.time()) < 60
        slurm.resume(worker)
        database.start(slurm)
        for reason in DRAINS:
            slurm.drain(worker, reason)
            time.sleep(1.1)  # one second is the least that Slurm tells apart
            slurm.resume(worker)
        slurm.scontrol("update", f"nodename={worker.name}", "state=down", "reason=new board")

        def told() -> str:
            listed, _ = slurm_events.events(asked, {})
            return str([(each.kind, each.text) for each in listed.get("gpu-2.site", ())])

        want = [(kind, reason) for reason in DRAINS for kind in ("drain", "in_service")]
        slurm.wait_for(told, str([*want, ("down", "new board")]))
