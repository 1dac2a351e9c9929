"""`nodegate verify`: is this certificate that of this run folder, and is the folder as it was?"""

import argparse
import json
from pathlib import Path

from nodegate.certificate.verify import check_signature, read_paper, verify
from nodegate.errors import UsageError
from nodegate.text import visible

SCHEMA = "nodegate.verify/1"
EQUAL, DIFFERS = 0, 1  # 2, cannot tell, is any refusal's


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of the command."""
    option = command.add_argument
    option("paper", type=Path, metavar="PAPER", help="a certificate: the HTML file, or the PDF printed from it")
    option("run", type=Path, metavar="RUN", help="the run folder")
    option("--json", action="store_true", help=f"one object, {SCHEMA}")
    text = "an ssh-keygen -Y signature of the paper; needs --signers and --signer"
    option("--signature", type=Path, metavar="FILE", help=text)
    option("--signers", type=Path, metavar="FILE", help="who may sign: the allowed signers file of ssh-keygen")
    option("--signer", metavar="NAME", help="who has signed, as in the signers file")


def run(asked: argparse.Namespace) -> int:
    """Compare; 0 equal, 1 with each difference.

    Raises:
        UsageError: it is not a certificate, the run has no manifest, or one of both cannot be read.
    """
    given = (asked.signature, asked.signers, asked.signer)
    if any(given) and not all(given):
        raise UsageError("--signature, --signers and --signer go together")
    found = verify(read_paper(asked.paper), asked.run)
    differences = [*found.differences]
    if asked.signature and (trouble := check_signature(asked.paper, *given)):
        differences.append(f"the signature does not hold: {trouble}")
    differences = [visible(each) for each in differences]
    if asked.json:
        about = {"schema": SCHEMA, "run": found.run, "manifest_sha256": found.manifest_sha256, "nodes": found.nodes}
        about |= {"files": found.files, "equal": not differences, "differences": differences}
        print(json.dumps(about, ensure_ascii=False))
        return DIFFERS if differences else EQUAL
    for each in differences:
        print(each)
    if not differences:
        signed = f"; signed by {asked.signer}" if asked.signature else ""
        what = f"{found.nodes} nodes with verdicts and serial numbers, {found.files} files of evidence, the whole text"
        print(f"equal: run {found.run}, {what}{signed}")
    return DIFFERS if differences else EQUAL
