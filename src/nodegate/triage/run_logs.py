"""The kernel logs in a run folder, with the index of each GPU."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nodegate.errors import CannotMeasure
from nodegate.facts import NodeFacts
from nodegate.files.gz import packed_path
from nodegate.probe.document import document_of
from nodegate.records.evidence import FACTS
from nodegate.records.run_folder import RunFolder
from nodegate.subjects.gpu import owners
from nodegate.triage.clock import Stamp
from nodegate.triage.events import Events, template
from nodegate.triage.kernel_log import kernel_event, which
from nodegate.triage.log import Log
from nodegate.triage.place import Place
from nodegate.triage.remarks import without_kernel_log
from nodegate.unknown import Unknown


def read_run(run: Path, events: Events) -> list[Log]:
    """The kernel logs of the nodes of a run folder, one per node; a node without one has a log with a note.

    Raises:
        UsageError: it is not a run folder.
    """
    folder = RunFolder.existing(run)
    return [_node(folder, path.name, events) for path in sorted((run / "evidence").iterdir()) if path.is_dir()]


def _node(folder: RunFolder, node: str, events: Events) -> Log:
    file = folder.evidence_file(node, FACTS)
    name = file if file.exists() or not packed_path(file).exists() else packed_path(file)
    log = Log(str(name), kernel=True, place=Place(node=node))
    evidence = folder.read_evidence(node)
    try:
        if evidence is None or evidence.document is None:
            raise (evidence and evidence.error) or CannotMeasure("no evidence", next_step="measure this node")
        facts = NodeFacts(document_of(evidence.document))
        lines = facts.kernel_log.lines
    except CannotMeasure as said:
        log.remarks.say(without_kernel_log(said.reason))
        return log
    for gpu in facts.known_gpus:
        if not isinstance(gpu.address, Unknown):
            events.names.gpu_at.setdefault((node, gpu.address), gpu.index)
        with suppress(CannotMeasure):  # whose its processes were when the node was looked at
            events.names.owners |= {(node, pid): owner for pid, owner in owners(gpu, facts.jobs).items()}
    log.lines, log.size_bytes = len(lines), sum(len(line.text) for line in lines)
    log.nodes.add(node)
    for number, line in enumerate(lines, 1):
        if event := kernel_event(line, log.place, log.name, number):
            stamp = None if isinstance(line.epoch_s, Unknown) else Stamp(line.epoch_s, zoned=True)
            key = (log.name, stamp and int(stamp.epoch_s // 60), event.kind.id, which(line.text), template(line.text))
            if not events.known(key):
                events.add(key, replace(event, stamp=stamp))
    return log
