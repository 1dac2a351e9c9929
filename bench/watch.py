"""How fast `nodegate watch --once` reads a log: python bench/watch.py [MB]. Other lines between the iterations."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OTHER = (
    "[rank{rank}]: NCCL INFO Channel 0{rank}/0 : 3[3] -> 4[4] via P2P/CUMEM/read\n"
    "time (ms) | forward-compute: 143.95 | backward-compute: 396.23 | optimizer: 9.17 |\n"
    "gpu0{rank}: [2026-03-02 08:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0\n"
)


def write(path: Path, size: int) -> int:
    """A Megatron-LM log of about `size` bytes; returns how many iterations it has."""
    rng, step = random.Random(1), 0  # noqa: S311
    with path.open("w") as file:
        while file.tell() < size:
            step += 1
            ms = 3000 * rng.lognormvariate(0, 0.02)
            file.write(
                f" iteration {step:8d}/ 9000000 | consumed samples: {step * 1024:12d} |"
                f" elapsed time per iteration (ms): {ms:.1f} | learning rate: 1.0E-04 | global batch size:  1024 |"
                " lm loss: 2.1E+00 | loss scale: 1.0 | grad norm: 1.2 | number of skipped iterations:   0 |\n"
            )
            file.write(OTHER.format(rank=step % 8, step=step))
    return step


def main() -> None:
    size = int(sys.argv[1] if len(sys.argv) > 1 else "100") * 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "train.log"
        iterations = write(log, size)
        started = time.monotonic()
        command = [sys.executable, "-m", "nodegate.cli", "watch", str(log), "--once"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wall_s = time.monotonic() - started
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = usage.ru_utime + usage.ru_stime
    print(done.stdout.splitlines()[-1])
    print(f"{size / 1e6:.0f} MB, {iterations} iterations: {wall_s:.1f} s wall, {cpu_s:.1f} s CPU, ", end="")
    print(f"{size / 1e6 / cpu_s:.1f} MB/s of CPU, {usage.ru_maxrss / 1024:.0f} MiB, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
