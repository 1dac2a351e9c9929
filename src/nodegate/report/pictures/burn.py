"""The burn over time: a GPU that did not pass beside a good one of its node, the one nearest to their median."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from nodegate.errors import CannotMeasure
from nodegate.measure.burn.document import GpuLoad
from nodegate.measure.burn.run import Burn as Measured
from nodegate.measure.registry import measurement
from nodegate.records.finding import Finding
from nodegate.records.part import Kind
from nodegate.records.run_folder import RunFolder
from nodegate.records.verdict import Verdict
from nodegate.report.model import Report
from nodegate.report.pictures.axis import Axis, axis, svg
from nodegate.report.stats import number as numeric
from nodegate.text import number
from nodegate.words.catalogue import say, term

MOST = 4  # GPUs: of more a reader compares none
WIDTH, HEIGHT = 240, 64
_CHECK, _PREFIX, _ENDING = "burn.throughput", "burn.", "_tflops"
_SAMPLED = (("sm_clock_mhz", "MHz"), ("temperature_c", "°C"))

Curve = tuple[tuple[float, float], ...]  # seconds since the start of the load, value


@dataclass(frozen=True, slots=True)
class Burn:
    """A GPU that did not pass, `beside` another, with their curves by unit; the first unit is what was judged."""

    node: str
    gpu: str
    beside: str
    value: float
    limit: float | None
    curves: tuple[tuple[str, Curve, Curve], ...]


def burns(report: Report, folder: RunFolder) -> list[Burn]:
    """The worst GPUs of the burn, each beside a good one of the same node; read from the evidence of their nodes."""
    found: dict[tuple[str, int | None], Finding] = {}
    for _, node, finding in sorted(_failed(report), key=lambda each: each[0]):
        found.setdefault((node, finding.part.index), finding)
    shown = list(found.items())[:MOST]
    loads = {node: _loads(node, folder) for (node, _), _ in shown}
    drawn = (_beside(node, each, loads[node], {at for name, at in found if name == node}) for (node, _), each in shown)
    return [each for each in drawn if each]


def _failed(report: Report) -> Iterator[tuple[float, str, Finding]]:
    """How much of its limit each GPU that failed reached, in each type of numbers."""
    for node in report.nodes:
        for finding in (each for record in node.records if record.check == _CHECK for each in record.findings):
            value, limit = numeric(finding.observed), numeric(finding.limit.value if finding.limit else None)
            if finding.verdict is Verdict.FAIL and finding.part.kind is Kind.GPU and value is not None and limit:
                yield value / limit, node.node, finding


def _loads(node: str, folder: RunFolder) -> dict[int, GpuLoad]:
    """What each GPU of a node did in its first burn; nothing where the evidence is not there or cannot be read."""
    evidence = folder.read_evidence(node, "burn")
    if evidence is None or evidence.document is None:
        return {}
    try:
        measured = measurement("burn").of_document(evidence.document)
    except CannotMeasure:
        return {}
    return {at: each[0] for at, each in measured.loads.items() if each} if isinstance(measured, Measured) else {}


def _beside(node: str, finding: Finding, loads: Mapping[int, GpuLoad], failed: Collection[int | None]) -> Burn | None:
    """A GPU beside the good one of its node that is nearest to the median of these."""
    dtype = finding.metric.removeprefix(_PREFIX).removesuffix(_ENDING)
    rates: dict[int, Curve] = {}
    for at, load in loads.items():
        phase = next((each for each in load.phases if each.dtype == dtype), None)
        if phase and phase.rates:
            rates[at] = tuple(zip(phase.ends_s[-len(phase.rates) :], phase.rates, strict=False))
    middles = {at: median(value for _, value in rate) for at, rate in rates.items() if at not in failed}
    bad, value = finding.part.index, numeric(finding.observed)
    if bad not in rates or not middles or value is None:
        return None
    middle = median(middles.values())
    beside = min(middles, key=lambda at: abs(middles[at] - middle))
    curves = [("TFLOPS", rates[bad], rates[beside])]
    curves += [(unit, _sampled(loads[bad], key), _sampled(loads[beside], key)) for key, unit in _SAMPLED]
    shown = tuple(each for each in curves if len(each[1]) > 1)  # one point is no course
    limit = numeric(finding.limit.value if finding.limit else None)
    return Burn(node, finding.part.short, f"GPU {beside}", value, limit, shown) if shown else None


def _sampled(load: GpuLoad, quantity: str) -> Curve:
    return tuple((each.start_s, each.values[quantity][1]) for each in load.windows if quantity in each.values)


def finding_of(burn: Burn) -> str:
    """What the picture shows, in words."""
    return say(
        "{node} {gpu} (red): {value} TFLOPS, the limit is {limit}; beside it {beside} (grey), {seconds} s of load",
        node=burn.node,
        gpu=burn.gpu,
        value=number(burn.value, "TFLOPS"),
        limit=number(burn.limit, "TFLOPS"),
        beside=burn.beside,
        seconds=number(max(at for _, curve, _ in burn.curves for at, _ in curve), "s"),
    )


def curves(burn: Burn) -> list[tuple[str, Markup]]:
    """For each unit the sentence that stands beside its diagram, and the SVG with both lines."""
    return [(_spoken(burn, *each), _diagram(*each[1:])) for each in burn.curves]


def _spoken(burn: Burn, unit: str, bad: Curve, beside: Curve) -> str:
    def ends(gpu: str, curve: Curve) -> str:
        held = [value for _, value in curve]
        words = "{gpu}: {low} to {high} {unit}, median {middle}"
        numbers = {"low": min(held), "high": max(held), "middle": median(held)}
        return say(words, gpu=gpu, unit=term(unit), **{key: number(value, unit) for key, value in numbers.items()})

    return "; ".join(ends(gpu, curve) for gpu, curve in ((burn.gpu, bad), (burn.beside, beside)) if curve)


def _diagram(bad: Curve, beside: Curve) -> Markup:
    both = sorted(value for _, value in (*bad, *beside))
    times = [at for at, _ in (*bad, *beside)]
    along, up = Axis(min(times), max(*times, min(times) + 1.0), WIDTH), axis(both, HEIGHT - 2)

    def line(style: str, curve: Curve) -> str:
        points = " ".join(f"{along.at(at):.4g},{HEIGHT - 1 - up.at(value):.3g}" for at, value in curve)
        return f'<polyline class="{style}" points="{points}"/>'

    return svg(WIDTH, HEIGHT, line("beside", beside) + line("slow", bad), style="curve")
