"""What a run costs the controller by SSH and through Slurm: lab nodes with a slurmd each, facts and verdicts alone.

    python -m bench.engines 16 64

Processors are shared with the nodes, so read the ratio of two rows and not their wall time. CPU and memory are those of
the run and of all that it starts, srun among it; slurmctld is the site's and not in them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.side_by_side.measured import Cost, measure
from lab.run import ROOT
from lab.slurm.cluster import Cluster, cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

WAYS = {"SSH": (), "Slurm": ("--inventory", "slurm:[gpu]")}
ASKED = ("-p", "lab.slow_probe", "--passive", "--tb=no", "-q")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="*", default=[16, 64])
    print("| nodes | way | wall s | controller CPU s | ms a node | memory MiB |\n|---|---|---|---|---|---|", flush=True)
    for count in parser.parse_args().nodes:
        with tempfile.TemporaryDirectory() as name, cluster(count, Path(name), suite="bookworm") as slurm:
            found = {way: _cost(slurm, Path(name, way), more) for way, more in WAYS.items()}
        for way, cost in found.items():
            cells = (count, way, f"{cost.wall_s:.0f}", f"{cost.cpu_s:.1f}", f"{1000 * cost.cpu_s / count:.0f}")
            print(f"| {' | '.join(map(str, cells))} | {cost.memory_mib:.0f} |")
        ssh, by_slurm = found.values()
        ratios = (getattr(by_slurm, each) / getattr(ssh, each) for each in ("wall_s", "cpu_s", "memory_mib"))
        print("  Slurm to SSH: wall {:.2f}, CPU {:.2f}, memory {:.2f}".format(*ratios), flush=True)


def _cost(slurm: Cluster, folder: Path, more: Sequence[str]) -> Cost:
    """Of one run, which must have reached every node."""
    folder.mkdir()
    names = [node.name for node in slurm.workers]
    (folder / "hosts.yaml").write_text(slurm.lab.inventory(names, {}))
    path = f"{slurm.programs(folder)}:{os.environ['PATH']}"
    command = [*slurm.lab.space.in_network(), sys.executable, "-m", "pytest", "--inventory", "hosts.yaml"]
    run = measure([*command, *more, *ASKED], folder, PATH=path, PYTHONPATH=str(ROOT), PY_COLORS="0")
    facts = [json.loads(file.read_text()) for file in folder.glob("reports/latest/evidence/*/facts.json")]
    if [each.get("error") for each in facts] != [None] * len(names):
        raise SystemExit(f"not every node was reached: {run.said[-2000:]}")
    return run.cost


if __name__ == "__main__":
    main()
