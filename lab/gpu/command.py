"""`python -m lab gpu`: nodegate's programs on this machine's own GPUs, as they run on a node.

It needs python3 and NVIDIA's driver: no network, no root, no installation. It starts the probe, the burn with both
kinds of kernels and the copies, looks whether a GPU in use is left alone and whether anything stays behind, and asserts
what has to hold on any board. It changes no clock, power limit, MIG or persistence. Speeds are printed beside what the
baselines expect and judge nothing, but for the impossible.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lab.gpu import machine, numbers, ours, pynvml_here, recording
from lab.gpu.bench import FULL, SHORT, Bench, local_session
from lab.gpu.step import BROKEN, Step
from lab.gpu.steps import STEPS
from nodegate.errors import CannotMeasure
from nodegate.release import suite_version

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]
NO_GPU = "no NVIDIA GPU on this machine: nothing was run"
HELD, NOT_HELD, CANNOT = 0, 1, 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps; 0: all held, or no GPU; 1: something did not hold; 4: it cannot be run here."""
    asked = _parser().parse_args(arguments)
    lengths = FULL if asked.full else SHORT
    if asked.seconds:
        seconds = asked.seconds
        into_s = min(seconds, lengths.into_s)
        lengths = lengths._replace(own_s=seconds, cublas_s=seconds, copies_s=seconds, into_s=into_s, patterns_s=seconds)
    session = local_session()
    try:
        seen = machine.look(session)
        if seen.none:
            print(f"gpu: {NO_GPU}" + (f" ({seen.trouble})" if seen.trouble else ""))
            return HELD
        reason = f"the GPUs cannot be asked: {seen.trouble}" if seen.trouble else pynvml_here.find()
        if reason:
            print(f"gpu: {reason}", file=sys.stderr)
            return CANNOT
        bench = Bench(session, ours.mark(), lengths._replace(matrix=asked.matrix, copied=asked.bytes), asked.library)
        return _run(bench, asked)
    finally:
        session.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="about 15 minutes instead of 3")
    parser.add_argument("--keep", action="store_true", help="keep what was printed, for the tests of the parsers")
    parser.add_argument(
        "--only", action="append", choices=STEPS, metavar="STEP", help=f"{', '.join(STEPS)}; repeatable"
    )
    parser.add_argument("--seconds", type=float, default=0.0, help="of load in each step, instead of the usual")
    parser.add_argument("--matrix", type=int, default=SHORT.matrix, help="rows of the burn's matrices")
    parser.add_argument("--bytes", type=int, default=SHORT.copied, help="of each copy")
    parser.add_argument("--library", default="", metavar="FILE", help="this libcublas, instead of searching for one")
    parser.add_argument("--reports", type=Path, default=ROOT / "reports", metavar="FOLDER")
    parser.add_argument("--recordings", type=Path, default=ROOT / "lab" / "recordings", metavar="FOLDER")
    return parser


def _run(bench: Bench, asked: argparse.Namespace) -> int:
    began = time.time()
    steps = [_do(bench, name) for name in STEPS if name == "probe" or not asked.only or name in asked.only]
    if bench.facts is None:
        return NOT_HELD
    found = numbers.beside(numbers.metrics(bench.programs), numbers.baseline_of(bench.facts))
    physics = Step("physics")
    for each in found:
        physics.claim(f"{each.metric.device} {each.metric.name}: a value that hardware can have", each.believed)
    if not found:
        physics.missing = "no number was measured"
    _print(physics)
    print("\n".join(["", *numbers.rows(found), ""]))
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(began))
    board = numbers.board(bench.facts)
    name = f"{re.sub(r'[^a-z0-9]+', '-', board.lower()).strip('-') or 'unknown'}-{stamp}"
    report = {
        "schema": "nodegate.lab-gpu/1",
        "release": suite_version(),
        "board": board,
        "began": stamp,
        "took_s": round(time.time() - began, 1),
        "machine": {**machine.words(), "driver": str(bench.facts.gpus.driver_version)},
        "lengths": bench.lengths._asdict(),
        "steps": [each.to_json() for each in [*steps, physics]],
        "numbers": [each.to_json() for each in found],
    }
    asked.reports.mkdir(parents=True, exist_ok=True)
    file = asked.reports / f"gpu-{name}.json"
    file.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"report: {file}")
    if asked.keep:
        recording.write(asked.recordings / name, bench.documents)
        print(f"recording: {asked.recordings / name} (read it before you publish it)")
    broken = [each for each in [*steps, physics] if each.verdict == BROKEN]
    missing = [each.name for each in [*steps, physics] if each.missing]
    said = f"{len(broken)} of {len(steps) + 1} steps did not hold" if broken else "all that was run held"
    print(f"gpu: {board}: {said}" + (f"; not done: {', '.join(missing)}" if missing else ""))
    return NOT_HELD if broken else HELD


def _do(bench: Bench, name: str) -> Step:
    step, began = Step(name), time.monotonic()
    try:
        STEPS[name](bench, step)
    except CannotMeasure as why:
        step.claim(f"{why.reason}", held=False)
    step.took_s = time.monotonic() - began
    _print(step)
    return step


def _print(step: Step) -> None:
    print(f"{step.name:12} {step.verdict:9} {step.took_s:6.1f} s  {len(step.claims)} assertions", flush=True)
    for line in [step.missing] if step.missing else [*(f"NOT: {each}" for each in step.broken), *step.notes]:
        print(f"    {line}")
