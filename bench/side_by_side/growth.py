"""What a run costs by the number of its nodes, from recorded nodes (bench/scale.py)."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from bench import scale
from bench.side_by_side.measured import NotMeasured

if TYPE_CHECKING:
    from pathlib import Path


def cost(folder: Path, count: int, *, under_load: bool) -> dict[str, float]:
    """One run over so many recorded nodes; the recordings stay in the folder for the next."""
    scale.record(folder, count, under_load=under_load)
    done = scale.run(folder, scale.ROOT, ["--inventory", "hosts.yaml", *([] if under_load else ["--passive"])])
    if f"of {count} nodes" not in done.said.replace(",", ""):
        raise NotMeasured(f"it said: {done.said[-300:]}")
    files = {f"{file.name} MB": done.megabytes(file.name) for file in done.run.iterdir() if file.is_file()}
    found = {"cpu_s": done.cpu_s, "wall_s": done.wall_s, "memory_mib": done.memory_mib}
    found |= {"folder_mb": done.megabytes("."), "evidence_mb": done.megabytes("evidence")}
    shutil.rmtree(done.run)
    return {name: round(value, 3) for name, value in {**found, **files}.items()}
