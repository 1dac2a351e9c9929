"""Which release recorded a probe document, and the sections that it knew.

A section that came later could not be recorded, which says nothing of the node. The controller writes both into a
document when it arrives, so that no node can claim that a section is new.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from nodegate.errors import NotDone
from nodegate.release import suite_version

KEY = "recorder"  # in the document


@dataclass(frozen=True)
class Recorder:
    """A release of nodegate and the sections of the probe document that it knows."""

    version: str
    sections: frozenset[str]

    def to_json(self) -> dict[str, object]:
        """As it is written into the document."""
        return {"version": self.version, "sections": sorted(self.sections)}


FIRST = Recorder(
    "0.1.0",
    frozenset(
        (
            *("clock", "driver", "environment", "infiniband", "jobs", "kernel_log", "limits", "mounts", "netdev"),
            *("nvidia_smi", "nvml", "pci", "services", "software", "system"),
        )
    ),
)


def today() -> Recorder:
    """This release."""
    from nodegate.node_side.probe.main import SECTIONS  # noqa: PLC0415 - judging evidence needs no probe

    return Recorder(suite_version(), frozenset((*SECTIONS, "nvidia_smi")))


def recorder_of(document: Mapping[str, object]) -> Recorder:
    """Who recorded a document; the first release if it does not say. Every release knows that one's sections."""
    said = document.get(KEY)
    version, sections = (said.get("version"), said.get("sections")) if isinstance(said, dict) else (None, None)
    if not isinstance(version, str) or not isinstance(sections, list):
        return FIRST
    return Recorder(version, FIRST.sections.union(name for name in sections if isinstance(name, str)))


def refuse_later_sections(recorder: Recorder, present: Container[str], needed: tuple[str, ...]) -> None:
    """Say so where a fact needs a section that the recorder did not know.

    Raises:
        NotDone: one of the `needed` sections is not among those `present`, and the recorder did not know it.
    """
    if any(name not in recorder.sections and name not in present for name in needed):
        raise NotDone(f"not recorded then: this evidence was recorded by nodegate {recorder.version}")
