"""How a node is reached: Ansible's connection variables, and its environment variables, as a `Connection`."""

import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nodegate.engines.registry import ENGINES
from nodegate.errors import UsageError
from nodegate.files.strict_yaml import Tagged, did_you_mean, shown
from nodegate.inventory.ansible_cfg import Defaults
from nodegate.inventory.known_variables import is_secret, probably_meant
from nodegate.inventory.names import ADDRESS, NUMBER, USER
from nodegate.inventory.tree import Host
from nodegate.inventory.variables import Variables
from nodegate.node import Connection, HostKeyMode, TransportName
from nodegate.node_settings.table import PREFIX

TRANSPORTS: dict[str, TransportName] = {each: each for each in ("ssh", "ssh-binary", "local", "replay", "command")}
TRANSPORTS |= dict.fromkeys(("smart", "paramiko", "paramiko_ssh"), "ssh")
NO_LEASE = frozenset({"ssh", "ssh-binary", "local", "replay"})  # their end is the end of what runs there
LEASE_S, LEASE_LEAST_S = 30, 15
HOST_KEYS: dict[str, HostKeyMode] = {"strict": "strict", "accept-new": "accept-new", "off": "off"}
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1"})
_HERE = re.compile(r"127(?:\.\d{1,3}){3}|localhost[46]|localhost\.localdomain|ip6-(?:localhost|loopback)", re.ASCII)

_SSH_ARGS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_TRUE = frozenset({"true", "yes", "on", "1", "y", "t"})
_FALSE = frozenset({"false", "no", "off", "0", "n", "f", ""})
_PYTHON = re.compile(r"/?[A-Za-z0-9_.][A-Za-z0-9_./+-]{0,255}", re.ASCII)
_PLACE = re.compile(r"\{(node|pod|job)\}")
_LOCK = re.compile(r"/[A-Za-z0-9_./+-]{1,255}", re.ASCII)
_NO_PASSWORDS = "use an SSH key or agent, and NOPASSWD in sudoers; then remove the password from the inventory"


def connection(variables: Variables, defaults: Defaults, *, means_here: bool = False) -> Connection:
    """How this host is reached. A variable wins over the environment and ansible.cfg, as in Ansible.

    `means_here`: whether a bare localhost was meant, since it was typed or is the only host.

    Raises:
        UsageError: a value is not allowed, a password is in plain text, or a variable is misspelt.
    """
    for name, value in variables.values.items():
        if is_secret(name) and value not in (None, "") and not _is_protected(value):
            raise variables.wrong(name, "nodegate does not use passwords or read keys from inventories", _NO_PASSWORDS)
        if meant := probably_meant(name):
            raise variables.wrong(name, "unknown variable", f"did you mean {meant}?")
    read = _Reader(variables, defaults)
    transport = read.transport(means_here=means_here)
    retries = read.whole_number(0, 100, "ansible_ssh_retries", env="ANSIBLE_SSH_RETRIES")
    key_file = read.text("ansible_private_key_file", "ansible_ssh_private_key_file", env="ANSIBLE_PRIVATE_KEY_FILE")
    lease = read.whole_number(LEASE_LEAST_S, 3600, "nodegate_lease") if transport not in NO_LEASE else None
    return Connection(
        transport=transport,
        address=read.matching(ADDRESS, "an address", "ansible_host", "ansible_ssh_host"),
        port=read.whole_number(1, 65535, "ansible_port", "ansible_ssh_port", env="ANSIBLE_REMOTE_PORT"),
        user=read.matching(USER, "a user name", "ansible_user", "ansible_ssh_user", env="ANSIBLE_REMOTE_USER") or None,
        key_files=(os.path.expanduser(key_file),) if key_file else (),  # noqa: PTH111 - a relative path stays as it is
        ssh_args=tuple(word for name in _SSH_ARGS for word in read.words(name, name.upper())),
        become=read.become(),
        python=read.python(),
        connect_timeout_s=read.seconds("ansible_ssh_timeout", Connection.connect_timeout_s, env="ANSIBLE_TIMEOUT"),
        retries=Connection.retries if retries is None else retries,
        host_keys=read.host_keys(),
        recordings=read.recordings() if transport == "replay" else "",
        command=read.command() if transport == "command" else (),
        lease_s=0.0 if transport in NO_LEASE else float(lease or LEASE_S),
        lock=read.matching(_LOCK, "an absolute path", "nodegate_lock") or Connection.lock,
    )


def other_become_user(variables: Variables) -> str:
    """The origin of an ansible_become_user other than root, which nodegate does not support; empty: there is none."""
    value = variables.values.get("ansible_become_user")
    return variables.origin("ansible_become_user") if value not in (None, "", "root") else ""


def passwords_left_out(variables: Variables) -> list[str]:
    """The origins of encrypted or templated passwords: nodegate ignores them."""
    given = [name for name, value in variables.values.items() if value not in (None, "")]
    return [variables.origin(name) for name in given if is_secret(name)]


@dataclass(frozen=True)
class _Reader:
    """The variables of one host, read as the kinds of value that a connection needs."""

    variables: Variables
    defaults: Defaults

    def text(self, *names: str, env: str = "") -> str:
        """The text of the setting with these names, the last one that is set; else of the environment; else empty."""
        name = self.variables.last(*names)
        value = self.variables.get(name) if name else None
        if value is None:
            return self._sound(env, self.defaults.get(env), partial(self.defaults.wrong, env)) if env else ""
        if isinstance(value, (dict, list)):
            raise self.variables.wrong(name, "must be a single value, not a list or mapping")
        return self._sound(name, str(value), lambda message: self.variables.wrong(name, message))

    def matching(self, pattern: re.Pattern[str], what: str, *names: str, env: str = "") -> str:
        """As `text`, and empty or of the form of `pattern`."""
        text = self.text(*names, env=env)
        if text and not pattern.fullmatch(text):
            raise self._wrong(names, env, f"{shown(text)} is not {what}")
        return text

    def whole_number(self, least: int, most: int, *names: str, env: str = "") -> int | None:
        """As `text`, a whole number within these bounds; None when it is not set."""
        if not (text := self.text(*names, env=env)):
            return None
        if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or not least <= int(text) <= most:
            raise self._wrong(names, env, f"{shown(text)} is not a whole number from {least} to {most}")
        return int(text)

    def seconds(self, name: str, default: float, *, env: str = "") -> float:
        """As `text`, a time limit in seconds."""
        if not (text := self.text(name, env=env)):
            return default
        if not re.fullmatch(r"[0-9]{1,6}(?:\.[0-9]{1,6})?", text, re.ASCII) or not 0 < float(text) <= 3600:
            raise self._wrong((name,), env, f"{shown(text)} is not a number of seconds from 0 to 3600")
        return float(text)

    def truth(self, *names: str, env: str = "") -> bool | None:
        """As `text`, true or false in any of Ansible's spellings; None when it is not set."""
        if not self.variables.last(*names) and not (env and env in self.defaults):
            return None
        text = self.text(*names, env=env).strip().lower()
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise self._wrong(names, env, f"{shown(text)} is not true or false")

    def transport(self, *, means_here: bool) -> TransportName:
        """The transport that ansible_connection names; a bare localhost is this machine itself, if that was meant."""
        if not (asked := self.text("ansible_connection")):
            told = self.variables.last("ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port")
            return "ssh" if told else self._where(self.variables.host, means_here=means_here)
        name = asked.removeprefix("ansible.builtin.")
        known = {**TRANSPORTS, **{each: each for each in ENGINES}}
        if name not in known:
            what = f"{shown(asked)}: not a supported connection"
            raise self._wrong(("ansible_connection",), "", what, did_you_mean(name, known))
        return known[name]

    def _where(self, host: Host, *, means_here: bool) -> TransportName:
        if means_here and host.name in LOCAL_NAMES:
            return "local"
        if not means_here and (host.name in LOCAL_NAMES or _HERE.fullmatch(host.name)):
            what = f"{host.name} among other nodes is this machine"
            hint = "remove it, or write ansible_connection: local if this machine is to be judged too"
        elif NUMBER.fullmatch(host.name):
            what, hint = f"{host.name} is a number, not a name or address", "write its ansible_host"
        else:
            return "ssh"
        raise UsageError(what, file=host.file, line=host.line, hint=hint)

    def words(self, name: str, env: str = "") -> list[str]:
        """As `text`, as a shell splits it."""
        try:
            return shlex.split(self.text(name, env=env))
        except ValueError as problem:
            raise self._wrong((name,), env, str(problem).lower(), "close the quote") from None

    def python(self) -> str:
        """The interpreter on the node; Ansible's values for "find one" mean python3."""
        name = "ansible_python_interpreter"
        text = self.text(name, env=name.upper()).removeprefix("/usr/bin/env ").strip()
        if not text or text.startswith("auto"):
            return "python3"
        if not _PYTHON.fullmatch(text):
            what = f"{shown(text)} is not a valid path of a program"
            raise self._wrong((name,), name.upper(), what, "write its absolute path")
        return text

    def command(self) -> tuple[str, ...]:
        """The words of nodegate_command, with {node}, {pod} and {job} replaced; other braces are left as they are."""
        if not (found := self.words("nodegate_command")):
            step = "for example nodegate_command: podman exec -i {node}"
            raise self.variables.wrong("ansible_connection", "command needs nodegate_command", step)
        return tuple(_PLACE.sub(self._place, word) for word in found)

    def _place(self, match: re.Match[str]) -> str:
        if match[1] == "node":
            return self.matching(ADDRESS, "an address", "ansible_host", "ansible_ssh_host") or self.variables.host.name
        name = f"{PREFIX}{match[1]}"
        if not (value := self.matching(ADDRESS, "a name", name)):
            raise self._wrong(("nodegate_command",), "", f"it has {match[0]}, and {name} is not set", f"set {name}")
        return value

    def host_keys(self) -> HostKeyMode | None:
        """How to treat an unknown host key; None: as on the command line."""
        asked = self.text("nodegate_host_keys")
        if self.variables.values.get("nodegate_host_keys") is False:  # YAML reads an unquoted `off` as false
            asked = "off"
        if asked and asked not in HOST_KEYS:
            raise self._wrong(("nodegate_host_keys",), "", f"{shown(asked)} is unknown", f"use {', '.join(HOST_KEYS)}")
        if asked:
            return HOST_KEYS[asked]
        names = ("ansible_host_key_checking", "ansible_ssh_host_key_checking")
        checked = self.truth(*names, env="ANSIBLE_HOST_KEY_CHECKING")
        return {None: None, True: "strict", False: "off"}[checked]

    def recordings(self) -> str:
        """The absolute path of the folder of recordings, relative to the inventory that names it."""
        if not (text := self.text("nodegate_recordings")):
            hint = "set it to the folder that holds <node>/facts.json"
            raise self.variables.wrong("ansible_connection", "replay needs nodegate_recordings", hint)
        return os.path.normpath(Path(self.variables.layer("nodegate_recordings").folder or ".").absolute() / text)

    def become(self) -> bool:
        """Whether programs run as root; there is no other way to that than sudo."""
        name = "ansible_become_method"
        if not self.truth("ansible_become", env="ANSIBLE_BECOME"):
            return False
        method = self.text(name, env=name.upper()).removeprefix("ansible.builtin.")
        if method not in ("", "sudo"):
            raise self._wrong((name,), name.upper(), f"{shown(method)}: only sudo is supported")
        return True

    def _sound(self, name: str, text: str, wrong: Callable[[str], UsageError]) -> str:
        text = text.strip()
        if len(text) > 8192 or not text.isprintable():
            raise wrong("contains control characters or is too long")
        if text.startswith("-") and name.lower() not in _SSH_ARGS:
            raise wrong(f"{shown(text)} looks like an option")
        return text

    def _wrong(self, names: tuple[str, ...], env: str, message: str, hint: str = "") -> UsageError:
        if name := self.variables.last(*names):
            return self.variables.wrong(name, message, hint)
        return self.defaults.wrong(env or names[0], message, hint)


def _is_protected(value: object) -> bool:
    return isinstance(value, Tagged) or (isinstance(value, str) and "{{" in value)
