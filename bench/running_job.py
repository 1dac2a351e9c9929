"""What `nodegate job` costs for a job of 1,250 nodes, beside reading every sample: python -m bench.running_job [NODES].

A real Prometheus (Debian's package) on this machine holds an hour of eight metrics of each GPU, one sample every 30 s,
in blocks that promtool wrote. One GPU is throttled: the answer has to name it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from job.server import prometheus
from job.stories import DCGM

from nodegate.job.queries import Job, queries

GPUS, EVERY_S, HOUR_S = 8, 30, 3600
END = 1_790_006_400
LEVELS = {"util": (99, 1), "engine": (0.97, 0.006), "tensor": (0.45, 0.01), "dram": (0.4, 0.01), "power": (560, 14),
          "clock": (1755, 15), "memory": (61_000, 0), "free": (20_000, 0)}  # fmt: skip
THROTTLED = {"clock": 990.0, "power": 330.0}


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1250
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with ProcessPoolExecutor(os.cpu_count() or 2) as pool:
            list(pool.map(_blocks, LEVELS, repeat(nodes), repeat(folder)))
        with prometheus(folder) as url:
            _command(url, nodes, folder / "answers")
            _naive(url)


def _blocks(quantity: str, nodes: int, folder: Path) -> None:
    """One metric of all GPUs; each quantity draws its own numbers."""
    rng = np.random.default_rng(list(LEVELS).index(quantity))
    stamps = [f"{at}" for at in range(END - HOUR_S, END + 1, EVERY_S)]
    level, spread = LEVELS[quantity]
    victim = (nodes // 2) * GPUS + 3
    text = folder / f"{quantity}.om"
    with text.open("w") as out:
        out.write(f"# TYPE {DCGM[quantity]} unknown\n")
        for row in range(nodes * GPUS):
            node, gpu = f"n{row // GPUS + 1:04d}", row % GPUS
            head = f'{DCGM[quantity]}{{gpu="{gpu}",UUID="GPU-{row:08x}",device="nvidia{gpu}",'
            head += f'modelName="NVIDIA H100 80GB HBM3",Hostname="{node}",instance="{node}:9400",job="dcgm"}}'
            mean = THROTTLED.get(quantity, level) if row == victim else level
            values = np.char.mod("%.4g", rng.normal(mean, spread, len(stamps)))
            out.writelines(f"{head} {value} {at}\n" for value, at in zip(values.tolist(), stamps, strict=True))
        out.write("# EOF\n")
    tool = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(folder / "data")]
    subprocess.run(tool, check=True, capture_output=True)
    text.unlink()


def _command(url: str, nodes: int, kept: Path) -> None:
    begun = time.perf_counter()
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(END))
    command = [sys.executable, "-m", "nodegate.cli", "job", "--prometheus", url, "--nodes", f"n[0001-{nodes:04d}]",
               "--at", at, "--since", "1h", "--json", "--run-dir", str(kept)]  # fmt: skip
    with (kept.parent / "answer").open("wb+") as said:
        own = subprocess.Popen(command, stdout=said)
        _, _, used = os.wait4(own.pid, 0)
        said.seek(0)
        answer = json.load(said)
    wall_s = time.perf_counter() - begun
    files = list(kept.glob("*.json"))
    size = sum(file.stat().st_size for file in files)
    print(f"{nodes} nodes x {GPUS} GPUs: {answer['class']} {answer['where']}")
    cpu_s = used.ru_utime + used.ru_stime
    print(f"nodegate job: {len(files)} queries, {wall_s:.1f} s wall, own CPU {cpu_s:.2f} s,", end=" ")
    print(f"{used.ru_maxrss / 1024:.0f} MiB; {size / 1e6:.1f} MB answered, {_samples(url, nodes):,.0f} samples read")


def _naive(url: str) -> None:
    """Every sample of each metric, as a script would read them."""
    samples, begun, cpu, size = 0, time.perf_counter(), time.process_time(), 0
    for quantity in LEVELS:
        asked = {"query": DCGM[quantity], "start": END - HOUR_S, "end": END, "step": EVERY_S, "stats": "all"}
        raw = _get(f"{url}/api/v1/query_range", asked)
        size += len(raw)
        samples += json.loads(raw)["data"]["stats"]["samples"]["totalQueryableSamples"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"every sample: {len(LEVELS)} queries, {time.perf_counter() - begun:.1f} s wall,", end=" ")
    print(f"own CPU {time.process_time() - cpu:.1f} s, {peak:.0f} MiB; {size / 1e6:.0f} MB answered,", end=" ")
    print(f"{samples:,} samples read")


def _samples(url: str, nodes: int) -> int:
    """How many samples the server reads for the requests of the command: it says so where it is asked for that."""
    names = tuple(f"n{each:04d}" for each in range(1, nodes + 1))
    found = 0
    for query in queries(Job(END, HOUR_S, names)):
        answer = json.loads(_get(url + query.path, {"query": query.expression, **query.at, "stats": "all"}))
        found += answer["data"]["stats"]["samples"]["totalQueryableSamples"]
    return found


def _get(address: str, form: dict[str, object] | None = None) -> bytes:
    body = urllib.parse.urlencode(form).encode() if form else None
    with urllib.request.urlopen(address, body, timeout=300) as answer:  # noqa: S310 - loopback
        return bytes(answer.read())


if __name__ == "__main__":
    main()
