"""SSH keys of the lab's machines and of who logs in there."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_key(path: Path, kind: str = "ed25519") -> Path:
    """A new key pair `path`, `path`.pub without a passphrase."""
    command = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "nodegate-lab", "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


def public_key(path: Path) -> str:
    """Type and base64 of the public half of `path`, as known_hosts wants them."""
    return " ".join(Path(f"{path}.pub").read_text().split()[:2])
