"""`nodegate report`: the reports of a run, written again."""

import argparse
import sys
from pathlib import Path

from nodegate.certificate import page as certificate
from nodegate.certificate.pdf import print_pdf
from nodegate.errors import UsageError
from nodegate.records.manifest import Manifest
from nodegate.report import xlsx_file
from nodegate.report.render import rerender
from nodegate.words.catalogue import LANGUAGES

MOST_NAMED = 10  # files whose change is said one by one


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    command.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    command.add_argument("--redact", action="store_true", help="leave out serials, addresses and user names")
    command.add_argument("--lang", choices=LANGUAGES, help="of the page (as in the run), and of --pdf (en)")
    command.add_argument("--all-results", action="store_true", help="write what is healthy in full too")
    command.add_argument("--xlsx", type=Path, metavar="FILE", help="write one workbook for Excel instead")
    command.add_argument("--pdf", type=Path, metavar="FILE", help="print the run's certificate instead (Chromium)")
    command.add_argument(
        "--to", type=Path, metavar="DIR", help="output folder (default: RUN; RUN-redacted with --redact)"
    )


def run(asked: argparse.Namespace) -> int:
    """Write the reports and print the place of the HTML page, and what of the evidence was changed.

    Raises:
        UsageError: the run cannot be read, or the reports cannot be written.
    """
    if asked.xlsx:
        if asked.redact:
            raise UsageError("--xlsx holds serials and names", hint="write it from the run that --redact wrote")
        xlsx_file.write(asked.run, asked.xlsx)
        print(asked.xlsx)
        return 0
    if asked.pdf:
        print_pdf(asked.run, asked.pdf, asked.lang or "en")
        print(asked.pdf)
        return 0
    manifest = Manifest(asked.run)
    odd = manifest.odd_files()
    given = {"redacted": asked.redact, "to": asked.to, "everything": asked.all_results, "lang": asked.lang or ""}
    folder, report, fleet = rerender(asked.run, **given)
    if not asked.redact:
        certificate.again(report, folder, fleet, rounds_of=asked.run)
    if not manifest.exists:
        print("note: this run has no manifest: changes to its evidence cannot be detected", file=sys.stderr)
    for each in odd[:MOST_NAMED]:
        print(f"note: {each}", file=sys.stderr)
    if len(odd) > MOST_NAMED:
        print(f"note: {len(odd) - MOST_NAMED} files more", file=sys.stderr)
    print(folder / "report.html")
    return 0
