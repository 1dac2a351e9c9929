"""The answers of a server as tables: GPUs of the job by moments, and hosts by moments."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nodegate.inventory.hostlist import natural
from nodegate.job.parts import Names, Part, uuid
from nodegate.job.queries import GPU, TAG, Job, queries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from nodegate.job.prometheus import Query, Reply, Row

    Array = NDArray[np.float64]
    Mask = NDArray[np.bool_]


@dataclass
class Seen:
    """What the metrics say of a job. Tables have NaN where the server has no sample in that interval.

    `gpus`: quantity to [GPU, moment] in the unit of the table; `hosts`: quantity to [node, moment], with all nodes of
    the server, `host_names` naming the rows; `site`: how many targets and GPUs the server saw at each moment.
    """

    job: Job
    parts: list[Part]
    identities: list[str]
    gpus: dict[str, Array]
    free: Array
    past_power: Array
    host_names: list[str]
    hosts: dict[str, Array]
    site: Array
    names: Names
    warnings: list[str] = field(default_factory=list)

    @property
    def times(self) -> Array:
        """The end of each interval, UTC seconds."""
        return self.job.end - self.job.step_s * np.arange(self.job.steps - 1, -1, -1, dtype=float)

    @property
    def present(self) -> Mask:
        """[GPU, moment]: whether any of its series has a sample."""
        return np.asarray(np.any([~np.isnan(table) for table in self.gpus.values()], axis=0), dtype=bool)

    def host_rows(self) -> dict[str, int]:
        """The job's nodes that have a row among the hosts."""
        rows = {name: row for row, name in enumerate(self.host_names)}
        return {part.node: rows[part.node] for part in self.parts if part.node in rows}


def read(job: Job, ask: Callable[[Query], Reply]) -> Seen:
    """The tables of a job. Each answer is asked for and put into its table before the next: one alone is large."""
    wanted = {query.name: query for query in queries(job)}
    asked = _Asked(job, ask)
    names = Names.read(asked.rows(wanted["names"]))
    lines = {quantity: _lines(asked, wanted[quantity], names) for quantity in GPU}
    chosen = _gpus_of(job, asked.newest)
    index = {key: row for row, (key, _) in enumerate(chosen)}
    gpus = {quantity: _table(index, found, job.steps) for quantity, found in lines.items()}
    host_names, hosts, site = _hosts(job, asked.rows(wanted["nodes"]), names)
    instant = asked.rows(wanted["free"])
    free, total, past = (_instant(instant, index, names, each) for each in ("free", "total", "past_power"))
    if job.steps:
        free = np.where(np.isnan(free), total - _last(gpus["memory"]), free)
    parts = [part for _, part in chosen]
    return Seen(job, parts, list(index), gpus, free, past, host_names, hosts, site, names, asked.warnings)


@dataclass
class _Asked:
    """The answers as they come, with the newest names of each GPU and the warnings of the server."""

    job: Job
    ask: Callable[[Query], Reply]
    newest: dict[str, tuple[float, Part]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def rows(self, query: Query) -> list[Row]:
        """The series of an answer."""
        reply = self.ask(query)
        self.warnings += reply.warnings
        return reply.rows


def _lines(asked: _Asked, query: Query, names: Names) -> dict[str, Array]:
    """One quantity by GPU. Copies of a series (two servers, changed labels) fill one line: the greater value counts."""
    job, found = asked.job, dict[str, "Array"]()
    start = job.end - (job.steps - 1) * job.step_s
    for row in asked.rows(query):
        key, moment = _identity(row.metric, names), row.values[-1][0] if row.values else 0.0
        known = asked.newest.get(key)
        if known is None or moment > known[0]:
            asked.newest[key] = moment, names.part(row.metric)
        line = found.setdefault(key, np.full(job.steps, np.nan))
        _fill(line, row, start, job.step_s)
    return found


def _identity(labels: Mapping[str, str], names: Names) -> str:
    if found := uuid(labels):
        return found
    part = names.part(labels)
    return f"{part.node}/{part.gpu}/{labels.get('GPU_I_ID', '')}"


def _gpus_of(job: Job, newest: Mapping[str, tuple[float, Part]]) -> list[tuple[str, Part]]:
    """The job's GPUs, sorted by node and index."""
    wanted = set(job.nodes)
    chosen = [(key, part) for key, (_, part) in newest.items() if not job.large or part.node in wanted]
    return sorted(chosen, key=lambda each: (natural(each[1].node), -1 if each[1].gpu is None else each[1].gpu, each[0]))


def _table(index: Mapping[str, int], lines: Mapping[str, Array], steps: int) -> Array:
    table = np.full((len(index), steps), np.nan)
    for key, line in lines.items():
        if key in index:
            table[index[key]] = line
    return table


def _fill(line: Array, row: Row, start: float, step_s: int) -> None:
    for moment, text in row.values:
        at, value = round((moment - start) / step_s), float(text)
        if 0 <= at < len(line) and math.isfinite(value) and not line[at] >= value:
            line[at] = value


def _instant(rows: Sequence[Row], index: Mapping[str, int], names: Names, quantity: str) -> Array:
    found = np.full(len(index), np.nan)
    for row in rows:
        if row.metric.get(TAG) == quantity and row.value is not None:
            place = index.get(_identity(row.metric, names))
            if place is not None:
                found[place] = np.fmax(found[place], float(row.value[1]))
    return found


def _hosts(job: Job, rows: Sequence[Row], names: Names) -> tuple[list[str], dict[str, Array], Array]:
    start, steps = job.end - (job.steps - 1) * job.step_s, job.steps
    of_hosts = [row for row in rows if "instance" in row.metric]
    listed = sorted({names.host(row.metric["instance"]) for row in of_hosts}, key=natural)
    places = {name: place for place, name in enumerate(listed)}
    hosts: dict[str, Array] = {}
    site = np.full(steps, np.nan)
    for row in rows:
        if "instance" in row.metric:
            quantity = row.metric.get("mode") or row.metric.get(TAG, "")
            table = hosts.setdefault(quantity, np.full((len(listed), steps), np.nan))
            _fill(table[places[names.host(row.metric["instance"])]], row, start, job.step_s)
        else:
            line = np.full(steps, np.nan)
            _fill(line, row, start, job.step_s)
            site = np.where(np.isnan(site), line, site + np.nan_to_num(line))
    return listed, hosts, np.nan_to_num(site)


def _last(table: Array) -> Array:
    """The last value of each row, NaN if it has none."""
    known = ~np.isnan(table)
    last = table.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1)
    found: Array = table[np.arange(len(table)), last]
    return found
