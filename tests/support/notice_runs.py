"""Reports of made-up runs for notices: nodes with a fate each, and what a target is sent of them."""

import random
from dataclasses import replace

from support import remembered, sample_report

from nodegate.notices.tell import tell_run
from nodegate.past.record import FleetRecord
from nodegate.records.finding import Finding, Record
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.model import Report

DAY_S = 86400.0
HOSTILE = '<at user_id="all">x</at> [link](http://evil.example) *b* @all\n# head \x1b[2J & `code` ||spoiler||'


def report(day=0, *, finished=True, **fates):
    """The run of a day; nodes by name with their fate: good, slow, xid, lost, waived, busy, hostile, long."""
    nodes = [_node(name, fate) for name, fate in fates.items()]
    began = 1795248900.0 + day * DAY_S
    about = {"id": f"night-{day}", "profile": "nightly", "started_epoch_s": began, "finished_epoch_s": began + 300}
    return Report(sample_report.run(**about, interrupted=not finished), tuple(nodes))


def _node(name, fate):
    chance = random.Random(1)  # noqa: S311 - made up values
    made = sample_report.node(name, chance, "good" if fate in ("busy", "hostile", "long") else fate)
    if fate == "busy":
        records = tuple(sample_report.skipped(name, each.check, "busy") for each in made.records)
        return replace(made, records=records, verdict=NodeVerdict.NOT_JUDGED)
    if fate not in ("hostile", "long"):
        return made
    text, action = (HOSTILE, "look at <it>") if fate == "hostile" else ('错<&"' * 200, f"see {name}")
    said = Finding(sample_report.gpu(1, name), Verdict.FAIL, text=text, action=action)
    records = [each for each in made.records if each.check != "gpu.xid"]
    return replace(
        made, records=(*records, Record(name, "gpu.xid", Verdict.FAIL, (said,), ("F02",))), verdict=NodeVerdict.REJECTED
    )


def record(folder):
    """The file of a record that can be read."""
    file = folder / "fleet.sqlite"
    if not file.exists():
        remembered.keep(FleetRecord(file), "first", 0.0, {"gpu001": ()})
    return file


def told(folder, targets, made, lang="en", **more):
    """What `tell_run` returns of a report."""
    return tell_run(folder / made.run.id, targets, record(folder), lang, report=made, **more)
