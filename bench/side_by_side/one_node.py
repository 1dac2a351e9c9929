"""What runs on a node before each job: nodegate bootcheck beside LBNL NHC, beside a Python that does nothing.

All of it in front of the same made node with eight GPUs. What the probe's own reads cost is measured alone, with the
program that the bootcheck starts; the rest is the bootcheck's own overhead.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.side_by_side.measured import NotMeasured, Run, measure
from bench.side_by_side.tools import HOW_MANY, QUESTIONS
from nodegate.node_program import PYTHON_OPTIONS
from nodegate.probe.collect import program

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.side_by_side.peers import Peers

ROOT = Path(__file__).resolve().parents[2]
ONE_FILE = "bootcheck.pyz"
NHC_COMMIT = "9c4a38c"


def commands(folder: Path, variables: dict[str, str], peers: Peers, nhc: Path | None) -> dict[str, Callable[[], Run]]:
    """What is run, by name; `variables` put it in front of the node."""
    variables = {**variables, "XDG_CACHE_HOME": str(folder / "cache")}

    def plain(*words: object, expected: str = "") -> Callable[[], Run]:
        def run() -> Run:
            done = measure(words, folder, limit_s=60, **variables)
            if expected not in done.said:
                raise NotMeasured(f"it said: {done.said[-300:]}")
            return done

        return run

    probe = folder / "probe.py"
    probe.write_bytes(program())
    one_file = folder / ONE_FILE
    subprocess.run([sys.executable, str(ROOT / "deploy/one_file/build.py"), str(one_file)], check=True)
    bootcheck = ("-m", "nodegate.cli", "bootcheck")
    options = " ".join(PYTHON_OPTIONS)
    return {
        "python3 -c pass": plain("/usr/bin/python3", "-c", "pass"),
        "pytest --version": plain(peers.folder / "pytest", "--version", expected="pytest "),
        "the probe alone": plain("sh", "-c", f"exec {sys.executable} {options} - <{probe}"),
        "nodegate bootcheck": plain(sys.executable, *bootcheck, expected="fit: "),
        "bootcheck.pyz": plain(sys.executable, "-I", "-S", one_file, "bootcheck", expected="fit: "),
        "the questions alone": plain("sh", QUESTIONS, expected="ok xid"),
        "LBNL NHC": lambda: _nhc(folder, variables, nhc),
    }


def kept_folder(folder: Path) -> Path:
    """Where root's bootcheck.pyz was unpacked."""
    return Path("/run/nodegate", f"nodegate-{hashlib.sha256((folder / ONE_FILE).read_bytes()).hexdigest()[:32]}")


def _nhc(folder: Path, variables: dict[str, str], source: Path | None) -> Run:
    """NHC with the questions as one of its checks of commands, and two of its own."""
    if source is None:
        raise NotMeasured(f"give its source: --nhc FOLDER (github.com/mej/nhc, {NHC_COMMIT})")
    if not (source / "nhc").is_file():
        raise NotMeasured(f"{source} holds no nhc")
    place = folder / "nhc"
    place.mkdir(exist_ok=True)  # it has its own idea of where things are, and drops what the environment says
    words = [line.split()[1] for line in QUESTIONS.read_text().splitlines() if line.startswith("is ")]
    matches = " ".join(f"-m '/^ok {word} /'" for word in words)
    checks = ["check_hw_mem_free 1mb", "check_fs_mount_rw -f /", f"check_cmd_output -r 0 {matches} -e 'sh {QUESTIONS}'"]
    settings = ["export MARK_OFFLINE=0", f"export PATH={variables['PATH']}"]
    (place / "nhc.conf").write_text("".join(f"* || {line}\n" for line in [*settings, *checks]))
    if not (place / "scripts").exists():
        (place / "scripts").symlink_to((source / "scripts").resolve())
    done = measure(["bash", source / "nhc", "-D", place, "-l", "-", "-v"], folder, limit_s=60, **variables)
    said = done.said
    if done.exit_code or "ERROR" in said or said.count("Running check") < len(checks):
        raise NotMeasured(f"it did not pass the node: {said[-300:]}")
    return done


ABOUT = {
    "python3 -c pass": ("a Python that does nothing", ""),
    "pytest --version": ("pytest that does nothing", ""),
    "the probe alone": ("the reads of a bootcheck, by the program that it starts", "no verdict"),
    "nodegate bootcheck": ("reads and judges; one line, exit code", ""),
    "bootcheck.pyz": ("the same from one file, with no package installed", ""),
    "the questions alone": (
        f"{HOW_MANY} questions in a shell script",
        "no time limits, no lock, no limits",
    ),
    "LBNL NHC": (
        f"two checks of its own and the {HOW_MANY} questions as a check of a command",
        "no limits of a platform, no Xid table, no unknown apart from fail",
    ),
}
