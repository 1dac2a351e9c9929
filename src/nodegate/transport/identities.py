"""The keys that can be offered to a server: key files, certificates, and those of the user's agent."""

import base64
import contextlib
import copy
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    load_ssh_public_identity,
)
from paramiko.agent import AgentKey, AgentSSH
from paramiko.pkey import PublicBlob, UnknownKeyType

from nodegate.files.bounded import open_regular, read_whole
from nodegate.transport.known_hosts import fingerprint
from nodegate.transport.ssh_config import HostConfig

DEFAULT_NAMES = frozenset(f"id_{kind}" for kind in ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk", "xmss", "dsa"))
CERTIFICATE = "-cert-v01@openssh.com"
AGENT_TIMEOUT_S = 10.0
MOST_KEY_BYTES = 1 << 20


@dataclass(frozen=True)
class Identity:
    """One key to try, and its name in errors."""

    label: str
    key: paramiko.PKey


class Agent(AgentSSH):
    """An agent at a given socket; paramiko's own knows SSH_AUTH_SOCK only."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(AGENT_TIMEOUT_S)
        self._socket.connect(path)
        self._connect(self._socket)  # type: ignore[attr-defined]

    def close(self) -> None:
        """Close the connection to the agent."""
        self._socket.close()


def open_agent(config: HostConfig) -> Agent | None:
    """The agent that the configuration names, if it responds."""
    path = config.identity_agent
    if path.lower() == "none":
        return None
    path = os.environ.get("SSH_AUTH_SOCK", "") if path in {"", "SSH_AUTH_SOCK"} else path
    with contextlib.suppress(OSError, paramiko.SSHException):
        return Agent(path) if path else None
    return None


def identities(config: HostConfig, agent: Agent | None, notes: list[str]) -> Iterator[Identity]:
    """What to try, in order: configured keys, the agent's, the default files. Each once, certificates first.

    What cannot be used is reported in `notes`.
    """
    named = [file for file in config.identity_files if Path(file).name not in DEFAULT_NAMES]
    default = [file for file in config.identity_files if file not in named]
    in_agent = list(agent.get_keys()) if agent else []
    seen: set[bytes] = set()
    only = {blob for file in config.identity_files for blob in _public_blobs(file)} if config.identities_only else None
    for identity in (
        *_from_files(named, config, in_agent, notes),
        *(_from_agent(key) for key in in_agent if only is None or key.asbytes() in only),
        *_from_files(default, config, in_agent, notes),
    ):
        shown = identity.key.public_blob
        blob = shown.key_blob if shown else identity.key.asbytes()
        if blob not in seen:
            seen.add(blob)
            yield identity


def _from_agent(key: AgentKey) -> Identity:
    if key.get_name().endswith(CERTIFICATE):
        key.public_blob = PublicBlob(key.get_name(), key.blob)  # type: ignore[assignment]
    return Identity(f"agent key {fingerprint(key.asbytes())} {key.comment}".rstrip(), key)


def _from_files(
    files: Sequence[str], config: HostConfig, in_agent: Sequence[AgentKey], notes: list[str]
) -> Iterator[Identity]:
    for file in files:
        if not Path(file).is_file():
            if Path(file).name not in DEFAULT_NAMES:
                notes.append(f"{file}: no such file")
            continue
        key = load_key(file, Path(file).stat().st_mtime_ns)
        if isinstance(key, str):
            blobs = _public_blobs(file)
            held = [agent_key for agent_key in in_agent if agent_key.asbytes() in blobs]
            yield from map(_from_agent, held)
            if not held:
                notes.append(f"{file}: {key}")
            continue
        for certificate in _certificates(key, (f"{file}-cert.pub", *config.certificate_files)):
            certified = copy.copy(key)
            certified.public_blob = certificate
            yield Identity(f"{file} with its certificate", certified)
        yield Identity(file, key)


@lru_cache(maxsize=256)
def load_key(file: str, mtime_ns: int) -> paramiko.PKey | str:  # noqa: ARG001 - the cache's key
    """A private key without its certificate, or why it cannot be used. Read once, for all nodes."""
    try:
        read_whole(file, MOST_KEY_BYTES)  # paramiko opens this by itself, and then a certificate
        with contextlib.suppress(FileNotFoundError):
            read_whole(f"{file}-cert.pub", MOST_KEY_BYTES)
        key = copy.copy(paramiko.PKey.from_path(file))
    except (paramiko.PasswordRequiredException, TypeError):
        return "has a passphrase and is not loaded in the agent (ssh-add)"
    except (paramiko.SSHException, ValueError, UnsupportedAlgorithm, OSError, NotImplementedError) as error:
        return f"cannot be used here ({error}); for hardware keys use ansible_connection: ssh-binary"
    except UnknownKeyType:
        return "is of an unsupported type; use ansible_connection: ssh-binary"
    key.public_blob = None
    return key


def _certificates(key: paramiko.PKey, files: Sequence[str]) -> Iterator[PublicBlob]:
    """The certificates for this key among the files."""
    for file in files:
        line = _first_line(file)
        with contextlib.suppress(ValueError, UnsupportedAlgorithm, paramiko.SSHException):
            found = load_ssh_public_identity(line)
            if isinstance(found, SSHCertificate):
                public = found.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
                if base64.b64decode(public.split()[1]) == key.asbytes():
                    yield PublicBlob.from_string(line.decode())


def _public_blobs(file: str) -> set[bytes]:
    """The public key of a key file: of `file`.pub, or of `file` itself if that is a public key."""
    blobs = set()
    for path in (file, f"{file}.pub"):
        words = _first_line(path).split()
        with contextlib.suppress(ValueError, IndexError):
            blobs.add(base64.b64decode(words[1], validate=True))
    key = load_key(file, Path(file).stat().st_mtime_ns) if Path(file).is_file() else ""
    return blobs if isinstance(key, str) else {*blobs, key.asbytes()}


def _first_line(file: str) -> bytes:
    try:
        with open_regular(file) as handle:
            return handle.readline(1 << 16)
    except OSError:
        return b""
