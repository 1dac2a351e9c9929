"""nodegate triage beside grep and ripgrep over the same job logs: the same patterns, and the same literal strings."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from bench.side_by_side.measured import NotMeasured, as_dict, measure
from bench.triage import LOGS, extended, write_log
from nodegate.knowledge.signatures import signatures
from nodegate.knowledge.words import Side
from nodegate.triage.scan import TRIGGERS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from bench.side_by_side.peers import Peers


class Logs:
    """Job logs of so many megabytes, read once before, so that no disk is measured."""

    def __init__(self, folder: Path, size_mb: int, peers: Peers) -> None:
        self._folder, self._peers = folder, peers
        size = size_mb * 1_000_000 // LOGS
        self._logs = [write_log(folder / f"rank_{number}.log", size, number) for number in range(LOGS)]
        self.megabytes = sum(log.stat().st_size for log in self._logs) / 1e6
        for log in self._logs:
            with log.open("rb") as file:
                while file.read(1 << 24):
                    pass
        known = [each.pattern.pattern for each in signatures() if each.side is Side.USER]
        self._strings = _lines(folder / "strings", TRIGGERS)
        self._patterns = _lines(folder / "patterns", map(extended, known))
        # ripgrep's engine does not look ahead, as one of the patterns does.
        self._for_ripgrep = _lines(folder / "for_ripgrep", [_rust(each) for each in known if "(?!" not in each])

    def ways(self) -> dict[str, list[object]]:
        """The commands, by name."""
        return {
            "nodegate triage": [sys.executable, "-m", "nodegate.cli", "triage"],
            "grep -F, the strings": ["grep", "-a", "-c", "-F", "-f", self._strings],
            "grep -E, the patterns": ["grep", "-a", "-c", "-E", "-f", self._patterns],
            "ripgrep -F, the strings": ["rg", "-a", "-c", "-j1", "-F", "-f", self._strings],
            "ripgrep, the patterns": ["rg", "-a", "-c", "-j1", "--regex-size-limit", "2G", "-f", self._for_ripgrep],
        }

    def read(self, way: str) -> dict[str, float]:
        """One pass over all logs."""
        words = self.ways()[way]
        if words[0] == "rg":
            words[0] = self._peers.system("rg")
        done = measure([*words, *self._logs], self._folder)
        error = "ValueError: Token IDs outside valid range" in done.said
        if ("triage" in way and not error) or (done.exit_code not in (0, 1)):
            raise NotMeasured(f"exit code {done.exit_code}: {done.said[-300:]}")
        return as_dict(done.cost) | {"mb_per_cpu_s": self.megabytes / done.cost.cpu_s}


def _lines(file: Path, lines: Iterable[str]) -> Path:
    file.write_text("\n".join(lines) + "\n")
    return file


def _rust(pattern: str) -> str:
    """A pattern without names of groups, which may be given once only over all patterns."""
    return re.sub(r"\(\?P<\w+>", "(?:", pattern).replace('\\"', '"')


LACKS = {
    "nodegate triage": "",
    "grep -F, the strings": "counts lines; no order in time, no rank, no cause",
    "grep -E, the patterns": "counts lines; no order in time, no rank, no cause",
    "ripgrep -F, the strings": "counts lines; one thread, as the others; no order in time, no rank, no cause",
    "ripgrep, the patterns": "counts lines; one thread, as the others; no order in time, no rank, no cause",
}
