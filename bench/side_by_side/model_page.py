"""The model of 10,000 nodes as a table, with its assumptions."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from bench.side_by_side import model, tools
from bench.side_by_side.figures import median

if TYPE_CHECKING:
    from bench.side_by_side.figures import Figures

WIDTH = 100
FLEET = f"fleet/{tools.TOOLS[0].name}"
LOGIN = "fleet/clush: login alone"
ASSUMED = """
a node answers {round_trip:.0f} s after it is called: login, probe with eight GPUs, way back;
one Python process of the controller uses one core; under `-n` the judging is divided, the connections are not;
a bastion that forwards connections (ProxyJump) uses {share:.0%} of what an sshd uses for a login;
nodes have no findings: a node with many has longer records and more lines in the report;
every node is reached: one that is not holds one of the places for as long as its connect timeout.
"""


def ten_thousand(figures: Figures) -> tuple[str, str, str]:
    """What it rests on, the table, the assumptions."""
    rows = [*_controller(figures), *_files(figures), *_bastion(figures)]
    about = (
        f"The cost of a further node, measured above between the smallest and the largest size, carried on to "
        f"{model.NODES:,} nodes; where the slope between the two largest sizes is above 1, growth goes on with that "
        "slope. Nothing of this was run at that size."
    )
    head = "| what | of what | one node more | 10,000 nodes |\n|---|---|---|---|"
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return _wrapped(about), f"{head}\n{lines}" if rows else "Not measured yet.", _assumptions(rows)


def _controller(figures: Figures) -> list[tuple[str, ...]]:
    rows = []
    over_ssh = model.line(model.costs(figures, FLEET, "cpu_s"))
    passive, load = (model.line(model.costs(figures, f"growth/{kind}", "cpu_s")) for kind in ("passive", "load"))
    if over_ssh is not None:
        rows.append(("controller CPU, passive, over SSH", _between(over_ssh, "sshd nodes"), *_cpu(over_ssh)))
    if passive is not None:
        rows.append(
            ("controller CPU, passive, without connections", _between(passive, "recorded nodes"), *_cpu(passive))
        )
    if load is not None:
        rows.append(
            ("controller CPU, after a load, without connections", _between(load, "recorded nodes"), *_cpu(load))
        )
    for kind in ("passive", "load"):
        memory = model.line(model.costs(figures, f"growth/{kind}", "memory_mib"))
        if memory is not None:
            values = (f"{memory.each:.2f} MiB", f"{memory.at(model.NODES) / 1024:,.1f} GiB")
            rows.append((f"controller memory, {kind}", _between(memory, "recorded nodes"), *values))
    return rows


def _files(figures: Figures) -> list[tuple[str, ...]]:
    rows = []
    names = {"evidence_mb": "evidence on disk", "folder_mb": "run folder, evidence included"}
    for kind in ("passive", "load"):
        found = {name: (words, model.costs(figures, f"growth/{kind}", name)) for name, words in names.items()}
        for key in _report_files(figures, kind):
            found[key] = (f"`{key.removesuffix(' MB')}`", model.costs(figures, f"growth/{kind}", key))
        for words, costs in found.values():
            line = model.line(costs)
            if line is not None:
                each, total = f"{1000 * line.each:,.1f} kB", f"{line.at(model.NODES):,.0f} MB"
                rows.append((f"{words}, {kind}", _between(line, "recorded nodes"), each, total))
    return rows


def _report_files(figures: Figures, kind: str) -> list[str]:
    runs = [runs for key, runs in figures.value["runs"].items() if key.startswith(f"growth/{kind}/")]
    return [name for name in (runs[0][0] if runs else {}) if name.endswith(" MB") and name.startswith("report.")]


def _bastion(figures: Figures) -> list[tuple[str, ...]]:
    rows = []
    login = model.line(model.costs(figures, LOGIN, "nodes_cpu_s"))
    if login is not None:
        each = login.each * model.BASTION_SHARE
        what = f"{model.BASTION_SHARE:.0%} of sshd's CPU for a login, {_between(login, 'nodes')}"
        rows.append(("bastion CPU", what, f"{1000 * each:.1f} ms", f"{each * model.NODES:,.0f} s"))
    answer = figures.runs("one_node/the probe alone")
    if answer:
        kb = 1000 * median(answer, "written_mb")
        values = (f"{kb:.1f} kB", f"{kb * model.NODES / 1000:,.0f} MB")
        rows.append(("answers through the bastion", "the probe's answer of a made node", *values))
    over_ssh = model.line(model.costs(figures, FLEET, "cpu_s"))
    for at_once in model.AT_ONCE:
        waiting = model.NODES / at_once * model.ROUND_TRIP_S
        busy = over_ssh.at(model.NODES) if over_ssh else 0.0
        bound = "waiting for nodes" if waiting > busy else "the controller's CPU"
        what = f"{at_once} at a time, bound by {bound}"
        rows.append(("facts of all nodes, wall time", what, "", f"{max(waiting, busy) / 60:,.0f} min"))
    return rows


def _assumptions(rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    items = ASSUMED.format(round_trip=model.ROUND_TRIP_S, share=model.BASTION_SHARE).strip().splitlines()
    wrapped = [textwrap.fill(f"- {item}", WIDTH, subsequent_indent="  ", break_on_hyphens=False) for item in items]
    return "Assumptions:\n\n" + "\n".join(wrapped)


def _between(line: model.Line, what: str) -> str:
    return f"{line.sizes[0]:,} to {line.sizes[1]:,} {what}, slope {line.exponent:.2f}"


def _cpu(line: model.Line) -> tuple[str, str]:
    return f"{1000 * line.each:.1f} ms", f"{line.at(model.NODES) / 60:,.1f} min"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False)
