"""The nodes of one measurement over groups: prepared, kept clean, launched in rounds that share no node."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.measure.groups import launch as launching
from nodegate.measure.groups.group_node import GroupNode, prepare
from nodegate.measure.groups.launch import Launch
from nodegate.measure.groups.plan import Group, waves
from nodegate.measure.groups.result import GroupRun, read
from nodegate.measure.measurement import Pool, Runs, Target
from nodegate.measure.program_run import not_begun, not_run
from nodegate.records.program_run import Attempt, LaunchNotes, ProgramRun
from nodegate.transport.call import Call

if TYPE_CHECKING:
    from typing_extensions import Self

KEPT_S = 24 * 3600.0  # the longest life of the keeper on a node


class LaunchSession:
    """A context manager: at its end nothing is left on any node.

    `members` are the nodes that can take part, in the order of the inventory.
    """

    def __init__(self, targets: Sequence[Target], pool: Pool) -> None:
        self.members: dict[str, GroupNode] = {}
        self._sites, self._pool = targets, pool
        self._mark = f"nodegate-launch-{secrets.token_hex(8)}"
        self._launched = 0
        self._keepers: dict[str, Call] = {}
        self._begun = {target.node.name: Attempt(node=target.node.name) for target in targets}
        self._found: dict[str, list[ProgramRun]] = {name: [] for name in self._begun}
        self._places: defaultdict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)

    def __enter__(self) -> Self:
        made = self._pool.at_once({target.node.name: partial(self._made_ready, target) for target in self._sites})
        for name, member in made.items():
            if isinstance(member, CannotMeasure):
                self._begun[name] = replace(not_begun(member), node=name)
            else:
                self.members[name] = member
                if member.hostname != name:
                    self._begun[name] = Attempt(node=name, hostname=member.hostname)
        return self

    def __exit__(self, *_: object) -> None:
        """End the keepers, each of which ends the processes with its mark; all at once, because each takes a moment."""
        keepers, self._keepers = self._keepers, {}
        stops = {name: keeper.stop for name, keeper in keepers.items()}
        if stops and not self._pool.cancelled:  # otherwise their sessions end, and they with them
            self._pool.at_once(stops)  # one that is lost ends by itself

    @property
    def runs(self) -> Runs:
        """What every node keeps."""
        return {name: replace(self._begun[name], runs=tuple(rans)) for name, rans in self._found.items()}

    def pools(self) -> list[list[GroupNode]]:
        """The nodes that can be launched together: the same number of GPUs of one model, the program under one path."""
        found: defaultdict[tuple[object, ...], list[GroupNode]] = defaultdict(list)
        for member in self.members.values():
            found[member.pool].append(member)
        return list(found.values())

    def note_alone(self, node: str, why: str) -> None:
        """Note why a node has no other one to be launched with."""
        self._begun[node] = replace(self._begun[node], alone=why)

    def launch(self, groups: Sequence[Group], launch: Launch) -> dict[Group, GroupRun]:
        """Launch these groups, at the same time if they share no node; each node keeps the output of its groups."""
        found: dict[Group, GroupRun] = {}
        for wave in waves(groups):
            found |= self._wave(wave, launch)
        return found

    def note(self, group: Group, what: str, noted: Callable[[LaunchNotes], LaunchNotes], node: str = "") -> None:
        """Add to the notes of a launch, on one of its nodes or on each."""
        for name, place in self._places[group.name, what]:
            if node in {"", name}:
                ran = self._found[name][place]
                self._found[name][place] = replace(ran, launch=noted(ran.launch))

    def _wave(self, wave: Sequence[Group], launch: Launch) -> dict[Group, GroupRun]:
        # Each has the mark of the run, by which a keeper finds all processes, and a number of its own.
        marks = {group.name: f"{self._mark}-{self._launched + place}-" for place, group in enumerate(wave, 1)}
        self._launched += len(wave)
        run_group = partial(launching.run_group, launch)
        jobs = {each.name: partial(run_group, each, self._of(each), marks[each.name]) for each in wave}
        done = self._pool.at_once(jobs)
        found: dict[Group, GroupRun] = {}
        bad: list[tuple[Target, str]] = []
        for group in wave:
            ran = done[group.name]
            if isinstance(ran, CannotMeasure):
                ran = not_run(launch.collective, ran, launching.plan_of(launch, group, self._of(group)))
            found[group] = read(ran)
            self._places.pop((group.name, ran.what), None)
            for name in group.nodes:
                self._places[group.name, ran.what].append((name, len(self._found[name])))
                self._found[name].append(launching.for_node(ran, name))
            if ran.exit_code != 0 and not ran.cannot:
                bad += [(member.target, marks[group.name]) for member in self._of(group)]
        self._sweep(bad, wave, launch.collective)
        return found

    def _sweep(self, bad: Sequence[tuple[Target, str]], wave: Sequence[Group], what: str) -> None:
        """Clean up if a launch did not end by itself; what cannot be ended is reported on its node."""
        if not bad:
            return
        jobs = {target.node.name: partial(launching.sweep_node, target, mark) for target, mark in bad}
        done = self._pool.at_once(jobs)
        for group in wave:
            for name, place in self._places[group.name, what]:
                stuck = done.get(name)
                if stuck and not isinstance(stuck, CannotMeasure):
                    self._found[name][place] = launching.for_node(self._found[name][place], name, stuck)

    def _of(self, group: Group) -> list[GroupNode]:
        return [self.members[name] for name in group.nodes]

    def _made_ready(self, target: Target) -> GroupNode:
        member, name = prepare(target), target.node.name
        request = launching.keep_request(self._mark, stay=True)
        self._keepers[name] = target.session.start(launching.keep_argv(target), timeout_s=KEPT_S, stdin=request)
        if self._keepers[name].line().strip() != "kept":
            reason = f"{name}: the keeper for launches did not start"
            raise CannotMeasure(reason, next_step="check that its python3 works")
        return member
