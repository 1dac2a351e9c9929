"""The reason that Slurm shows for a node: one clean line, whatever the node's programs printed."""

import re

from nodegate.hook.slurm import OURS

_LONGEST = 120
_NEUTRAL = str.maketrans("[]{};", "()(),", "\"'°")  # Slurm signs a reason with " [root@time]"
_UNWANTED = re.compile(r"[^A-Za-z0-9 ._:/()+,%@-]")


def reason(line: str) -> str:
    """The reason for Slurm, from an answer's line; `sinfo -R` shows the first 20 characters, so the part is first."""
    flat = _UNWANTED.sub("?", " ".join(line.removeprefix("unfit: ").split()).translate(_NEUTRAL))
    return f"{OURS} {flat if len(flat) <= _LONGEST else flat[: _LONGEST - 3] + '...'}"
