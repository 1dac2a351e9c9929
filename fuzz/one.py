"""One process that fuzzes one target: what goes wrong is written down, once for each place, and the search goes on.

Started by `python -m fuzz`; needs the package atheris.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

from fuzz.mutate import json_mutator, text_mutator
from fuzz.table import targets
from fuzz.target import REFUSALS, SHORT_BYTES

if TYPE_CHECKING:
    from fuzz.target import Target

_MOST_OF_A_KIND = 1


class Watched:
    """A target whose faults are caught and kept."""

    def __init__(self, name: str, target: Target, folder: Path) -> None:
        self.name, self.target, self.folder = name, target, folder
        self.seen: dict[str, int] = {}

    def __call__(self, data: bytes) -> None:
        """Read one input."""
        started = time.process_time()
        try:
            self.target.run(data)
        except REFUSALS:
            pass
        except Exception as fault:  # noqa: BLE001 - that is what is looked for
            self._keep(_place(fault), data, traceback.format_exc())
        took = time.process_time() - started
        if took > self.target.slow_s and len(data) < SHORT_BYTES:
            self._keep("slow", data, f"{took:.1f} s for {len(data)} bytes, with atheris' counting\n")

    def _keep(self, kind: str, data: bytes, said: str) -> None:
        self.seen[kind] = self.seen.get(kind, 0) + 1
        if self.seen[kind] > _MOST_OF_A_KIND:
            return
        name = f"{self.name}-{kind}-{hashlib.sha256(data).hexdigest()[:8]}"
        (self.folder / f"{name}.input").write_bytes(data)
        (self.folder / f"{name}.txt").write_text(said, errors="backslashreplace")
        sys.stderr.write(f"FINDING {name}\n")


def _place(fault: BaseException) -> str:
    """The kind of a fault and the last place of ours in it."""
    ours = [frame for frame in traceback.extract_tb(fault.__traceback__) if "/nodegate/" in frame.filename]
    frame = ours[-1] if ours else traceback.extract_tb(fault.__traceback__)[-1]
    return f"{type(fault).__name__}-{Path(frame.filename).stem}-{frame.name}".replace("<", "").replace(">", "")


def main() -> None:
    """Started as: python -m fuzz.one MODULE TARGET FINDINGS libFuzzer's arguments ..."""
    (module, name, findings), arguments = sys.argv[1:4], sys.argv[4:]
    os.environ.setdefault("TZ", "UTC")
    atheris.enabled_hooks.add("str")  # not "RegEx": its patterns know no match(text, start)
    with atheris.instrument_imports(include=["nodegate", "yaml"]):
        target = targets(module)[name]  # what it imports is counted
    mutator = json_mutator if target.form == "json" else text_mutator
    watched = Watched(name, target, Path(findings))
    plain = lambda data, most: atheris.Mutate(data, most)  # noqa: E731, PLW0108 - it is another one after Fuzz()
    atheris.Setup([sys.argv[0], *arguments], watched, custom_mutator=mutator(plain))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
