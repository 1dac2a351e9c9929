"""Where a log line comes from: rank, node and GPU, by its prefix, its text, or the name of its file."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from re import Match

_MOST_PREFIXES = 8
_COLOUR = r"(?:\x1b\[[0-9;]{0,8}m)?"
_HOST = r"[A-Za-z0-9](?:[\w-]{0,62})(?:\.[A-Za-z0-9-]{1,63}){0,6}"
_TIME = (
    r"[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?: ?Z|[+-][0-9]{2}:?[0-9]{2})?"
)
# What can be before the text, one after the other, in any order and number.
_PREFIX = re.compile(
    r"(?P<mpi>\[[0-9]{1,6},(?P<mpi_rank>[0-9]{1,7})\]<std(?:out|err|diag)>: ?)"
    r"|(?P<tagged>\[rank(?P<rank>[0-9]{1,7})\]:? ?)"
    r"|(?P<default>\[(?:default|local[_ ]?rank ?)(?P<local>[0-9]{1,4})\]:? ?)"
    r"|(?P<numbered> {0,6}(?P<task>[0-9]{1,7}): ?)"
    rf"|(?P<time>\[?{_TIME}\]? (?=\S))"
    r"|(?P<cri>std(?:out|err) [FP] )"
    rf"|(?P<pod>\[pod/(?P<pod_name>{_HOST})(?:/[\w.-]{{1,100}})?\] )"
    rf"|(?P<ray>{_COLOUR}\([\w.]{{0,60}} ?pid=[0-9]{{1,10}}(?:, ip=(?P<ray_ip>[0-9a-f.:]{{3,45}}))?\){_COLOUR} )"
    r"|(?P<pdsh>(?P<pdsh_node>[a-z][a-z0-9]{0,30}(?:-[a-zA-Z0-9]{1,30}){0,6}(?:\.[a-z0-9-]{1,63}){0,6}): (?=\S))"
)
_NCCL = re.compile(rf"(?P<host>{_HOST}):(?P<pid>[0-9]{{1,10}}):(?P<tid>[0-9]{{1,10}}) \[(?P<gpu>[0-9]{{1,3}})\] ")
_NODE_FAILURE = re.compile(rf"error: Node failure on (?P<node>{_HOST})")
_MEGATRON = re.compile(rf"\bRank (?P<rank>[0-9]{{1,7}}),(?: node (?P<node>{_HOST}),)? device (?P<gpu>[0-9]{{1,3}})\b")
_IN_BRACKETS = re.compile(r"\[(?:PG[^\]\n]{0,120} )?[Rr]ank (?P<rank>[0-9]{1,7})\]")
_CAPACITY = re.compile(r"\bGPU (?P<gpu>[0-9]{1,3}) has a total capacity")
_SRUN = re.compile(rf"srun: error: (?P<node>{_HOST}): tasks? (?P<rank>[0-9]{{1,7}})")
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])rank[-_.=]?([0-9]{1,7})(?![0-9])", re.IGNORECASE)
_TORCHRUN = re.compile(r"attempt_[0-9]{1,4}/(?P<local>[0-9]{1,4})/std(?:out|err)")
_BARE_NUMBER = re.compile(r"(?:^|/)([0-9]{1,5})\.(?:out|err|log|txt|std(?:out|err))(?:\.|$)")
_NODE_TOKEN = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*", re.IGNORECASE)
# In the name of a log only what can hardly be anything else counts as a node: gpu7, node-3, or two digits at the end.
_NODE_NAME = re.compile(
    r"(?:.*-)?(?:gpu|node|host|compute|dgx|hgx|worker)-?[0-9]{1,6}|.*[a-z-][0-9]{2,6}", re.IGNORECASE
)
_NO_NODE = re.compile(
    r"(?:global|local)?-?(?:rank|task|job|slurm|attempt|run|logs?|part|iter|epoch|step|proc|std|out|err|tmp|test|exp)"
    r"-?[0-9-]*$|[a-z]-?[0-9-]*$|.*(?:[avbh][0-9]{2,3}|gb[0-9]{3}|bf16|fp[0-9]+|llama-?[0-9]*|gpt-?[0-9]*)$",
    re.IGNORECASE,
)
_NO_HOST = re.compile(
    r"(?:rank|epoch|step|iter|cuda|layer|loss|line|gpu|hip|ep|it|mlx|eth|ib|worker|stage|phase)[0-9]?$"
)


@dataclass(frozen=True)
class Place:
    """Where a line comes from; unknown values are None or "". `text` is the line without its prefixes."""

    rank: int | None = None
    local_rank: int | None = None
    node: str = ""
    gpu: int | None = None
    text: str = ""

    def or_else(self, other: Place) -> Place:
        """This place, with missing values taken from the other."""
        return Place(
            rank=other.rank if self.rank is None else self.rank,
            local_rank=other.local_rank if self.local_rank is None else self.local_rank,
            node=self.node or other.node,
            gpu=other.gpu if self.gpu is None else self.gpu,
            text=self.text or other.text,
        )


def of_line(line: str) -> Place:
    """The place that the line itself names."""
    place, at = Place(), 0
    for _ in range(_MOST_PREFIXES):
        match = _PREFIX.match(line, at)
        if match is None or (match["pdsh"] and not _is_host(match["pdsh_node"])):
            break
        place, at = place.or_else(_of_prefix(match)), match.end()
    text = line[at:]
    return replace(place.or_else(_of_text(text[:1000])), text=text)


def _of_prefix(match: Match[str]) -> Place:
    rank = match["mpi_rank"] or match["rank"] or match["task"]
    local = match["local"]
    return Place(
        rank=int(rank) if rank else None,
        local_rank=int(local) if local else None,
        node=match["pod_name"] or match["ray_ip"] or match["pdsh_node"] or "",
    )


def _is_host(name: str) -> bool:
    return any(letter in "0123456789" for letter in name) and not _NO_HOST.match(name)


def _of_text(text: str) -> Place:
    if match := _NCCL.search(text):
        return Place(node=match["host"], gpu=int(match["gpu"]))
    if match := _MEGATRON.search(text):
        return Place(rank=int(match["rank"]), node=match["node"] or "", gpu=int(match["gpu"]))
    if match := _NODE_FAILURE.search(text):
        return Place(node=match["node"])
    if match := _SRUN.search(text):
        return Place(rank=int(match["rank"]), node=match["node"])
    gpu = _CAPACITY.search(text)
    bracket = _IN_BRACKETS.search(text)
    return Place(rank=int(bracket["rank"]) if bracket else None, gpu=int(gpu["gpu"]) if gpu else None)


def of_path(name: str) -> Place:
    """The place that the name of a log gives: `gpu007/rank_12.log`, `attempt_0/3/stderr.log`, `12.out`."""
    near = "/".join(name.split("/")[-4:])
    last = "/".join(name.split("/")[-2:])
    local = _TORCHRUN.search(near)
    rank = _RANK_IN_NAME.search(last) or (None if local else _BARE_NUMBER.search(last))
    return Place(
        rank=int(rank[1]) if rank else None,
        local_rank=int(local["local"]) if local else None,
        node=_node_of_path(last),
    )


def _node_of_path(path: str) -> str:
    """The part of the path that looks like a host name; the last one of several."""
    found = ""
    for token in re.split(r"[/_.=+@,:\s]+", path):
        name = re.sub(r"^(?:dmesg|kern|kernel|journal|syslog|messages)-", "", token)
        if _NODE_TOKEN.fullmatch(name) and _NODE_NAME.fullmatch(name) and not _NO_NODE.match(name):
            found = name
    return found
