"""What the user's own SSH configuration says about a host, as the ssh program itself resolves it (`ssh -G`)."""

import getopt
import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nodegate.errors import Unreachable
from nodegate.files.bounded import read_whole
from nodegate.node import HostKeyMode

SSH_FLAGS = "1246AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:P:p:Q:R:S:W:w:"  # getopt string of ssh(1)
MOST_CONFIG_BYTES = 16 << 20
RESOLVE_S = 15.0  # `Match exec` may run programs
SAFE_NAME = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]*")
SAFE_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*\$?")
HOST_KEY_MODES: dict[str, HostKeyMode] = {"accept-new": "accept-new", "false": "off", "off": "off", "no": "off"}


@dataclass(frozen=True)
class HostConfig:
    """One host, resolved. Paths are expanded; an empty text means that the configuration does not set it.

    `proxy_jump` has the hops in the order in which they are passed. `host_keys` is None unless the configuration
    asks for less than strict. `ssh_config` is the -F file, with which jump hosts are resolved too.
    """

    host: str
    host_name: str
    port: int
    user: str
    identity_files: tuple[str, ...] = ()
    certificate_files: tuple[str, ...] = ()
    identity_agent: str = ""
    identities_only: bool = False
    proxy_jump: tuple[str, ...] = ()
    proxy_command: str = ""
    known_hosts_files: tuple[str, ...] = ()
    host_keys: HostKeyMode | None = None
    host_key_alias: str = ""
    connect_timeout_s: float | None = None
    address_family: str = "any"
    ssh_config: str = ""

    @property
    def label(self) -> str:
        """Its address for people: user@name:port."""
        return f"{self.user}@{self.host_name}:{self.port}"

    @property
    def known_as(self) -> str:
        """The name that known_hosts files have it under."""
        name = (self.host_key_alias or self.host_name).lower()
        return name if self.host_key_alias or self.port == 22 else f"[{name}]:{self.port}"


def ssh_words(host: str, port: int | None, user: str | None, key_files: Sequence[str]) -> list[str]:
    """Arguments of ssh for the inventory's settings. ssh keeps the first value of each option, so these come first."""
    words = ["-p", str(port)] if port else []
    words += ["-l", user] if user else []
    for file in key_files:
        words += ["-i", str(Path(file).expanduser())]
    if not SAFE_NAME.fullmatch(host):
        raise misconfigured(host, f"{host!r} is not a host name or address", "correct ansible_host in the inventory")
    if user and not SAFE_USER.fullmatch(user):
        raise misconfigured(host, f"{user!r} is not a user name", "correct ansible_user in the inventory")
    return words


def misconfigured(host: str, reason: str, next_step: str) -> Unreachable:
    """The error for a configuration with which no connection can be tried."""
    return Unreachable("configuration", reason, next_step=next_step, whose=host)


@lru_cache(maxsize=8192)
def resolve(host: str, words: tuple[str, ...]) -> HostConfig:
    """What `ssh words host` would use. Cached for the life of the process.

    Raises:
        Unreachable: kind `configuration`: a bad file or a bad option, as ssh reports it.
    """
    options = _check(host, words)
    program = shutil.which("ssh")
    return _config(host, _ask_ssh(program, host, words) if program else _ask_paramiko(host, options), options)


def _check(host: str, words: Sequence[str]) -> list[tuple[str, str]]:
    """The options among the arguments; another argument would be taken for the host."""
    step = "correct ansible_ssh_common_args or ansible_ssh_extra_args in the inventory"
    try:
        options, stray = getopt.getopt(list(words), SSH_FLAGS)
    except getopt.GetoptError as error:
        raise misconfigured(host, f"ssh arguments: {error.msg}", step) from None
    if stray:
        raise misconfigured(host, f"ssh arguments: {stray[0]!r} is not an option", step)
    return options


def _ask_ssh(program: str, host: str, words: Sequence[str]) -> dict[str, list[str]]:
    command = [program, "-G", *words, "--", host]
    step = "correct the SSH configuration (~/.ssh/config, or the arguments in the inventory)"
    try:
        done = subprocess.run(command, capture_output=True, timeout=RESOLVE_S, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        said = f"`ssh -G` took more than {RESOLVE_S:.0f} s"
        raise misconfigured(host, said, "check its `Match exec` lines") from None
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[:400]
        raise misconfigured(host, f"bad SSH configuration: {said}", step)
    values: dict[str, list[str]] = {}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key.lower(), []).append(value)
    return values


def _ask_paramiko(host: str, options: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Without an ssh program: the -o words, then the file as far as paramiko reads it (no Include)."""
    from paramiko import SSHConfig  # noqa: PLC0415 - slow to import

    values: dict[str, list[str]] = {}
    flags = {"-p": "port", "-l": "user", "-J": "proxyjump", "-i": "identityfile"}
    for flag, value in options:
        text = f"{flags[flag]}={value}" if flag in flags else value if flag == "-o" else ""
        key, _, rest = text.replace("=", " ", 1).strip().partition(" ")
        if key and (key.lower() not in values or key.lower() in {"identityfile", "certificatefile"}):
            values.setdefault(key.lower(), []).append(rest.strip())
    file = Path(_last(options, "-F") or Path("~/.ssh/config").expanduser())
    if str(file) != "none" and file.exists():
        try:
            text = read_whole(file, MOST_CONFIG_BYTES).decode()
            found: Mapping[str, str | list[str]] = SSHConfig.from_text(text).lookup(host)
        except Exception as error:
            raise misconfigured(host, f"{file}: {error}", "correct it") from error
        for key, entry in found.items():
            values.setdefault(key, entry if isinstance(entry, list) else [entry])
    values.setdefault("identityfile", [f"~/.ssh/{name}" for name in ("id_rsa", "id_ecdsa", "id_ed25519")])
    values.setdefault("userknownhostsfile", ["~/.ssh/known_hosts"])
    values.setdefault("globalknownhostsfile", ["/etc/ssh/ssh_known_hosts"])
    return values


def _last(options: Sequence[tuple[str, str]], flag: str) -> str:
    return next((value for name, value in reversed(options) if name == flag), "")


def _config(host: str, values: Mapping[str, list[str]], options: Sequence[tuple[str, str]]) -> HostConfig:
    def first(key: str, default: str = "") -> str:
        text = values.get(key, [default])[0]
        return "" if text.lower() == "none" else text

    def paths(key: str) -> tuple[str, ...]:
        return tuple(expand(path) for path in values.get(key, ()) if path.lower() != "none")

    user, host_name, port = first("user") or getpass.getuser(), first("hostname") or host, first("port") or "22"
    tokens = {"h": host_name, "n": host, "p": port, "r": user, "u": getpass.getuser(), "d": str(Path.home()), "%": "%"}

    def expand(path: str) -> str:
        text = re.sub(r"%(.)", lambda m: tokens.get(m[1], m[0]), path.strip('"'))
        text = re.sub(r"\$\{(\w+)\}", lambda m: os.environ.get(m[1], ""), text)
        return str(Path(text).expanduser())

    known = [p for key in ("userknownhostsfile", "globalknownhostsfile") for p in first(key).split()]
    agent, timeout = values.get("identityagent", [""])[0], first("connecttimeout")
    command = first("proxycommand")
    if command and not (SAFE_NAME.fullmatch(host_name) and SAFE_NAME.fullmatch(host) and SAFE_USER.fullmatch(user)):
        step = "correct the name in the inventory or the SSH configuration"
        raise misconfigured(host, f"{user}@{host_name} is not allowed in a ProxyCommand", step)
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise misconfigured(host, f"{port!r} is not a port", "correct it in the inventory or the SSH configuration")
    return HostConfig(
        host=host,
        host_name=host_name,
        port=int(port),
        user=user,
        identity_files=tuple(dict.fromkeys(paths("identityfile"))),
        certificate_files=paths("certificatefile"),
        identity_agent=agent if agent.lower() in {"none", "ssh_auth_sock", ""} else expand(agent),
        identities_only=first("identitiesonly") == "yes",
        proxy_jump=tuple(hop for hop in first("proxyjump").split(",") if hop),
        proxy_command=re.sub(r"%(.)", lambda m: tokens.get(m[1], m[0]), command),
        known_hosts_files=tuple(expand(p) for p in known if p.lower() != "none"),
        host_keys=HOST_KEY_MODES.get(first("stricthostkeychecking").lower()),
        host_key_alias=first("hostkeyalias"),
        connect_timeout_s=float(timeout) if timeout.isdigit() and int(timeout) else None,
        address_family=first("addressfamily", "any"),
        ssh_config=_last(options, "-F"),
    )
