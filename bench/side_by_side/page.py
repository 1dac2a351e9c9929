"""docs/evidence/scale.md from the figures; its figures come from nowhere else."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from bench.side_by_side import logs, model, one_node, tools
from bench.side_by_side.figures import median, spread
from bench.side_by_side.model_page import ten_thousand

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.side_by_side.figures import Figures

WIDTH = 100
HERE = Path(__file__).parent
NODEGATE = tools.TOOLS[0].name


def text(figures: Figures) -> str:
    """The whole page."""
    about, rows, assumptions = ten_thousand(figures)
    parts = {
        "machine": _machine(figures),
        "fleet_about": _fleet_about(),
        "fleet": _fleet(figures),
        "growth_of_tools": _growth_of_tools(figures),
        "lacks": table(["tool", "does", "does not"], [(tool.name, tool.does, tool.lacks) for tool in tools.TOOLS]),
        "cheaper": _cheaper(figures),
        "one_node_about": _one_node_about(),
        "one_node": _one_node(figures),
        "overhead": _overhead(figures),
        "reports": _reports(figures),
        "logs": _logs(figures),
        "scale": _scale(figures),
        "scale_slopes": _scale_slopes(figures),
        "model_about": about,
        "model": rows,
        "model_assumptions": assumptions,
        "versions": _versions(figures),
        "not_measured": _not_measured(figures),
    }
    return Template((HERE / "page.md").read_text("utf-8")).substitute(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; without rows it says so."""
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    if not lines:
        return "Not measured yet."
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines])


def paragraph(*sentences: str) -> str:
    """Wrapped as the other pages are."""
    return textwrap.fill(" ".join(filter(None, sentences)), WIDTH, break_long_words=False, break_on_hyphens=False)


def number(value: float) -> str:
    """Three digits that mean something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def around(runs: list[dict[str, float]], name: str) -> str:
    """Median, smallest and largest."""
    low, high = spread(runs, name)
    return number(median(runs, name)) + (f" [{number(low)}-{number(high)}]" if len(runs) > 1 else "")


def _machine(figures: Figures) -> str:
    about = figures.value["about"]
    here = about.get("machine", {})
    loads = [run["load"] for runs in figures.value["runs"].values() for run in runs if "load" in run]
    median_load, most = (sorted(loads)[len(loads) // 2], max(loads)) if loads else (0.0, 0.0)
    return paragraph(
        f"{here.get('cpu', '')}, {here.get('cores', '?')} cores, {here.get('memory_gib', '?')} GiB,",
        f"Linux {here.get('kernel', '')}, Python {here.get('python', '')}; ended {about.get('ended', '')},",
        f"nodegate at commit {about.get('commit', '')}.",
        f"Load average when a run began: median {median_load:.1f}, at most {most:.1f}.",
    )


def _fleet_about() -> str:
    return paragraph(
        "Real OpenSSH servers on loopback addresses, each login in front of a made HGX H100 node: a file tree of its",
        "own in place of /sys and /proc, eight GPUs of its own by a stand-in for NVML, NVIDIA's own nvidia-smi on it.",
        "On one node a GPU has 8 of its 16 PCIe lanes, and a run counts only if the tool named that node and no other.",
        "`nodegate` is `pytest --inventory hosts.yaml --passive`: all checks of a delivery that need no load. The",
        f"peers ask {tools.HOW_MANY} questions (GPUs, driver, persistence, ECC, uncorrected errors, PCIe width,",
        "temperature, remapped rows, ports, their rate, fabric manager, Xid), over",
        f"{tools.CONNECTIONS} connections at a time where they have that setting.",
    )


def _sizes(figures: Figures, prefix: str) -> list[int]:
    return list(model.costs(figures, prefix, "wall_s"))


def _fleet(figures: Figures) -> str:
    head = ["nodes", "tool", "wall s", "CPU s", "CPU ms a node", "memory MiB", "written MB", "nodes' CPU ms a node"]
    sizes = sorted({size for tool in tools.TOOLS for size in _sizes(figures, f"fleet/{tool.name}")})
    return table(head, [row for size in sizes for row in _fleet_rows(figures, size)])


def _fleet_rows(figures: Figures, size: int) -> list[tuple[str, ...]]:
    rows = []
    for tool in tools.TOOLS:
        runs = figures.runs(f"fleet/{tool.name}/{size}")
        if not runs:
            rows.append((f"{size:,}", tool.name, "not measured", *[""] * 5))
            continue
        values = (around(runs, "wall_s"), around(runs, "cpu_s"), number(1000 * median(runs, "cpu_s") / size))
        rest = (number(median(runs, "memory_mib")), number(median(runs, "written_mb")))
        rows.append((f"{size:,}", tool.name, *values, *rest, number(1000 * median(runs, "nodes_cpu_s") / size)))
    return rows


def _growth_of_tools(figures: Figures) -> str:
    rows = []
    for tool in tools.TOOLS:
        costs = model.costs(figures, f"fleet/{tool.name}", "cpu_s")
        walls = model.costs(figures, f"fleet/{tool.name}", "wall_s")
        line, wall = model.line(costs), model.line(walls)
        if line is None or wall is None:
            continue
        between = f"{line.sizes[0]:,} to {line.sizes[1]:,}"
        values = (number(1000 * line.each), f"{line.exponent:.2f}", number(1000 * wall.each), f"{wall.exponent:.2f}")
        rows.append((tool.name, between, *values))
    head = ["tool", "nodes", "CPU ms for each further node", "slope", "wall ms for each further node", "slope"]
    said = (
        "The slope is of a log-log plot, between the two largest sizes: 1 is linear, 2 quadratic; start-up lowers it."
    )
    return f"{table(head, rows)}\n\n{paragraph(said)}"


def _cheaper(figures: Figures) -> str:
    """Where a peer costs less, by the largest size that both have."""
    names = {"wall_s": "wall time", "cpu_s": "controller CPU", "memory_mib": "memory", "nodes_cpu_s": "the nodes' CPU"}
    sizes = _sizes(figures, f"fleet/{NODEGATE}")
    if not sizes:
        return ""
    ours = figures.runs(f"fleet/{NODEGATE}/{sizes[-1]}")
    items = []
    for name, words in names.items():
        cheaper, dearer = [], []
        for tool in tools.TOOLS[1:]:
            runs = figures.runs(f"fleet/{tool.name}/{sizes[-1]}")
            if runs and median(ours, name):
                share = median(runs, name) / median(ours, name)
                (cheaper if share < 1 else dearer).append(f"{tool.name} ({share:.2f})")
        said = f"- {words}: less with {', '.join(cheaper) or 'none of them'}; more with {', '.join(dearer) or 'none'}."
        items.append(textwrap.fill(said, WIDTH, subsequent_indent="  ", break_on_hyphens=False))
    checks = figures.value["about"].get("checks", "all")
    intro = paragraph(
        f"Where a peer costs less than nodegate, and where more, at {sizes[-1]:,} nodes, as a share of nodegate's",
        f"figure. The peers ask {tools.HOW_MANY} questions, nodegate judges by {checks} checks:",
    )
    return f"{intro}\n\n" + "\n".join(items)


def _one_node_about() -> str:
    return paragraph(
        "One made node with eight GPUs, everything on that node. What is measured is the whole process with all that",
        "it starts. Memory of what ends within 0.2 s is that of its largest process, and not below the 15 MiB of the",
        "process that starts it.",
    )


def _one_node(figures: Figures) -> str:
    rows = []
    for name, (does, lacks) in one_node.ABOUT.items():
        runs = figures.runs(f"one_node/{name}")
        values = (
            [around(runs, each) for each in ("wall_s", "cpu_s", "memory_mib")] if runs else ["not measured", "", ""]
        )
        rows.append((name, *values, does, lacks))
    return table(["command", "wall s", "CPU s", "memory MiB", "does", "does not"], rows)


def _overhead(figures: Figures) -> str:
    whole, probe = figures.runs("one_node/nodegate bootcheck"), figures.runs("one_node/the probe alone")
    file, nhc = figures.runs("one_node/bootcheck.pyz"), figures.runs("one_node/LBNL NHC")
    if not (whole and probe):
        return ""
    own = {name: median(whole, name) - median(probe, name) for name in ("cpu_s", "wall_s", "memory_mib")}
    return paragraph(
        f"So a bootcheck itself costs {own['cpu_s']:.2f} s of CPU, {own['wall_s']:.2f} s of wall time and",
        f"{own['memory_mib']:.0f} MiB over the probe's reads (limits: 0.5 s and 60 MB)"
        + (
            f"; from the one file {median(file, 'cpu_s') - median(probe, 'cpu_s'):.2f} s and"
            f" {median(file, 'memory_mib') - median(probe, 'memory_mib'):.0f} MiB, the largest of its runs being the"
            " first, which unpacks it."
            if file
            else "."
        ),
        f"NHC, which is bash, needs {median(nhc, 'cpu_s') / median(whole, 'cpu_s'):.0%} of the bootcheck's CPU for the"
        " questions that it was given here."
        if nhc
        else "",
    )


def _reports(figures: Figures) -> str:
    rows = []
    names = {"nodegate": "nodegate report", "plain": "pytest, no report", "pytest_html": "pytest with pytest-html"}
    for way, name in names.items():
        for size in _sizes(figures, f"reports/{way}"):
            runs = figures.runs(f"reports/{way}/{size}")
            results = figures.value["about"].get(f"results of {size} nodes", 0)
            html = number(median(runs, "html_mb")) if "html_mb" in runs[0] else ""
            values = [around(runs, each) for each in ("wall_s", "cpu_s", "memory_mib")]
            rows.append((name, f"{results:,}", *values, html))
    return table(["command", "results", "wall s", "CPU s", "memory MiB", "HTML MB"], rows)


def _logs(figures: Figures) -> str:
    rows = []
    for way, lacks in logs.LACKS.items():
        runs = figures.runs(f"logs/{way}")
        if runs:
            values = [around(runs, each) for each in ("wall_s", "cpu_s", "mb_per_cpu_s", "memory_mib")]
            rows.append((way, *values, lacks))
        else:
            rows.append((way, "not measured", "", "", "", lacks))
    size = figures.value["about"].get("logs_mb", 0)
    return table([f"over {size:,} MB", "wall s", "CPU s", "MB for each s of CPU", "memory MiB", "does not"], rows)


def _scale(figures: Figures) -> str:
    rows = []
    for kind in ("passive", "load"):
        for size in _sizes(figures, f"growth/{kind}"):
            runs = figures.runs(f"growth/{kind}/{size}")
            files = _files(runs[-1])
            values = (around(runs, "cpu_s"), number(1000 * median(runs, "cpu_s") / size), around(runs, "wall_s"))
            sizes = (number(runs[-1]["folder_mb"]), number(runs[-1]["evidence_mb"]), files)
            rows.append((kind, f"{size:,}", *values, number(median(runs, "memory_mib")), *sizes))
    head = [
        "run",
        "nodes",
        "CPU s",
        "CPU ms a node",
        "wall s",
        "memory MiB",
        "run folder MB",
        "evidence MB",
        "files MB",
    ]
    return table(head, rows)


def _files(run: Mapping[str, float]) -> str:
    sizes = sorted(((size, name) for name, size in run.items() if name.endswith(" MB")), reverse=True)
    return ", ".join(f"{name.removesuffix(' MB')} {number(size)}" for size, name in sizes if size >= 0.1)


def _scale_slopes(figures: Figures) -> str:
    rows = []
    for kind, name in itertools.product(("passive", "load"), ("cpu_s", "memory_mib", "folder_mb")):
        costs = model.costs(figures, f"growth/{kind}", name)
        for small, large in itertools.pairwise(costs):
            each = 1000 * (costs[large] - costs[small]) / (large - small)
            unit = {"cpu_s": "ms of CPU", "memory_mib": "KiB of memory", "folder_mb": "kB of files"}[name]
            each = each * 1.024 if name == "memory_mib" else each
            slope = f"{model.exponent(costs, small, large):.2f}"
            rows.append((kind, f"{small:,} to {large:,}", f"{number(each)} {unit}", slope))
    return table(["run", "nodes", "for each further node", "slope"], rows)


def _versions(figures: Figures) -> str:
    found = figures.value["about"].get("versions", {})
    nhc = f"LBNL NHC {one_node.NHC_COMMIT} of 2022-12-22, if its source was given"
    names = sorted(found, key=str.lower)  # the file of figures does not keep an order
    return paragraph("Versions: " + ", ".join(f"{name} {found[name]}" for name in names) + f"; {nhc}.")


def _not_measured(figures: Figures) -> str:
    found = figures.value["not_measured"]
    if not found:
        return "Everything was measured."
    items = (f"- {key}: {why}" for key, why in found.items())
    wrapped = (textwrap.fill(item, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for item in items)
    return "Not measured:\n\n" + "\n".join(wrapped)
