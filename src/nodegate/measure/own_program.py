"""nodegate's own programs for load (node_side/load): how they are run, and what their documents have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from nodegate.errors import CannotMeasure, Unreachable, tried
from nodegate.measure.measurement import Target
from nodegate.measure.program_run import not_run, reason, run
from nodegate.node_program import PYTHON_OPTIONS, pack
from nodegate.probe import readings as read
from nodegate.probe.gpu import Gpu, Gpus
from nodegate.records.part import Part, named
from nodegate.records.program_run import Attempt, Plan, ProgramRun
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, value_or
from nodegate.wire import Wire

PACKAGES = ("nodegate.node_side.load", "nodegate.node_side.probe", "nodegate.node_side.seats")


@dataclass(frozen=True)
class MeasuredGpu:
    """A GPU in the document of such a program. `error` is what went wrong on it; what it did before that stays."""

    index: int
    address: Known[str]
    name: Known[str]
    error: str

    @property
    def device(self) -> str:
        """The part of the node: the same name on every node."""
        return f"GPU {self.index}"

    @property
    def part(self) -> Part:
        """The GPU as a part."""
        return replace(named(self.device), pci=value_or(self.address, ""))


G = TypeVar("G", bound=MeasuredGpu)
D = TypeVar("D")


def program(name: str, *, options: Mapping[str, object], purpose: str) -> bytes:
    """The program "burn" or "copies" as it goes to a node; its `purpose` is its first line there."""
    return pack(main=f"{PACKAGES[0]}.{name}", packages=PACKAGES, options=options, purpose=purpose)


def run_own(target: Target, name: str, *, options: Mapping[str, object], purpose: str, timeout_s: float) -> ProgramRun:
    """Run one of them. Raises Unreachable: the connection broke."""
    argv = [target.node.connection.python, *PYTHON_OPTIONS, "-"]
    return run(target.session, name, argv, timeout_s=timeout_s, stdin=program(name, options=options, purpose=purpose))


def read_attempts(
    attempts: Sequence[Attempt], read_own: Callable[[ProgramRun], D], *, beside: str, nothing: CannotMeasure
) -> tuple[list[D], list[CannotMeasure], list[ProgramRun]]:
    """The documents in the attempts on one node, why others have none, and the runs of the program beside ours.

    Raises:
        CannotMeasure: there is no document; the last reason, `nothing` if there was no attempt.
    """
    found: list[D] = []
    failed: list[CannotMeasure] = []
    others: list[ProgramRun] = []
    for attempt in attempts:
        failed += [reason(attempt)] if attempt.cannot else []
        for ran in attempt.runs:
            if ran.what.startswith(beside):
                others.append(ran)
                continue
            try:
                found.append(read_own(ran))
            except CannotMeasure as why:
                failed.append(why)
    if not found:
        raise failed[-1] if failed else nothing
    return found, failed, others


def run_another(
    target: Target,
    name: str,
    modes: Mapping[str, Sequence[str]],
    *,
    before: Sequence[str],
    timeout_s: float,
    shortened: Callable[[str], str] | None = None,
) -> Sequence[ProgramRun]:
    """Run the program of others, if it is installed, once in each of its modes: the name of each, and its options.

    `before` precedes it unless a container runs it, `shortened` gives what of its output is kept. A run that does not
    end is the last.
    """
    try:
        if name not in target.tools.has([name]):
            return ()
        tool = target.tools.find(name)
    except CannotMeasure as why:
        return (not_run(name, why),)
    done: list[ProgramRun] = []
    for mode, options in modes.items():
        argv = [*(before if len(tool.argv) == 1 else ()), *tool.argv, *options]
        plan = Plan(mode=mode, origin=tool.origin)
        try:
            done.append(run(target.session, name, argv, timeout_s=timeout_s, plan=plan, shortened=shortened))
        except Unreachable as why:
            return [*done, not_run(name, why, plan)]
        if done[-1].timed_out or done[-1].stuck:
            break
    return done


def by_another(
    ran: ProgramRun, parse: Callable[[str, str], D], unended: Callable[[ProgramRun], CannotMeasure | None]
) -> D | CannotMeasure:
    """What the program of others beside ours gave, or why it gave nothing."""
    if ran.cannot:
        return reason(ran)
    why = unended(ran)
    return tried(lambda: parse(ran.stdout, ran.stderr)) if why is None else why


def rate(data: Mapping[str, object], key: str, most: float, unit: str) -> Known[float]:
    """A rate that can be: above 0, and below what any GPU reaches."""
    found = read.number(data, key)
    return found if isinstance(found, Unknown) or 0 < found < most else read.wrong(f"a rate in {unit}", found)


def checked_document(wire: Wire, written: str, *, named: str, undone: str, refused_step: str) -> Mapping[str, object]:
    """The document in what a program printed, or in plain JSON.

    `named` is the document's name in a message, `undone` what was not done if the program refused to start, with the
    next step.

    Raises:
        CannotMeasure: it is damaged, too large, of another format, or says why nothing was started.
    """
    data = read.record(wire.json(written))
    if isinstance(data, Unknown) or data.get("schema") != wire.schema:
        seen = data if isinstance(data, Unknown) else shown(data.get("schema"))
        raise CannotMeasure(f"{named} is {seen}, expected {wire.schema}", next_step=wire.next_step)
    refused = value_or(read.text(data, "refused"), "")
    if refused:
        raise CannotMeasure(f"{undone}: {refused}", next_step=refused_step)
    return data


def gpu_filled(kind: type[G], position: int, data: Mapping[str, object], /, **own: object) -> G:
    """A GPU of a document; what is not in `own` is read by the names of its fields."""
    index = value_or(read.integer(data, "index"), -1)
    return read.filled(
        kind,
        data,
        index=index if 0 <= index < read.MAX_ITEMS else position,
        address=read.mapped(read.text(data, "pci"), read.address_in),
        **own,
    )


def by_index(gpus: Iterable[G]) -> Mapping[int, tuple[G, ...]]:
    """What each GPU did in each attempt, by its NVML index."""
    found: dict[int, tuple[G, ...]] = {}
    for gpu in gpus:
        found[gpu.index] = (*found.get(gpu.index, ()), gpu)
    return dict(sorted(found.items()))


def facts_by_index(gpus: Gpus, measured: Mapping[int, Sequence[MeasuredGpu]]) -> Mapping[int, Gpu]:
    """What the probe saw of each GPU, by the index under which it was measured: by address, else by that index."""
    by_address = {gpu.address: gpu for gpu in gpus.devices if not isinstance(gpu.address, Unknown)}
    by_number = {gpu.index: gpu for gpu in gpus.devices}
    of_first = ((index, several[0].address) for index, several in measured.items())
    found = ((at, by_number.get(at) if isinstance(own, Unknown) else by_address.get(own)) for at, own in of_first)
    return {index: gpu for index, gpu in found if gpu is not None}
