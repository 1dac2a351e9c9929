"""Measured numbers for tests: metrics, the margins that the suite ships, and whole fleets with noise."""

from nodegate.baseline import baseline_file
from nodegate.baseline.baseline import Baseline
from nodegate.files import strict_yaml
from nodegate.metric import Metric
from nodegate.numbers.comparison import Margins, PeerGroup
from nodegate.numbers.peers import Peers

ALL_REDUCE = "nccl.all_reduce_gb_per_s"
CONDITIONS = {"tool": "all_reduce_perf", "nccl": "2.27.3", "size_bytes": "8589934592", "gpus": "8"}
MARGINS = """
platform: "*"
limits:
  measured.peers_min: {value: 8, unit: nodes, source: test}
  measured.fleet_floor_percent: {value: 2.5, unit: "%", source: test}
  measured.fleet_z: {value: 3.5, unit: deviations, source: test}
  measured.fleet_wronged_percent: {value: 5, unit: "%", source: test}
  measured.fleet_warned_percent: {value: 1, unit: "%", source: test}
  measured.fleet_doubted_percent: {value: 1, unit: "%", source: test}
  measured.latency_floor_percent: {value: 25, unit: "%", source: test}
  measured.temperature_floor_c: {value: 8, unit: °C, source: test}
  measured.inside_floor_percent: {value: 5, unit: "%", source: test}
  measured.history_floor_percent: {value: 5, unit: "%", source: test}
  measured.drift_floor_percent: {value: 2.5, unit: "%", source: test}
  measured.past_z: {value: 5.5, unit: deviations, source: test}
  measured.past_noise_percent: {value: 2, unit: "%", source: test}
  measured.slow_part_min_percent: {value: 15, unit: "%", source: test}
  measured.fast_part_min_percent: {value: 10, unit: "%", source: test}
  measured.batch_floor_percent: {value: 5, unit: "%", source: test}
  measured.unequal_floor_percent: {value: 10, unit: "%", source: test}
  measured.loose_percent: {value: 50, unit: "%", source: test}
  measured.node_tolerance_percent: {value: 6, unit: "%", source: test}
"""


def entries(text=""):
    """The margins, and the entries in this text (the lines below `limits:`)."""
    read = baseline_file.parse(strict_yaml.load(MARGINS, "common.yaml")).limits
    if not text:
        return dict(read)
    own = baseline_file.parse(strict_yaml.load(f"platform: hgx-h100-8\nlimits:\n{text}", "h100.yaml")).limits
    return {**read, **own}


def baseline(text="", overrides=None):
    """The limits of a node of platform hgx-h100-8."""
    return Baseline("hgx-h100-8", "8 x H100", "", "", "hgx-h100-8", entries(text), overrides or {})


def margins():
    return Margins.of(baseline())


def metric(*values, name=ALL_REDUCE, unit="GB/s", device="", better="higher", **conditions):
    """A metric with one value for each attempt."""
    return Metric(name, values, unit, device, better, {**CONDITIONS, **conditions})


def fleet(*values, **changes):
    """Nodes gpu001, gpu002, ... of one platform with one value each."""
    return {f"gpu{at:03}": ("hgx-h100-8", [metric(value, **changes)]) for at, value in enumerate(values, 1)}


def peers(*values, **changes):
    return Peers.of(fleet(*values, **changes))


def group(found):
    assert isinstance(found, PeerGroup), found
    return found


def others(middle, spread=0.006, nodes=127, **more):
    """So many other nodes, whose good values lie so far around the median, as a part of it."""
    return PeerGroup(nodes, nodes, middle, spread, 0.75 * nodes, nodes, **more)
