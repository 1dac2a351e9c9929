"""A baseline file from what the good nodes of a run measured: for review, with the source of each number."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from nodegate.baseline import baseline_file
from nodegate.baseline.entry import Entry
from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.inventory.hostlist import natural
from nodegate.learn.entry import Held, entry_of
from nodegate.metric import Metric
from nodegate.numbers.comparison import HINTS, Margins
from nodegate.text import some, visible

_TOLD_MOST = 6  # limits that the remark names, those that find least first
_TOLD = ("driver version", "CUDA driver version", "GPU VBIOS", "fabric manager version", "NCCL version", "kernel")
Conditions = tuple[tuple[str, str], ...]

# of a group of nodes: racks have different sizes, which is not a contradiction
_SHAPE = frozenset({"nodes", "gpus", "racks"})
_NODES_NAMED = 3  # nodes of each kind that the message names


@dataclass(frozen=True)
class LearnedFrom:
    """A good node: its platform, its measurements, and its properties by name ("driver version")."""

    platform: str
    metrics: Sequence[Metric]
    about: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Learned:
    """The baseline of one platform as the text of its file. `remarks` are what a reviewer should know first."""

    platform: str
    nodes: int
    entries: tuple[Entry, ...]
    remarks: tuple[str, ...]
    text: str


def learn(
    good: Mapping[str, LearnedFrom],
    margins: Mapping[str, Margins],
    *,
    run: str,
    date: str,
    known: Mapping[str, Mapping[str, Entry]] | None = None,
) -> list[Learned]:
    """One baseline for each platform among the good nodes.

    Args:
        good: the accepted nodes by name.
        margins: of each platform: they define outliers and the least tolerance.
        run: the run's id, for the source of each entry.
        date: the day of the run.
        known: of each platform the entries that its baselines have now; their peaks stay valid.

    Raises:
        UsageError: there is nothing to learn from, or the nodes of a platform were not measured under equal conditions.
    """
    platforms: defaultdict[str, dict[str, LearnedFrom]] = defaultdict(dict)
    for name in sorted(good, key=natural):
        if good[name].metrics and good[name].platform:
            platforms[good[name].platform][name] = good[name]
    if not platforms:
        hint = "learn from a run of profile delivery whose nodes were accepted"
        raise UsageError("no accepted node of a known platform was measured under load in this run", hint=hint)
    return [
        _of_platform(platform, nodes, margins[platform], f"run {run}", date, (known or {}).get(platform, {}))
        for platform, nodes in sorted(platforms.items())
    ]


def _of_platform(  # noqa: PLR0917 - one caller
    platform: str,
    nodes: Mapping[str, LearnedFrom],
    margins: Margins,
    run: str,
    date: str,
    known: Mapping[str, Entry],
) -> Learned:
    remarks = [f"learned from {len(nodes)} accepted nodes: {some(nodes, 8)}"]
    if len(nodes) < margins.peers_min:
        remarks.append(f"fewer than {margins.peers_min:g} nodes: a slow one among them may be undetected")
    note = _software(nodes.values())
    entries = []
    least: dict[str, float] = {}
    for name, metrics in sorted(_by_name(nodes).items()):
        if metrics[0][1].unit in HINTS:
            remarks.append(f"{name} left out: it explains why a device is slow and does not measure it")
            continue
        for held in _held(name, metrics):
            found = entry_of(held, margins, source=f"learned from {run}, {date}", note=note, known=known.get(name))
            if found.entry:
                entries.append(found.entry)
                least[name] = max(found.finds, least.get(name, 0.0))
            remarks += found.remarks
    if not entries:
        raise UsageError(f"nothing to learn for {platform}: {'; '.join(remarks[1:])}")
    remarks += _allows(least, len(nodes), margins)
    text = _text(platform, entries, remarks)
    baseline_file.parse(strict_yaml.load(text, f"the baseline learned for {platform}"))  # it must load again
    return Learned(platform, len(nodes), tuple(entries), tuple(remarks), text)


def _allows(least: Mapping[str, float], nodes: int, margins: Margins) -> Iterator[str]:
    """What these limits find, and what they cannot."""
    ordered = sorted(least.items(), key=lambda each: -each[1])
    told = [f"{name} {100 * slower:.1f} %" for name, slower in ordered]
    yield f"how much slower a device has to be to be found in 95 of 100 runs: {some(told, _TOLD_MOST)}"
    few = f"; of {nodes} nodes even one that is slow moves it" if nodes < margins.peers_min else ""
    yield f"what is slow on all of these nodes alike (a batch, a firmware, a setting) is taken for good{few}"


def _by_name(nodes: Mapping[str, LearnedFrom]) -> dict[str, list[tuple[str, Metric]]]:
    found: defaultdict[str, list[tuple[str, Metric]]] = defaultdict(list)
    for node, learned in nodes.items():
        for metric in learned.metrics:
            found[metric.name].append((node, metric))
    return found


def _held(name: str, metrics: Sequence[tuple[str, Metric]]) -> list[Held]:
    """The values of one name, separately for each set of conditions that every node measured."""
    found = []
    for conditions in _alike(name, metrics):
        values = tuple((node, metric) for node, metric in metrics if dict(metric.conditions) == conditions)
        found.append(Held(name, conditions, values))
    return found


def _software(nodes: Iterable[LearnedFrom]) -> str:
    """Driver, VBIOS and similar properties of the nodes; if they differ, each with its count."""
    said = []
    about = [node.about for node in nodes]
    for label in _TOLD:
        counts = Counter(each[label] for each in about if each.get(label))
        if len(counts) == 1:
            said.append(f"{label} {next(iter(counts))}")
        elif counts:
            said.append(f"{label} " + " or ".join(f"{value} ({count})" for value, count in sorted(counts.items())))
    return ", ".join(said)


def _alike(name: str, metrics: Sequence[tuple[str, Metric]]) -> list[dict[str, str]]:
    """The conditions under which a metric was measured, one set for each variant that a node measures by design.

    A node that measures several (data types, paths, groups of several sizes) has several sets; one that lacks some of
    them is not a contradiction.

    Raises:
        UsageError: two nodes measured it differently, with the difference named.
    """
    of_node: defaultdict[str, set[Conditions]] = defaultdict(set)
    for node, metric in metrics:
        of_node[node].add(metric.key[1])
    most = {_of_any_group(each) for each in max(of_node.values(), key=len)}
    for conditions in of_node.values():
        if not {_of_any_group(each) for each in conditions} <= most:
            hint = "measure all nodes with the same software, or learn from a run of one kind of node"
            raise UsageError(f"{name} was not measured under equal conditions: {_difference(of_node)}", hint=hint)
    return [dict(each) for each in sorted(set().union(*of_node.values()))]


def _of_any_group(conditions: Conditions) -> Conditions:
    """The conditions without the shape of the group of nodes, if it was measured over one."""
    if "nodes" not in dict(conditions):
        return conditions
    return tuple((name, value) for name, value in conditions if name not in _SHAPE)


def _difference(of_node: dict[str, set[Conditions]]) -> str:
    """The conditions whose values differ between nodes, each value with some of its nodes."""
    held: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for node, several in of_node.items():
        for conditions in several:
            for condition, value in conditions:
                held[condition][value].add(node)
    said = []
    for condition, values in sorted(held.items()):
        not_of_all = set().union(*values.values()) != of_node.keys()
        if not_of_all or len({frozenset(nodes) for nodes in values.values()}) > 1:
            each = (f"{value} on {some(sorted(nodes), _NODES_NAMED)}" for value, nodes in values.items())
            said.append(f"{condition} " + " and ".join(each))
    return "; ".join(said)


def _text(platform: str, entries: Sequence[Entry], remarks: Iterable[str]) -> str:
    """The file: the remarks as comments, then one entry per key; several entries of one key become its variants.

    Every text is quoted and every number plain, so that it reads back unchanged.
    """
    lines = [f"# {_plain(remark)}" for remark in remarks]
    lines += [f"platform: {_quoted(platform)}", "limits:"]
    for key, several in groupby(sorted(entries, key=lambda entry: entry.key), key=lambda entry: entry.key):
        lines += _of_key(key, list(several))
    return "\n".join(lines) + "\n"


def _of_key(key: str, entries: Sequence[Entry]) -> list[str]:
    first = entries[0]
    shared = [f"  {key}:", f"    unit: {_quoted(first.unit)}", f"    direction: {first.direction}"]
    if first.peak is not None:
        shared.append(f"    peak: {_number(first.peak)}")
    if len(entries) == 1:
        return shared + _own(first, "    ")
    listed = [_own(entry, "        ") for entry in entries]
    return [*shared, "    variants:", *(line for own in listed for line in ("      - " + own[0].lstrip(), *own[1:]))]


def _own(entry: Entry, indent: str) -> list[str]:
    lines = [
        f"value: {_number(entry.value)}",
        f"tolerance: {_number(entry.tolerance)}",
        f"source: {_quoted(entry.source)}",
    ]
    if entry.best_value is not None:
        lines.append(f"best_value: {_number(entry.best_value)}")
    if entry.looks:
        lines += [f"spread: {_number(entry.spread)}", f"looks: {entry.looks}"]
    if entry.parameters:
        lines.append("parameters:")
        lines += [f"  {_quoted(name)}: {_quoted(str(value))}" for name, value in entry.parameters.items()]
    if entry.note:
        lines.append(f"note: {_quoted(entry.note)}")
    return [indent + line for line in lines]


def _quoted(text: str) -> str:
    """A double-quoted YAML text: JSON's quoting is a part of it."""
    return json.dumps(_plain(text), ensure_ascii=False)


def _plain(text: str) -> str:
    return visible(" ".join(text.split()))


def _number(value: object) -> str:
    """Without exponent, as the strict reader requires."""
    if isinstance(value, float) and value != int(value):
        return f"{value:.12f}".rstrip("0")
    return f"{value:.0f}" if isinstance(value, float) else str(value)
