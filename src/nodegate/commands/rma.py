"""`nodegate rma`: one archive about a node or a part, for its vendor."""

import argparse
import re
from pathlib import Path

from nodegate.commands.record_option import add_record
from nodegate.records.run_folder import RunFolder
from nodegate.report.json_file import load
from nodegate.rma import archive
from nodegate.rma.clean import Clean
from nodegate.rma.contents import contents
from nodegate.rma.subject import subject
from nodegate.run.conditions import read_earlier

_LATEST = Path("reports") / "latest"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    option = command.add_argument
    option("wanted", metavar="NODE|SERIAL", help="a node of the run, or the serial number of a part of one")
    option("--run", type=Path, default=_LATEST, metavar="RUN", help="the run folder (default %(default)s)")
    option("--to", type=Path, metavar="FILE", help="the archive (default rma-NODE-RUN.tar.gz); never overwritten")
    text = "an nvidia-bug-report.log.gz of the node; one beside its evidence is taken by itself"
    option("--bug-report", type=Path, metavar="FILE", help=text)
    option("--redact", action="store_true", help="leave out addresses, user names, serials of what did not fail")
    add_record(command)


def run(asked: argparse.Namespace) -> int:
    """Write the archive, and print its name and what a vendor will ask for that is not in it.

    Raises:
        UsageError: the run or the record cannot be read, the run has no such node or part, or the archive is there.
    """
    home = _LATEST if str(asked.run) == "latest" else asked.run
    report, folder = load(home), RunFolder(home)
    about, earlier = subject(report, asked.wanted), read_earlier(folder)
    others = [name for node in earlier.nodes if node.name != about.name for name in (node.name, node.address)]
    others += [*earlier.run.other_names, *(node.node for node in report.nodes)]
    clean = Clean(about, others, redacted=asked.redact)
    found = contents(about, folder, clean, asked.record, asked.bug_report, redacted=asked.redact)
    found.files[archive.README] = archive.readme(about, found, clean, redacted=asked.redact)
    root = re.sub(r"[^A-Za-z0-9_.-]+", "-", clean.text(f"rma-{about.name}-{report.run.id}"))[:200]
    to = asked.to or Path(f"{root}.tar.gz")
    archive.write_new(to, archive.pack(found.files, root, report.run.finished_epoch_s))
    print(to)
    for what, files, otherwise in archive.ASKED_FOR:
        if not any(name in found.files for name in files):
            print(f"not in it: {what} - {otherwise}")
    return 0
