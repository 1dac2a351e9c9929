"""Readers of files that people write or keep: inventories, baselines, waivers, run folders, reports, the history."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import os
import tempfile
from functools import cache
from pathlib import Path

from fuzz import seeds
from fuzz.target import Target, refusals_allowed, text_of
from nodegate.baseline import baseline_file
from nodegate.files import strict_yaml
from nodegate.inventory import hostlist, inventory, listing, names, patterns
from nodegate.inventory.tree import Tree
from nodegate.judge.waivers import Waivers
from nodegate.past.keys import Keys
from nodegate.past.record import FleetRecord
from nodegate.records import results
from nodegate.records.manifest import MANIFEST, Manifest
from nodegate.records.run_folder import RunFolder
from nodegate.records.store import to_lines
from nodegate.report import json_file
from nodegate.run.conditions import read_earlier


@cache
def _scratch() -> Path:
    """A folder of this process's own, in memory where the machine has such a place."""
    memory = Path("/dev/shm")  # noqa: S108
    return Path(tempfile.mkdtemp(prefix=f"fuzz-{os.getpid()}-", dir=memory if memory.is_dir() else None))


def _file(name: str, data: bytes) -> Path:
    file = _scratch() / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data)
    return file


def _yaml(data: bytes) -> None:
    loaded = strict_yaml.load_file(_file("any.yaml", data))
    loaded.line(("a", "b"))


def _inventory(data: bytes) -> None:
    """An inventory on standard input: nothing in it may be run."""
    found = inventory.read(["-"], stdin=io.StringIO(text_of(data)), environ={})
    with refusals_allowed():
        list(found.nodes)
    for name in found.names[:3]:
        with refusals_allowed():
            found.select(name)
    with refusals_allowed():
        found.select("all:!x*:&a[01:99]")
    assert isinstance(found.groups, dict)  # noqa: S101


def _listing(data: bytes) -> None:
    """What ansible-inventory or a script printed."""
    tree = Tree()
    listing.read(listing.parse(text_of(data), "script"), "script", "/", tree)
    tree.settle()


def _node_names(data: bytes) -> None:
    """Host lists and --nodes patterns."""
    for text in text_of(data).split("\n")[:50]:
        with refusals_allowed():
            hostlist.fold(hostlist.expand(text))
        with refusals_allowed():
            patterns.select(text, ("gpu01", "gpu02", "login"), {"all": ("gpu01", "gpu02", "login"), "gpus": ("gpu01",)})
        with refusals_allowed():
            names.parse_entry(text)
        with refusals_allowed():
            names.check_node_name(text)


def _baseline(data: bytes) -> None:
    baseline_file.read(_file("baseline.yaml", data))


def _waivers(data: bytes) -> None:
    Waivers.read(_file("waivers.yaml", data), dt.date(2026, 11, 1)).check(
        checks={"pcie.link_width"}, claims={"rails"}, nodes={"gpu01", "gpu02"}
    )


def _history(data: bytes) -> None:
    found = FleetRecord(_file("fleet.sqlite", data), keeps=False)
    found.check()
    for values in found.known(Keys("gpu01"), ["GPU 0"], 2e9).values():
        assert all(isinstance(value, float) for value in values)  # noqa: S101


def _report(data: bytes) -> None:
    json_file.load(_file("report/report.json", data).parent)


def _results(data: bytes) -> None:
    """The lines of one node as a run writes them."""
    _file("results/results.jsonl.gz", gzip.compress(data))
    to_lines(results.read(_scratch() / "results"))


def _run(data: bytes) -> None:
    _file("run/run.json", data)
    (_scratch() / "run" / "evidence").mkdir(exist_ok=True)
    earlier = read_earlier(RunFolder.existing(_scratch() / "run"))
    with refusals_allowed():
        earlier.select("gpu*")


def _manifest(data: bytes) -> None:
    _file(f"listed/{MANIFEST}", data)
    (_scratch() / "listed" / "evidence").mkdir(exist_ok=True)
    for each in Manifest(_scratch() / "listed").odd_files():
        if not each.node or not {"\n", "\x1b"}.isdisjoint(str(each)):
            raise AssertionError(each)


TARGETS = {
    "files.yaml": Target(_yaml, seeds.yaml_files),
    # A few ranges stand for up to 100,000 names, each of which is read: some seconds, and never more.
    "files.inventory": Target(_inventory, seeds.inventories, slow_s=20.0),
    "files.listing": Target(_listing, seeds.listings, "json"),
    "files.node_names": Target(_node_names, seeds.node_names, slow_s=20.0),
    "files.baseline": Target(_baseline, seeds.baselines),
    "files.waivers": Target(_waivers, seeds.waivers),
    "files.history": Target(_history, seeds.histories),
    "files.report": Target(_report, seeds.reports, "json"),
    "files.results": Target(_results, seeds.results),
    "files.run": Target(_run, seeds.runs, "json"),
    "files.manifest": Target(_manifest, seeds.manifests),
}
