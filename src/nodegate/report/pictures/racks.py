"""The GPUs of each node as bars, in the rack view: which of them computes less than the fleet's median."""

from collections.abc import Iterable, Mapping
from html import escape

from markupsafe import Markup

from nodegate.records.part import Kind
from nodegate.records.run import NodeReport
from nodegate.report.pictures.axis import svg
from nodegate.report.pictures.values import values
from nodegate.text import number, visible
from nodegate.words.catalogue import phrase, say

METRICS = (
    "burn.bf16_tflops",
    "burn.fp8_tflops",
    "burn.fp32_tflops",
    "memory.copy_gb_per_s",
    "memory.host_to_device_gb_per_s",
)
HEIGHT, STEP = 16, 4
NONE = svg(
    STEP * 8, HEIGHT, f'<path class="bars" d="M8 {HEIGHT - 1}h16v1h-16z"/>', style="gpus"
)  # nothing was measured
LOWEST, HIGHEST = 0.8, 1.05  # of the median: the ends of a bar; 5 % less is a fifth of the picture's height


def gpu_bars(nodes: Iterable[NodeReport]) -> tuple[str, Mapping[str, Markup]]:
    """What the bars show, and of each node with such values its SVG; a GPU without a value has a gap."""
    quantities, drawn = list[str](), dict[str, Markup]()
    for each in values(nodes, Kind.GPU, METRICS):
        quantities.append(f"{phrase(each.quantity)} ({each.unit})")
        middle = each.median
        for node, own in each.of.items():
            by_place = {
                int(part.removeprefix("GPU ")): held
                for part, held in own.items()
                if part.removeprefix("GPU ").isdecimal()
            }
            drawn[node] = _bars(node, by_place, middle, each.unit)
    return ", ".join(dict.fromkeys(quantities)), drawn


def _bars(node: str, own: Mapping[int, tuple[bool, float]], middle: float, unit: str) -> Markup:
    paths = {True: "", False: ""}
    for place, (good, value) in sorted(own.items()):
        share = (value / middle - LOWEST) / (HIGHEST - LOWEST) if middle else 0.0
        paths[good] += f"M{place * STEP} {HEIGHT}v-{max(1.0, HEIGHT * min(1.0, share)):.3g}h{STEP - 1}V{HEIGHT}z"
    bad = ", ".join(f"GPU {place}: {number(value, unit)}" for place, (good, value) in own.items() if not good)
    said = (
        say(
            "{node}: {bad} {unit}, the fleet's median is {median}",
            node=node,
            bad=bad,
            unit=unit,
            median=number(middle, unit),
        )
        if bad
        else ""
    )
    shapes = "".join(f'<path class="{"bars" if good else "bad"}" d="{path}"/>' for good, path in paths.items() if path)
    title = f"<title>{escape(visible(said))}</title>" if said else ""
    return svg(STEP * (max(own, default=0) + 1), HEIGHT, title + shapes, escape(visible(said)), "gpus")
