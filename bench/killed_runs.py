"""Runs over four lab nodes that Slurm holds for them, each killed (SIGKILL) at another moment: what is left.

    python -m bench.killed_runs [COUNT] [SEED]      as root; 50 moments take half an hour

After each kill the record and the nodes are looked at, then the next start goes on with the run (`--resume`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.slurm.cluster import cluster
from lab.slurm.killed import Site, spread


def main(count: int, seed: int) -> int:
    """The table, and 1 if anything was wrong."""
    with TemporaryDirectory(prefix="nodegate-killed-") as folder, cluster(4, Path(folder)) as slurm:
        os.environ["PATH"] = f"{slurm.programs(Path(folder))}:{os.environ['PATH']}"
        site = Site(slurm, Path(folder))
        print(f"a hold of 60 s whose holder was killed ended after {site.held_to_its_end(60.0):.0f} s")
        print(f"a whole run takes {site.whole_s:.1f} s; seed {seed}")
        columns = ["killed after", "nodes clean after", "held", "for at most", "evidence kept", "given back after"]
        print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)
        bad = 0
        for share in spread(count, seed):
            each = site.kill(share)
            row = f"{each.at_s:.1f} s | {each.clean_s:.1f} s | {each.held} | {each.held_s:.0f} s | {each.evidence}"
            back = f"{each.given_back_s:.1f} s" if each.held else ""
            print(f"| {row} | {back} | {'; '.join(each.wrong)}", flush=True)
            bad += bool(each.wrong)
        print(f"{count} moments, {bad} with something wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(int((sys.argv[1:] or ["50"])[0]), int((sys.argv[2:] or ["7"])[0])))
