"""From the user's options to a run that is ready to measure: everything is read, nothing is contacted."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from nodegate import conditions
from nodegate.acceptance import Acceptance
from nodegate.evidence import RunFolder
from nodegate.inventory.hostlist import expand
from nodegate.judge.baseline import Baselines
from nodegate.judge.waivers import Waivers
from nodegate.report.model import Source

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from nodegate.node import Node
    from nodegate.settings import Settings
    from nodegate.transport import Options
    from nodegate.transport.session import Session


@dataclass(frozen=True)
class Prepared:
    """A run that is ready, and the files it rests on."""

    acceptance: Acceptance
    inventory: tuple[Source, ...]
    settings: Settings

    def connect(self, node: Node) -> Session:
        """A session with a node, as the command line wants it; the node's own variables win.

        Raises:
            Unreachable: with the kind, and what to do about it.
        """
        from nodegate.transport import connect  # noqa: PLC0415 - paramiko only where a node is contacted

        return connect(node, self._options)

    @cached_property
    def _options(self) -> Options:
        """One for the run: the connections to jump hosts are shared."""
        from nodegate.transport import Options  # noqa: PLC0415

        asked = self.settings
        return Options(host_keys=asked.host_keys, known_hosts=asked.known_hosts, ssh_config=asked.ssh_config)

    @property
    def keeps_evidence(self) -> bool:
        """Whether evidence that the folder holds is taken as it is (a resumed run)."""
        return self.settings.resume is not None


def prepare(settings: Settings, *, stdin: TextIO | None = None) -> Prepared:
    """Read inventory, baselines and waivers.

    Raises:
        UsageError: any of them is not as it should be.
    """
    nodes, sources = _nodes(settings, stdin)
    baselines = Baselines.read(settings.baselines)
    baselines.check_expected(nodes)
    today = dt.datetime.now(tz=dt.timezone.utc).date()
    waivers = Waivers.read(settings.waivers, today) if settings.waivers else Waivers((), today)
    folder = RunFolder.existing(settings.resume) if settings.resume else None
    acceptance = Acceptance({node.name: node for node in nodes}, settings.profile, baselines, waivers, folder)
    return Prepared(acceptance, sources, settings)


def attach(settings: Settings, run_dir: Path) -> Prepared:
    """The same run in another process: nodes and evidence come from its folder.

    Raises:
        UsageError: the folder holds no run.
    """
    prepared = prepare(replace(settings, inventory=(), nodes="", replay=run_dir, resume=None))
    prepared.acceptance.folder = RunFolder.existing(run_dir)
    prepared.acceptance.attached = True
    return prepared


def _nodes(settings: Settings, stdin: TextIO | None) -> tuple[list[Node], tuple[Source, ...]]:
    earlier = settings.replay or (settings.resume if not settings.inventory else None)
    if not settings.inventory and earlier:
        run = RunFolder.existing(earlier).read_json("run.json")
        file = str(earlier / "run.json")
        nodes = conditions.nodes_from_json(run, file=file, recordings=earlier / "evidence")
        wanted = set(expand(settings.nodes)) if settings.nodes else {node.name for node in nodes}
        return [node for node in nodes if node.name in wanted], ()
    from nodegate import inventory  # noqa: PLC0415

    read = inventory.read(settings.inventory, stdin=stdin)
    nodes = list(read.select(settings.nodes) if settings.nodes else read.nodes)
    if settings.replay:
        nodes = [_replayed(node, settings.replay) for node in nodes]
    return nodes, tuple(Source(source.file, source.sha256) for source in read.sources)


def _replayed(node: Node, run: Path) -> Node:
    return replace(node, connection=replace(node.connection, transport="replay", recordings=str(run / "evidence")))
