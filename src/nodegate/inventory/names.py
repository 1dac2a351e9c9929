"""Names of nodes and addresses: strict, since they become folder names and command-line arguments."""

import re
from dataclasses import dataclass

from nodegate.errors import UsageError
from nodegate.files.strict_yaml import shown
from nodegate.inventory import ranges

NODE_NAME = re.compile(r"(?=.{1,200}\Z)[A-Za-z0-9_](?:[A-Za-z0-9_-]|\.(?!\.))*(?<![.-])", re.ASCII)
ADDRESS = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_:][A-Za-z0-9_.:-]*(?:%[A-Za-z0-9_.-]{1,30})?", re.ASCII)
NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+){0,2}", re.ASCII)  # as an address 1 means 0.0.0.1: an address has four
USER = re.compile(r"(?=.{1,128}\Z)[A-Za-z0-9_][A-Za-z0-9_.@\\+-]*\$?", re.ASCII)
GROUP_NAME = re.compile(r"(?=.{1,200}\Z)\w[\w.@+-]*")

_USER_PART = re.compile(r"(?P<user>[^@\[\]]+)@(?P<rest>.+)")
_PORT_PART = re.compile(r"(?P<rest>(?:[^:\[\]]|\[[^\]]*\])+):(?P<port>[0-9]{1,9})", re.ASCII)


@dataclass(frozen=True)
class Written:
    """The content of a host entry: `user@gpu[001:128]:2222` names 128 nodes."""

    names: tuple[str, ...]
    port: int | None = None
    user: str | None = None


def parse_entry(text: str) -> Written:
    """The nodes that an entry names, with the port and user in it.

    Raises:
        UsageError: a range or a name in it is not allowed, or the port is invalid.
    """
    rest, user, port = text, None, None
    if match := _USER_PART.fullmatch(rest):
        user, rest = match["user"], match["rest"]
        if not USER.fullmatch(user):
            raise UsageError(f"{shown(user)} is not a valid user name")
    if match := _PORT_PART.fullmatch(rest):
        rest, port = match["rest"], int(match["port"])
        if not 0 < port < 65536:
            raise UsageError(f"{shown(text)}: port {port} is not between 1 and 65535")
    elif rest.endswith(":"):
        raise UsageError(f"{shown(text)}: the port after the colon is missing")
    names = tuple(ranges.expand(rest))
    for name in names:
        check_node_name(name)
    return Written(names, port, user)


def check_node_name(name: str) -> None:
    """Refuse a name that could be taken for an option, a path or a part of a command.

    Raises:
        UsageError: a node may not have this name.
    """
    if NODE_NAME.fullmatch(name):
        return
    if ADDRESS.fullmatch(name) and name.count(":") > 1:
        hint = "give the node a name and write the IPv6 address as its ansible_host"
    else:
        hint = "use letters, digits, '_', '-' and single dots, at most 200, and begin with a letter or digit"
    raise UsageError(f"{shown(name)} is not a valid node name", hint=hint)


def check_group_name(name: object) -> str:
    """The name, if a group may have it.

    Raises:
        UsageError: it may not.
    """
    if not isinstance(name, str):
        raise UsageError(f"the group name {shown(str(name))} is not text", hint="put it in quotes")
    if not GROUP_NAME.fullmatch(name):
        raise UsageError(f"{shown(name)} is not a valid group name", hint="use letters, digits, '_', '-' and dots")
    return name
