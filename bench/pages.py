"""What the pages of a run cost: CPU of a fresh Python and bytes, of this checkout and of an earlier one by turns.

    python bench/pages.py --before ../earlier/checkout 16 1250

Each checkout judges the demo: 16 recorded nodes under load, few of them good. Of more nodes the good ones are repeated
under other names, with their numbers a little apart. Timed is what a run does after judging: the fleet's
statistics, report.html and, where there is one, the certificate in both languages. The least of three turns counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INVENTORY = ROOT / "inventory" / "demo.yaml"
TURNS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="*", default=[16, 1250])
    parser.add_argument("--before", type=Path, help="an earlier checkout of nodegate")
    parser.add_argument("--of", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.of:
        print(json.dumps(_made(asked.of, asked.nodes[0])))
        return
    checkouts = {**({"before": asked.before.resolve()} if asked.before else {}), "now": ROOT}
    print("| nodes | checkout | report.html: CPU s | MB | certificates: CPU s | MB |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for name, checkout in checkouts.items():
            given = [
                "--inventory",
                str(INVENTORY),
                "--run-dir",
                f"{scratch}/{name}",
                "--record",
                f"{scratch}/{name}.sqlite",
            ]
            _python(checkout, scratch, "-m", "pytest", "-q", *given, ended=(0, 1))
        for count in asked.nodes:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
            for _, (name, checkout) in ((turn, each) for turn in range(TURNS) for each in checkouts.items()):
                said = _python(checkout, scratch, __file__, "--of", f"{scratch}/{name}", str(count))
                found[name].append(json.loads(said.splitlines()[-1]))
            for name, turns in found.items():
                best = {key: min(each[key] for each in turns) for key in turns[0]}
                row = (f"{count:,}", name, *(f"{value:.2f}" for value in best.values()))
                print(f"| {' | '.join(row)} |", flush=True)


def _python(checkout: Path, folder: str, *arguments: str, ended: Sequence[int] = (0,)) -> str:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else every turn compiles each module
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in ended:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout


def _made(run: Path, count: int) -> dict[str, float]:
    from nodegate.report import html
    from nodegate.report.stats import measurements

    try:
        from nodegate.report.json_file import load
    except ImportError:  # until 0.4
        from nodegate.report.reader import load
    try:
        from nodegate.certificate.page import page as certificate
        from nodegate.certificate.rounds import Rounds
    except ImportError:
        certificate = None
    report = load(run)
    draw = random.Random(7)
    good = [node for node in report.nodes if node.verdict.value == "accepted"]
    more = [_other(good[at % len(good)], at, draw) for at in range(count - len(report.nodes))]
    report = replace(report, nodes=(*report.nodes, *more))
    assert report.causes or not report.nodes  # a run has them by then
    begun = time.process_time()
    fleet = measurements(report.nodes)
    page = len(html.page(report, {}, fleet).encode())
    after = time.process_time()
    papers = sum(len(certificate(report, fleet, Rounds(), lang).encode()) for lang in ("en", "zh") if certificate)
    return {"cpu": after - begun, "mb": page / 1e6, "papers": time.process_time() - after, "papers_mb": papers / 1e6}


def _other(node, at: int, draw: random.Random):
    """The node under another name, each of its numbers a little apart."""
    name = f"{node.node}-{at}"
    share = 1 + draw.uniform(-0.002, 0.002)
    records = tuple(
        replace(
            record,
            node=name,
            findings=tuple(
                replace(each, observed=each.observed * share) if isinstance(each.observed, float) else each
                for each in record.findings
            ),
        )
        for record in node.records
    )
    return replace(node, node=name, rack=f"{node.rack}-{at}" if node.rack else "", records=records)


if __name__ == "__main__":
    main()
