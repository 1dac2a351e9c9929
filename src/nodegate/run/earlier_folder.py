"""The folder of an earlier run, before it is used: what in it is not as that run left it, and what it must not name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.inventory.hostlist import fold
from nodegate.node import Node
from nodegate.records.manifest import MANIFEST, OddFile
from nodegate.records.run_folder import EVIDENCE, RunFolder
from nodegate.run.conditions import Earlier
from nodegate.text import some, visible

MOST_NAMED = 3
_NO_MANIFEST = "what was changed in it before is not known"
_LONGEST = 500


def check_manifest(folder: RunFolder, earlier: Earlier) -> None:
    """Refuse a run whose manifest was taken away.

    Raises:
        UsageError: it has none, although it wrote one.
    """
    if earlier.run.manifest and not folder.manifest.exists:
        hint = "put it back, or measure again in a new run: without it what was changed is not known"
        raise UsageError("the manifest of this run is gone", file=str(folder.path / MANIFEST), hint=hint)


def check_place(folder: RunFolder, earlier: Earlier, *, inventory: bool, tools: bool) -> None:
    """Refuse to run what a run folder brings along: it may have come from anywhere.

    `inventory`, `tools`: whether those of run.json would be used.

    Raises:
        UsageError: an inventory or tools inside the folder, or evidence that leads out of it.
    """
    home = os.path.realpath(folder.path)
    for each in earlier.asked.inventory if inventory else ():
        if _is_below(each, home):
            hint = "give your own: --inventory FILE"
            raise UsageError(
                f"names an inventory inside the run folder ({visible(each)})", file=earlier.file, hint=hint
            )
    if tools and earlier.tools is not None and _is_below(earlier.tools, home):
        hint = "give your own: --tools DIR"
        raise UsageError(
            f"names tools inside the run folder ({visible(str(earlier.tools))})", file=earlier.file, hint=hint
        )
    top = folder.path / EVIDENCE
    for place in (top, *sorted(top.iterdir())):
        if not _is_below(place, home):
            hint = "evidence would be written there: replace the link by the folder itself"
            raise UsageError("leads out of the run folder", file=visible(str(place)), hint=hint)


def _is_below(place: Path | str, home: str) -> bool:
    """Whether a path leads into a folder, links followed; a name that no file can have does not."""
    try:
        return Path(os.path.realpath(place)).is_relative_to(home)
    except ValueError:
        return False


def notes(odd: Iterable[OddFile], *, resumed: bool) -> tuple[str, ...]:
    """One line for the files of each kind that are not what the manifest says."""
    kinds: dict[str, list[str]] = {}
    for each in odd:
        kinds.setdefault(each.what, []).append(each.file)
    end = "measured again" if resumed else "not judged by it"
    return tuple(f"evidence that {what}: {some(files, MOST_NAMED)}; {end}" for what, files in kinds.items())


def about_evidence(folder: RunFolder, earlier: Earlier, *, resumed: bool) -> str:
    """Where the evidence of this run is from, for the report; empty if it is its own."""
    sha256 = folder.manifest.sha256
    if resumed:
        said = "" if sha256 else f"this run had no manifest until it was resumed: {_NO_MANIFEST}"
    elif sha256:
        said = f"judged again from {folder.path.resolve().name}, sha256 of its manifest {sha256}"
    else:
        said = f"judged again from {folder.path.resolve().name}, which has no manifest: {_NO_MANIFEST}"
    return "; ".join(each for each in (said, earlier.run.evidence) if each)[:_LONGEST]


def differences(earlier: Earlier, nodes: Iterable[Node]) -> Iterator[str]:
    """The nodes of the earlier run that are missing in this one, and the other way round."""
    before, now = {node.name for node in earlier.nodes}, {node.name for node in nodes}
    if before - now:
        yield f"left out, although part of the run in {earlier.file}: {fold(before - now)}"
    if now - before:
        yield f"new, not part of the run in {earlier.file}: {fold(now - before)}"


def moved(earlier: Earlier, nodes: Iterable[Node]) -> tuple[str, ...]:
    """The nodes whose name leads to another address or port than in the earlier run, as far as that run wrote it."""
    before = {node.name: node for node in earlier.nodes}
    return tuple(
        node.name
        for node in nodes
        if (then := before.get(node.name))
        and (node.address != then.address or (earlier.run.manifest and node.connection.port != then.connection.port))
    )


def moved_note(names: Iterable[str]) -> tuple[str, ...]:
    """What is done with the nodes that have moved."""
    found = tuple(names)
    return (f"another address than before, so everything is measured again: {fold(found)}",) if found else ()
