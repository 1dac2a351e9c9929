"""What holds for nodes of which the inventory says nothing: Ansible's environment variables, then its ansible.cfg."""

import configparser
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.strict_yaml import shown
from nodegate.files.text_file import read_text

_NAME = "ansible.cfg"
_MOST_BYTES = 1 << 20
_MOST_NAMED = 12  # of the settings that are not used
# The environment variable of each setting; of two settings with one variable the later counts.
SETTINGS = {
    ("defaults", "remote_user"): "ANSIBLE_REMOTE_USER",
    ("defaults", "remote_port"): "ANSIBLE_REMOTE_PORT",
    ("defaults", "private_key_file"): "ANSIBLE_PRIVATE_KEY_FILE",
    ("defaults", "interpreter_python"): "ANSIBLE_PYTHON_INTERPRETER",
    ("defaults", "host_key_checking"): "ANSIBLE_HOST_KEY_CHECKING",
    ("ssh_connection", "host_key_checking"): "ANSIBLE_HOST_KEY_CHECKING",
    ("defaults", "timeout"): "ANSIBLE_TIMEOUT",
    ("ssh_connection", "timeout"): "ANSIBLE_TIMEOUT",
    ("connection", "retries"): "ANSIBLE_SSH_RETRIES",
    ("ssh_connection", "retries"): "ANSIBLE_SSH_RETRIES",
    ("ssh_connection", "ssh_args"): "ANSIBLE_SSH_ARGS",
    ("ssh_connection", "ssh_common_args"): "ANSIBLE_SSH_COMMON_ARGS",
    ("ssh_connection", "ssh_extra_args"): "ANSIBLE_SSH_EXTRA_ARGS",
    ("privilege_escalation", "become"): "ANSIBLE_BECOME",
    ("privilege_escalation", "become_method"): "ANSIBLE_BECOME_METHOD",
}
_REACH = frozenset({"defaults", "connection", "ssh_connection", "paramiko_connection", "privilege_escalation"})
_THE_SAME = {("privilege_escalation", "become_user"): "root", ("defaults", "transport"): "ssh"}  # as nodegate does


@dataclass(frozen=True)
class Setting:
    """One setting of the file: its value, the name and the line that it has there."""

    value: str
    name: str
    line: int


@dataclass(frozen=True)
class Defaults:
    """The settings by the names of Ansible's environment variables. `notes` are what a user should know of the file."""

    environ: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __contains__(self, variable: str) -> bool:
        return variable in self.environ or variable in self.settings

    def get(self, variable: str) -> str:
        """The value; empty if it is not set."""
        if variable in self.environ:
            return self.environ[variable]
        return self.settings[variable].value if variable in self.settings else ""

    def wrong(self, variable: str, message: str, hint: str = "") -> UsageError:
        """The error to raise about a value, with the place that sets it."""
        known = None if variable in self.environ else self.settings.get(variable)
        if known is None:
            return UsageError(f"{variable} in the environment: {message}", hint=hint)
        return UsageError(f"{known.name}: {message}", file=self.file, line=known.line, hint=hint)


def defaults(environ: Mapping[str, str]) -> Defaults:
    """The settings of the environment, and of the one file that Ansible would read.

    Raises:
        UsageError: the file is not one of Ansible's.
    """
    path, notes = _found(environ)
    if path is None:
        return Defaults(environ, notes=notes)
    text = read_text(path, max_bytes=_MOST_BYTES, found=True)
    parser = configparser.ConfigParser(inline_comment_prefixes=(";",))  # as Ansible
    try:
        parser.read_string(text, str(path))
    except configparser.Error as problem:
        said = " ".join(str(problem).split())
        raise UsageError(f"cannot be read as a configuration file: {shown(said)}", file=str(path)) from None
    given = {(section, key): parser.get(section, key, raw=True) for section in parser for key in parser[section]}
    used = {key: variable for key, variable in SETTINGS.items() if key in given}
    settings = {name: Setting(_value(given[key]), ".".join(key), _line(text, *key)) for key, name in used.items()}
    return Defaults(environ, str(path), settings, (*notes, *_told(path, given)))


def _found(environ: Mapping[str, str]) -> tuple[Path | None, tuple[str, ...]]:
    """The first file that there is, in Ansible's order, and a note about one that is not read."""
    asked, home = environ.get("ANSIBLE_CONFIG", ""), environ.get("HOME", "")
    here, named = Path(_NAME), Path(asked).expanduser()
    try:
        public = bool(Path.cwd().stat().st_mode & stat.S_IWOTH)  # everyone can write to the current folder
    except OSError:  # it was deleted
        public = True
    places = [
        *([named / _NAME if named.is_dir() else named] if asked else ()),
        *(() if public else [here]),
        *([Path(home) / f".{_NAME}"] if home else ()),
        Path("/etc/ansible") / _NAME,
    ]
    path = next((place for place in places if os.access(place, os.R_OK)), None)
    skipped = public and here.exists() and not (path and path.samefile(here))
    return path, (f"{_NAME} is not read: everyone can write to this folder",) if skipped else ()


def _value(written: str) -> str:
    """A value as Ansible reads it: without its quotes; what is on several lines, on one."""
    text = " ".join(written.split("\n")).strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _told(path: Path, given: Mapping[tuple[str, str], str]) -> Iterator[str]:
    used = [".".join(key) for key in given if key in SETTINGS]
    others = {key: value for key, value in given.items() if key[0] in _REACH and key not in SETTINGS}
    left = [".".join(key) for key, value in others.items() if _THE_SAME.get(key) != value]
    if len(left) > _MOST_NAMED:
        left[_MOST_NAMED:] = [f"and {len(left) - _MOST_NAMED} more"]
    parts = [f"{what} {', '.join(names)}" for what, names in (("used are", used), ("not used are", left)) if names]
    if parts:
        yield f"{path}: {'; '.join(parts)}"


def _line(text: str, section: str, key: str) -> int:
    """The line of a setting; 0 where it is not found."""
    now, named = "", re.compile(rf"{re.escape(key)}\s*[=:]", re.IGNORECASE)
    for number, row in enumerate(text.splitlines(), start=1):
        if row.startswith("["):
            now = row[1:].partition("]")[0]
        elif now == section and named.match(row.strip()):
            return number
    return 0
