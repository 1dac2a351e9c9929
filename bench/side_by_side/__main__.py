"""nodegate and its peers on one machine, in one run: what they cost, and what each of them does not do.

    python -m bench.side_by_side                    all of it, an hour on two cores; writes docs/evidence/scale.md
    python -m bench.side_by_side --nhc ../nhc       with LBNL NHC from its source (github.com/mej/nhc)
    python -m bench.side_by_side --only fleet --nodes 4 --runs 1 --figures /tmp/f.json --page /tmp/p.md     to try it
    python -m bench.side_by_side --only page        the page again, from the figures that there are

What was measured is kept in bench/figures/side_by_side.json after each step: a run that was ended goes on where it
was. A figure belongs to a version of nodegate: after a change of its code all are measured again. Best as root, which
the peers' Debian packages need; nothing is installed into the project's own environment.
"""

from __future__ import annotations

import argparse
import datetime as dt
import functools
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))  # the made-up nodes are the tests'
from bench.side_by_side import growth, one_node, page, peers, tools
from bench.side_by_side.figures import Figures, commit, machine
from bench.side_by_side.logs import Logs
from bench.side_by_side.measured import as_dict
from bench.side_by_side.nodes import Nodes
from bench.side_by_side.reports import Reports
from lab.cache import FOLDER
from lab.nvml import nvidia_smi
from nodegate import suite
from nodegate.measure.registry import is_active

if TYPE_CHECKING:
    from bench.side_by_side.peers import Peers

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ("fleet", "one_node", "reports", "logs", "growth")
ONE_NODE_RUNS = 7  # they take a second each


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the nodes end, too
    asked = _asked()
    figures = Figures(asked.figures, ROOT, as_they_are=asked.only == ["page"])
    if asked.only != ["page"]:
        asked.work.mkdir(parents=True, exist_ok=True)
        installed = peers.install(asked.peers)
        now = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        figures.about(machine=machine(), versions=installed.versions(), commit=commit(ROOT), ended=now)
        parts = {"fleet": _fleet, "one_node": _one_node, "reports": _reports, "logs": _logs, "growth": _growth}
        for section in asked.only or SECTIONS:
            parts[section](asked, figures, installed)
        shutil.rmtree(asked.work, ignore_errors=True)
        now = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        figures.about(ended=now, load_after=round(os.getloadavg()[1], 1))
    asked.page.write_text(page.text(figures))
    print(asked.page)


def _fleet(asked: argparse.Namespace, figures: Figures, installed: Peers) -> None:
    """Every tool over the same nodes, by turns."""
    if not _has_nodes(figures, "fleet"):
        return
    for count in asked.nodes:
        keys = {tool.name: f"fleet/{tool.name}/{count}" for tool in tools.TOOLS}
        if not any(figures.wants(key, asked.runs) for key in keys.values()):
            continue
        with tempfile.TemporaryDirectory(dir=asked.work) as name, Nodes(Path(name), count) as nodes:
            figures.about(checks=sum(not is_active(check.asks_for) for check in suite.checks()))
            for _ in range(asked.runs):
                for tool in tools.TOOLS:
                    if figures.wants(keys[tool.name], asked.runs):
                        figures.measure(
                            keys[tool.name], lambda tool=tool: _one_tool(Path(name), tool, nodes, installed)
                        )


def _has_nodes(figures: Figures, section: str) -> bool:
    """Whether NVIDIA's nvidia-smi, which the made nodes show, is here."""
    try:
        nvidia_smi.binary(550)
    except nvidia_smi.NotToBeHad as why:
        figures.refuse(section, f"the nodes need NVIDIA's nvidia-smi: {why}")
        return False
    return True


def _one_tool(folder: Path, tool: tools.Tool, nodes: Nodes, installed: Peers) -> dict[str, float]:
    before = nodes.cpu_s()
    with tempfile.TemporaryDirectory(dir=folder) as name:
        done = tool.run(tools.Asked(Path(name), nodes, installed))
    return as_dict(done.cost) | {"nodes_cpu_s": round(nodes.cpu_s() - before, 2)}


def _one_node(asked: argparse.Namespace, figures: Figures, installed: Peers) -> None:
    if not _has_nodes(figures, "one_node"):
        return
    if not any(figures.wants(f"one_node/{name}", ONE_NODE_RUNS) for name in one_node.ABOUT):
        return
    with tempfile.TemporaryDirectory(dir=asked.work) as name:
        nodes = Nodes(Path(name), 3)  # not started: only what a login sees is used
        commands = one_node.commands(Path(name), nodes.variables(nodes.nodes[0].name), installed, asked.nhc)
        for _ in range(ONE_NODE_RUNS):
            for what, run in commands.items():
                if figures.wants(f"one_node/{what}", ONE_NODE_RUNS):
                    figures.measure(f"one_node/{what}", lambda run=run: as_dict(run().cost))
        shutil.rmtree(one_node.kept_folder(Path(name)), ignore_errors=True)


def _reports(asked: argparse.Namespace, figures: Figures, installed: Peers) -> None:
    for count in asked.reports:
        ways = ("nodegate", "plain", "pytest_html")
        if any(figures.wants(f"reports/{way}/{count}", asked.runs) for way in ways):
            with tempfile.TemporaryDirectory(dir=asked.work) as name:
                reports = Reports(Path(name), count, installed)
                figures.about(**{f"results of {count} nodes": reports.results})
                for _ in range(asked.runs):
                    for way in ways:
                        if figures.wants(f"reports/{way}/{count}", asked.runs):
                            figures.measure(f"reports/{way}/{count}", getattr(reports, way))


def _logs(asked: argparse.Namespace, figures: Figures, installed: Peers) -> None:
    with tempfile.TemporaryDirectory(dir=asked.work) as name:
        logs = Logs(Path(name), asked.logs, installed)
        figures.about(logs_mb=round(logs.megabytes))
        for _ in range(asked.runs):
            for way in logs.ways():
                if figures.wants(f"logs/{way}", asked.runs):
                    figures.measure(f"logs/{way}", lambda way=way: logs.read(way))


def _growth(asked: argparse.Namespace, figures: Figures, _: Peers) -> None:
    """Recorded nodes, so that no sshd has to share the machine: up to 1,250 of them."""
    for kind, counts in (("passive", asked.passive), ("load", asked.load)):
        for count in counts:
            key = f"growth/{kind}/{count}"
            while figures.wants(key, asked.runs):
                once = functools.partial(growth.cost, asked.work / key, count, under_load=kind == "load")
                figures.measure(key, once)
            shutil.rmtree(asked.work / key, ignore_errors=True)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="*", default=[16, 64, 256], help="sshd nodes, at least 3")
    parser.add_argument("--passive", type=int, nargs="*", default=[64, 256, 1250], help="recorded nodes, facts alone")
    parser.add_argument("--load", type=int, nargs="*", default=[64, 256, 1250], help="the same, after a load")
    parser.add_argument("--reports", type=int, nargs="*", default=[64], help="recorded nodes for the reports")
    parser.add_argument("--logs", type=int, default=300, help="megabytes of job logs")
    parser.add_argument("--runs", type=int, default=3, help="of each; fewer of what takes minutes")
    parser.add_argument("--only", nargs="*", choices=[*SECTIONS, "page"], help="these parts")
    parser.add_argument("--nhc", type=Path, help="the source of LBNL NHC")
    parser.add_argument("--figures", type=Path, default=ROOT / "bench/figures/side_by_side.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs/evidence/scale.md")
    parser.add_argument("--peers", type=Path, default=FOLDER / "bench-peers", help="the environment of the peers")
    parser.add_argument("--work", type=Path, default=ROOT / "build/bench", help="for what is deleted at the end")
    asked = parser.parse_args()
    if asked.nodes and min(asked.nodes) < 3:
        parser.error("--nodes: at least 3, the third has the fault")
    return asked


main()
