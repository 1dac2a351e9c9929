"""The answers of a server as tables: GPUs of the job by moments, and hosts by moments."""

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nodegate.errors import UsageError
from nodegate.inventory.hostlist import natural
from nodegate.job.parts import Names, Part, uuid
from nodegate.job.prometheus import Query, Reply, Row
from nodegate.job.queries import GPU, TAG, Job, queries

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass
class Seen:
    """What the metrics say of a job. Tables have NaN where the server has no sample in that interval."""

    job: Job
    parts: list[Part]
    identities: list[str]
    gpus: dict[str, Array]  # quantity to [GPU, moment] in the unit of the table
    free: Array
    past_power: Array
    host_names: list[str]  # of the rows of `hosts`
    hosts: dict[str, Array]  # quantity to [node, moment], with all nodes of the server
    site: Array  # how many targets and GPUs the server saw at each moment
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
    tables = {quantity: asked.table(wanted[quantity], names) for quantity in GPU}
    chosen = asked.chosen()
    gpus = {quantity: _of(table, chosen) for quantity, table in tables.items()}
    keys = list(asked.places)
    identities = [keys[place] for place in chosen]
    host_names, hosts, site = _hosts(job, asked.rows(wanted["nodes"]), names)
    index = {key: row for row, key in enumerate(identities)}
    instant = {each: np.full(len(index), np.nan) for each in ("free", "total", "past_power")}
    for row in asked.rows(wanted["free"]):
        found, place = instant.get(row.metric.get(TAG, "")), index.get(_identity(row.metric, names))
        if found is not None and place is not None and row.value is not None:
            found[place] = np.fmax(found[place], float(row.value[1]))
    free, total, past = instant.values()
    if job.steps:
        known = ~np.isnan(gpus["memory"])
        last = known.shape[1] - 1 - np.argmax(known[:, ::-1], axis=1)
        free = np.where(np.isnan(free), total - gpus["memory"][np.arange(len(known)), last], free)
    parts = [asked.newest[place][1] for place in chosen]
    return Seen(job, parts, identities, gpus, free, past, host_names, hosts, site, names, asked.warnings)


@dataclass
class _Asked:
    """The answers as they come: the place of each GPU in their tables, its newest names, the server's warnings."""

    job: Job
    ask: Callable[[Query], Reply]
    places: dict[str, int] = field(default_factory=dict)
    newest: list[tuple[float, Part]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def rows(self, query: Query) -> list[Row]:
        """The series of an answer."""
        reply = self.ask(query)
        self.warnings += reply.warnings
        return reply.rows

    def table(self, query: Query, names: Names) -> Array:
        """One quantity by GPU and moment. Of copies of a series (two servers, changed labels) the greater counts."""
        rows, owners = self.rows(query), []
        counts, moments, values = _samples(rows)
        for row, end in zip(rows, np.cumsum(counts).tolist(), strict=True):
            place = self.places.setdefault(_identity(row.metric, names), len(self.newest))
            moment = float(moments[end - 1]) if end else 0.0
            if place == len(self.newest):
                self.newest.append((moment, names.part(row.metric)))
            elif moment > self.newest[place][0]:
                self.newest[place] = moment, names.part(row.metric)
            owners.append(place)
        return _table(self.job, (np.repeat(owners, counts), moments, values), len(self.newest))

    def chosen(self) -> list[int]:
        """The places of the job's GPUs, sorted by node and index."""
        wanted = set(self.job.nodes)
        found = [(natural(part.node), -1 if part.gpu is None else part.gpu, key, place)
                 for (key, place), (_, part) in zip(self.places.items(), self.newest, strict=True)
                 if not self.job.large or part.node in wanted]  # fmt: skip
        return [each[-1] for each in sorted(found)]


def _of(table: Array, chosen: Sequence[int]) -> Array:
    """Rows of a table; a GPU that came with a later quantity has none in it."""
    whole = np.vstack([table, np.full((1, table.shape[1]), np.nan)])
    found: Array = whole[[min(place, len(table)) for place in chosen]]
    return found


def _identity(labels: Mapping[str, str], names: Names) -> str:
    if found := uuid(labels):
        return found
    part = names.part(labels)
    return f"{part.node}/{part.gpu}/{labels.get('GPU_I_ID', '')}"


def _samples(rows: Sequence[Row]) -> tuple[list[int], Array, Array]:
    """How many samples each series has, and the moments and values of all of them, one after the other.

    Raises:
        UsageError: one of them is not a pair of numbers.
    """
    texts = [bytes(row.values) for row in rows]
    counts = [text.count(b'"') // 2 for text in texts]
    flat: Array | None = None
    joined = b",".join(filter(None, (text.translate(None, b'[]"') for text in texts)))
    with warnings.catch_warnings(), contextlib.suppress(ValueError, DeprecationWarning):
        warnings.simplefilter("error", DeprecationWarning)  # what numpy says of text that is not a number
        flat = np.fromstring(joined.decode("ascii", "replace"), sep=",")
    if flat is None or len(flat) != 2 * sum(counts):
        raise UsageError("an answer has samples that are not pairs of numbers")
    return counts, flat[::2], flat[1::2]


def _table(job: Job, samples: tuple[Indices, Array, Array], count: int) -> Array:
    """Samples (line, moment, value) as lines by moment; the greater of two at one moment."""
    table = np.full((count, job.steps), np.nan)
    owner, moment, value = samples
    at = np.round((moment - (job.end - (job.steps - 1) * job.step_s)) / job.step_s)
    good = np.isfinite(value) & (at >= 0) & (at < job.steps)
    np.fmax.at(table, (owner[good].astype(np.int64), at[good].astype(np.int64)), value[good])
    return table


def _lines(job: Job, rows: Sequence[Row], owners: Sequence[int], count: int) -> Array:
    counts, moments, values = _samples(rows)
    return _table(job, (np.repeat(owners, counts), moments, values), count)


def _hosts(job: Job, rows: Sequence[Row], names: Names) -> tuple[list[str], dict[str, Array], Array]:
    of_hosts: dict[str, list[Row]] = {}
    of_site: list[Row] = []
    for row in rows:
        named = row.metric.get("mode") or row.metric.get(TAG, "")
        (of_hosts.setdefault(named, []) if "instance" in row.metric else of_site).append(row)
    listed = sorted({names.host(row.metric["instance"]) for each in of_hosts.values() for row in each}, key=natural)
    places = {name: place for place, name in enumerate(listed)}
    hosts = {
        quantity: _lines(job, mine, [places[names.host(row.metric["instance"])] for row in mine], len(listed))
        for quantity, mine in of_hosts.items()
    }
    return listed, hosts, np.nansum(_lines(job, of_site, range(len(of_site)), len(of_site)), axis=0)
