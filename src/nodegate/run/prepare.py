"""From the user's options to a run that is ready to measure: everything is read, no node is contacted."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from nodegate.baseline.baseline import Baselines
from nodegate.demands.of_site import SiteDemands
from nodegate.errors import UsageError
from nodegate.files.text_file import Source
from nodegate.judge.waivers import Waivers, signed_gaps
from nodegate.measure.registry import COUNTERS, MEASURED, wanted
from nodegate.node import Node
from nodegate.past.record import FleetRecord
from nodegate.policy import policy_file
from nodegate.policy.policy import DEFAULT
from nodegate.profile import Profile
from nodegate.records.run import Contract
from nodegate.records.run_folder import RunFolder
from nodegate.run import conditions, earlier_folder
from nodegate.run.conditions import Earlier
from nodegate.run.holding import holders
from nodegate.run.judging import Judging
from nodegate.run.load import Connections, Plan
from nodegate.run.run_evidence import RunEvidence
from nodegate.run.settings import Settings
from nodegate.run.site_of_run import as_agreed, of_run, site_of
from nodegate.site.order import ordered
from nodegate.site.site_file import Site
from nodegate.subjects.order import check_orders
from nodegate.text import visible
from nodegate.toolbox.carried import Carried
from nodegate.toolbox.toolbox import Toolbox
from nodegate.transport import Options, connect
from nodegate.transport.session import Session

if TYPE_CHECKING:
    from nodegate.job.answer import Answer  # numpy


@dataclass(frozen=True)
class Prepared:
    """A run that is ready, and the files it uses.

    `settings` are complete: values from an earlier run instead of the command line are in them. `notes` are what the
    user should know before it starts, one line each.
    """

    judging: Judging
    inventory: tuple[Source, ...]
    settings: Settings
    notes: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()  # nodes of a resumed run that have another address than before
    evidence: str = ""  # where the evidence is from, if it is not this run's own
    carried: Carried | None = None  # the tools of --tools
    contract: Contract = field(default_factory=Contract)  # what the site file says of the acceptance

    def connect(self, node: Node) -> Session:
        """A session with a node, with the command line's settings; the node's own variables win.

        Raises:
            Unreachable: with the kind, and what to do about it.
        """
        return connect(node, self.options)

    @cached_property
    def options(self) -> Options:
        """How nodes are reached. One for the run: the connections to jump hosts are shared."""
        asked = self.settings
        return Options(
            host_keys=asked.host_keys,
            known_hosts=asked.known_hosts,
            ssh_config=asked.ssh_config,
        )

    def plan(self, asked_for: Iterable[str], *, judged_here: bool) -> Plan:
        """What is to be measured for checks that ask for these facts. `judged_here`: see `Plan`."""
        names = set(asked_for)
        profile = self.judging.profile
        return Plan(
            nodes=[self.judging.nodes[name] for name in self.judging.register.asked],
            durations=self.settings.durations(profile),
            measurements=wanted(names),
            facts_after=COUNTERS in names,
            take_lock=profile in (Profile.DELIVERY, Profile.NIGHTLY) or not MEASURED.isdisjoint(names),
            keep=self.settings.resume is not None,
            judged_here=judged_here,
            nodes_at_once=self.settings.nodes_at_once,
            holders=holders(self.judging.nodes.values()),
        )

    @property
    def connections(self) -> Connections:
        """How nodes are reached, and tools found on them."""
        return Connections(self.connect, lambda session: Toolbox(session, session.node, carried=self.carried))

    def metrics(self, folder: RunFolder) -> Answer | None:
        """What a troubleshoot's metrics say, before anything is measured: a load of ours would be in them.

        Raises:
            UsageError: they cannot be kept in the run folder.
        """
        settings = self.settings
        before = settings.replay or (settings.resume and folder.path)
        if self.judging.profile is not Profile.TROUBLESHOOT or (settings.metrics is None and before is None):
            return None
        from nodegate.run.metrics import look  # noqa: PLC0415 - numpy only where a server is asked

        return look(settings.metrics, RunFolder(before) if before else None, folder, self.judging.register.asked)


def prepare(settings: Settings, *, stdin: TextIO | None = None) -> Prepared:
    """Read inventory, baselines and waivers.

    Raises:
        UsageError: any of them is invalid.
    """
    settings.check()
    if settings.job_logs:
        from nodegate.triage.sources import find  # noqa: PLC0415 - with the tables of every log message

        find(settings.job_logs, ())
    before = settings.resume or settings.replay
    folder = RunFolder.existing(before) if before else None
    earlier, evidence = conditions.read_earlier(folder) if folder else None, ""
    if folder and earlier:
        earlier_folder.check_manifest(folder, earlier)
        evidence = earlier_folder.about_evidence(folder, earlier, resumed=bool(settings.resume))
        if settings.resume:
            earlier_folder.check_place(folder, earlier, inventory=not settings.inventory, tools=not settings.tools)
    settings = _as_before(settings, earlier)
    nodes, sources, notes, others, site = _nodes(settings, earlier, stdin)
    moved = earlier_folder.moved(earlier, nodes) if earlier and settings.resume else ()
    settings, contract = of_run(settings, site, earlier)
    policy = policy_file.read(settings.policy or DEFAULT)
    settings, agreed = as_agreed(settings, policy.limits, nodes)
    baselines = Baselines.read(settings.baselines, settings.checks, policy.limits)
    baselines.check_expected(nodes)
    check_orders(nodes)
    today = dt.datetime.now(tz=dt.timezone.utc).date()
    waivers = Waivers.read(settings.waivers, today) if settings.waivers else Waivers((), today)
    waivers = replace(waivers, waivers=(*waivers.waivers, *signed_gaps(nodes)))
    carried = None if settings.replay else _tools(settings, nodes)
    past = FleetRecord(settings.record, keeps=not settings.replay)
    past.check()
    judging = Judging(
        {node.name: node for node in nodes},
        settings.profile or Profile.DELIVERY,
        baselines,
        waivers,
        RunEvidence(folder if settings.resume else None),
        past=past,
        before_epoch_s=earlier.run.started_epoch_s if earlier else math.inf,
        others=others,
        policy=policy.policy,
        names_policy=bool(settings.policy),
        asked=SiteDemands.read(settings.baselines, settings.policy),
    )
    notes = (*notes, *agreed, *waivers.run_out(), *earlier_folder.moved_note(moved))
    return Prepared(judging, sources, settings, notes, moved, evidence, carried, contract)


def attach(settings: Settings, run_dir: Path) -> Prepared:
    """The same run in another process: nodes and evidence come from its folder.

    Raises:
        UsageError: the folder has no run.
    """
    policy = conditions.read(RunFolder(run_dir)).asked.policy  # of a site file, the command line has none
    options = {"inventory": (), "nodes": "", "profile": None, "resume": None, "site": None, "policy": policy}
    prepared = prepare(replace(settings, replay=run_dir, **options))  # type: ignore[arg-type]
    prepared.judging.evidence.folder = RunFolder(run_dir)
    prepared.judging.evidence.attached = True
    return prepared


def _as_before(settings: Settings, earlier: Earlier | None) -> Settings:
    """The settings, with the earlier run's values where the command line has none."""
    if earlier is None:
        return settings
    load = settings.load if settings.load is not None else not earlier.asked.passive
    settings = replace(settings, profile=settings.profile or earlier.profile, load=load)
    settings = replace(
        settings,
        burn=settings.burn or earlier.asked.burn,
        hang_after=settings.hang_after or earlier.asked.hang_after,
        pairs=settings.pairs or earlier.asked.pairs,
    )
    if not settings.resume:
        return settings
    if not settings.inventory and (not earlier.asked.inventory or "-" in earlier.asked.inventory):
        hint = "run folders store no credentials or SSH settings"
        raise UsageError("--resume needs the inventory again: add --inventory", file=earlier.file, hint=hint)
    if earlier.asked.policy and not settings.policy:  # a folder of anyone does not choose what must hold
        said = f"this run has a policy: add --policy {visible(earlier.asked.policy)}"
        raise UsageError(said, file=earlier.file, hint="or --policy default")
    return replace(
        settings,
        inventory=settings.inventory or earlier.asked.inventory,
        nodes=settings.nodes or earlier.asked.nodes,
        tools=settings.tools or earlier.tools,
    )


def _nodes(
    settings: Settings, earlier: Earlier | None, stdin: TextIO | None
) -> tuple[list[Node], tuple[Source, ...], tuple[str, ...], tuple[str, ...], Site | None]:
    """The nodes of the run, the files that name them, notes, the other names of the inventory, and the site file."""
    if earlier and not settings.inventory:
        nodes = list(earlier.select(settings.nodes))
        names = (*(node.name for node in earlier.nodes), *earlier.run.other_names)
        return nodes, (), (), _others(names, nodes), site_of(settings, nodes)
    from nodegate.inventory import inventory  # noqa: PLC0415

    read = inventory.read(settings.inventory, stdin=stdin)
    nodes = list(read.select(settings.nodes) if settings.nodes else read.nodes)
    if site := site_of(settings, nodes):
        nodes = list(ordered(nodes, site, read.groups))
    if settings.replay:
        where = str(settings.replay / "evidence")
        nodes = [
            replace(node, connection=replace(node.connection, transport="replay", recordings=where)) for node in nodes
        ]
    notes = [*read.notes, *(earlier_folder.differences(earlier, nodes) if earlier else ())]
    return nodes, tuple(read.sources), tuple(notes), _others(read.names, nodes), site


def _others(names: Iterable[str], nodes: Iterable[Node]) -> tuple[str, ...]:
    measured = {node.name for node in nodes}
    return tuple(name for name in names if name not in measured)


def _tools(settings: Settings, nodes: Iterable[Node]) -> Carried | None:
    """The tools of --tools; settings of tools and launches that are invalid are refused before a node is contacted."""
    from nodegate.measure.groups.settings import launch_settings  # noqa: PLC0415
    from nodegate.measure.rdma.rails import traffic_of  # noqa: PLC0415
    from nodegate.toolbox.settings import tool_settings  # noqa: PLC0415

    carried = Carried(settings.tools) if settings.tools else None
    for node in nodes:
        tool_settings(node)
        launch_settings(node)
        traffic_of(node)
    return carried
