"""The probe's program: its modules and pynvml in one Python source for a node's stdin."""

from collections.abc import Mapping, Sequence

from nodegate.node_program import pack

PACKAGE = "nodegate.node_side.probe"


def program(
    *,
    sections: Sequence[str] | None = None,
    limits_s: Mapping[str, float] | None = None,
    programs: Sequence[str] = (),
) -> bytes:
    """The source to give to `python3 -` on a node.

    Args:
        sections: the sections of the document to read; None: all.
        limits_s: time limits in seconds, in place of a section's own.
        programs: what is looked for on the node in addition to the usual tools.

    Raises:
        UsageError: pynvml is not installed here, or is not the one of nvidia-ml-py.
    """
    return pack(
        main=f"{PACKAGE}.main",
        packages=[PACKAGE],
        options={
            "sections": None if sections is None else list(sections),
            "limits_s": dict(limits_s or {}),
            "programs": list(programs),
        },
        purpose="reads the state of this node and writes one JSON document; it changes nothing.",
    )
