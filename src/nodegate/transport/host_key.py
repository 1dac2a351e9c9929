"""Whether the host key that a server showed is the known one."""

import base64
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import paramiko
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    load_ssh_public_identity,
)

from nodegate.errors import Unreachable
from nodegate.node import HostKeyMode
from nodegate.records.taken_key import NEW, UNVERIFIED, TakenKey
from nodegate.transport import known_hosts
from nodegate.transport.known_hosts import Entry, fingerprint
from nodegate.transport.ssh_config import HostConfig

PLAIN = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
ALGORITHMS = {kind: (kind,) for kind in PLAIN} | {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
CERTIFICATE = "-cert-v01@openssh.com"
ASK_CONSOLE = "compare it with the node's own (`ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` on its console)"


@dataclass(frozen=True)
class HostKeys:
    """What is known of one host, and what to do about an unknown key."""

    config: HostConfig
    mode: HostKeyMode
    accept_into: Path | None

    @cached_property
    def entries(self) -> list[Entry]:
        """The lines that name it, the project's own file first."""
        own = [str(self.accept_into)] if self.accept_into else []
        files = known_hosts.load(list(dict.fromkeys([*own, *self.config.known_hosts_files])))
        name = self.config.known_as
        found = [entry for file in files for entry in file.find(name)]
        if name.startswith("["):  # a certificate authority and a key without its port count as well, as in ssh
            plain = [entry for file in files for entry in file.find(self.config.host_name.lower())]
            found += [entry for entry in plain if entry.kind != "host" or not any(e.kind == "host" for e in found)]
        return list(dict.fromkeys(found))

    def algorithms(self) -> tuple[str, ...]:
        """Which key types to request: first the known ones, else the server would appear to be unknown."""
        entries = self.entries
        kinds = [entry.key_type for entry in entries if entry.kind == "host" and entry.key_type in ALGORITHMS]
        plain = [name for kind in dict.fromkeys([*kinds, *PLAIN]) for name in ALGORITHMS[kind]]
        authority = any(entry.kind == "cert-authority" for entry in entries)
        return tuple(([name + CERTIFICATE for name in plain] if authority else []) + plain)

    def check(self, key: paramiko.PKey) -> TakenKey | None:
        """Accept the key or raise. Returns it if nothing was known of it.

        Raises:
            Unreachable: kind `host-key-unknown` or `host-key-changed`.
        """
        entries, blob = self.entries, key.asbytes()
        certificate = _certificate(key)
        doubt = ""
        signer: bytes | None = None  # the public key of the authority that signed the certificate
        if certificate is not None:
            line = certificate.signature_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
            signer = base64.b64decode(line.split()[1])
        if revoked := next((e for e in entries if e.kind == "revoked" and e.blob in {blob, signer}), None):
            reason = f"its host key {fingerprint(blob)} is marked as revoked ({revoked.origin})"
            raise self._no("changed", reason, "the key may be stolen: generate new host keys on the node")
        if certificate is not None:
            authority = next((e for e in entries if e.kind == "cert-authority" and e.blob == signer), None)
            doubt = _doubt(certificate, self.config)
            if authority and not doubt:
                return None
            doubt = f"; its host certificate was not accepted: {doubt or 'no @cert-authority line has its signer'}"
        return self._check_plain(key, [e for e in entries if e.kind == "host"], doubt)

    def _check_plain(self, key: paramiko.PKey, known: list[Entry], doubt: str) -> TakenKey | None:
        kind, print_ = key.get_name(), fingerprint(key.asbytes())
        if any(entry.blob == key.asbytes() for entry in known):
            return None
        if self.mode == "off":
            return TakenKey(self.config.known_as, UNVERIFIED, print_)
        if other := next((e for e in known if e.key_type == kind), known[0] if known else None):
            was = f"{other.key_type} {fingerprint(other.blob)}"
            reason = f"the host key CHANGED: the server shows {kind} {print_}, known_hosts has {was}"
            step = f"if the node was reinstalled, {ASK_CONSOLE} and delete that line; else it may be intercepted"
            raise self._no("changed", f"{reason} ({other.origin}){doubt}", step)
        if self.mode == "accept-new" and not doubt:
            return self._accept(key)
        step = f"{ASK_CONSOLE}, then add it to known_hosts, or let new keys be accepted (--host-keys accept-new)"
        raise self._no("unknown", f"the host key {kind} {print_} is not known{doubt}", step)

    def _accept(self, key: paramiko.PKey) -> TakenKey | None:
        file = self.accept_into or Path(next(iter(self.config.known_hosts_files), "~/.ssh/known_hosts")).expanduser()
        blob = key.asbytes()
        try:
            now = known_hosts.add(file, self.config.known_as, key.get_name(), blob)
        except OSError as error:
            reason = f"the new host key cannot be stored: {file}: {error.strerror}"
            raise self._no("unknown", reason, "make that file writable") from None
        if all(entry.blob != blob for entry in now):
            return self._check_plain(key, [e for e in now if e.kind == "host"], "")
        return TakenKey(self.config.known_as, NEW, fingerprint(blob))

    def _no(self, what: Literal["unknown", "changed"], reason: str, next_step: str) -> Unreachable:
        return Unreachable(f"host-key-{what}", reason, next_step=next_step, whose=self.config.known_as)


def _certificate(key: paramiko.PKey) -> SSHCertificate | None:
    """The certificate that came with the key, if any."""
    public = key.public_blob
    if public is None or not str(public.key_type).endswith(CERTIFICATE):
        return None
    line = f"{public.key_type} {base64.b64encode(public.key_blob).decode()}".encode()
    try:
        identity = load_ssh_public_identity(line)
        if isinstance(identity, SSHCertificate):
            identity.signature_key()
    except (ValueError, UnsupportedAlgorithm):
        return None
    return identity if isinstance(identity, SSHCertificate) else None


def _doubt(certificate: SSHCertificate, config: HostConfig) -> str:
    """Why the certificate is not valid for this host; empty if it is."""
    name = (config.host_key_alias or config.host_name).lower()
    principals = [principal.decode("utf-8", "replace") for principal in certificate.valid_principals]
    named = Entry("host", ",".join(principals), "", b"", "")
    if certificate.type is not SSHCertificateType.HOST:
        return "it is a user certificate, not a host certificate"
    if principals and not named.covers(name):
        return f"it is for {', '.join(principals[:3])}, not for {name}"
    if not certificate.valid_after <= time.time() < certificate.valid_before:
        return "it is not valid at this time"
    if certificate.critical_options:
        return "it has an unknown critical option"
    try:
        certificate.verify_cert_signature()
    except InvalidSignature:
        return "its signature is invalid"
    return ""
