"""The kinds of nodes of the hostile fleet, and what a run must say of each."""

import getpass
from dataclasses import dataclass

from support.hostile import servers
from support.hostile.servers import Serve


@dataclass(frozen=True)
class Kind:
    """One way of being hostile, or healthy.

    `verdict` is the node's, `said` words of its cause (a regular expression).
    `serve` answers in sshd's place; `sshd` are options of a real one; else the node's interpreter is of this kind.
    """

    name: str
    verdict: str
    said: str
    serve: Serve | None = None
    sshd: tuple[tuple[str, str], ...] = ()
    closed: bool = False  # nothing listens
    full: bool = False  # what listens takes no connection
    twin: bool = False  # another name of the last hostile node before it


# The keys come from a directory service that hangs.
SLOW_KEYS = (
    ("AuthorizedKeysFile", "none"),
    ("AuthorizedKeysCommand", "/bin/sleep 600"),
    ("AuthorizedKeysCommandUser", getpass.getuser()),
    ("LoginGraceTime", "20"),
)

# Of 1,000 nodes 50 are not reachable.
UNREACHABLE = (
    Kind("blackhole", "unreachable", r"did not answer within \d", full=True),
    Kind("refused", "unreachable", "refused the connection", closed=True),
    Kind("silent", "unreachable", r"sent no SSH banner within \d", servers.silent),
    Kind("drops", "unreachable", "closed the connection before its SSH banner", servers.drops),
    Kind("endless-lines", "unreachable", "is not an SSH server", servers.endless_lines),
    Kind("endless-line", "unreachable", "is not an SSH server", servers.endless_line),
    Kind("slow-login", "unreachable", "did not answer the login in time", sshd=SLOW_KEYS),
    Kind("hung-login", "unreachable", "did not start within", sshd=(("ForceCommand", "cat >/dev/null"),)),
    Kind("deaf", "unreachable", "its sshd did not answer within", servers.deaf),
    Kind("frozen", "unreachable", "did not start within"),
    Kind("guard-alone", "unreachable", "did not answer within"),
)
# 10 have a driver that hangs.
HUNG_DRIVERS = (
    Kind("hung-driver", "incomplete", "nvml"),
    Kind("hung-probe", "incomplete", "the probe did not end within"),
)
# 20 send what no node should.
SENDERS = (
    Kind("garbage", "unreachable", "is not an SSH server", servers.garbage),
    Kind("garbage-after-banner", "unreachable", "key exchange", servers.garbage_after_banner),
    Kind("huge-packet", "unreachable", "not SSH in the key exchange", servers.huge_packet),
    Kind("slow-banner", "unreachable", r"banner .*within \d", servers.slow_banner),
    Kind("slow-key-exchange", "unreachable", "key exchange not finished within", servers.slow_key_exchange),
    Kind("login-gigabyte", "unreachable", "the login printed more than"),
    Kind("login-slow", "unreachable", "did not start within"),
    Kind("endless-frames", "unreachable", "sent more than"),
    Kind("endless-errors", "unreachable", "the login printed more than .* of errors"),
    Kind("gigabyte", "incomplete", "the probe sent more than"),
    Kind("random-document", "incomplete", "damaged document"),
    Kind("bomb", "incomplete", "sent more than"),
    Kind("slow-document", "incomplete", "the probe did not end within"),
)
# And some that answer well, and are not what they say.
LIARS = (
    Kind("clock-ahead", "rejected", "clock"),
    Kind("clock-behind", "rejected", "clock"),
    Kind("named", "incomplete", "same machine"),
    Kind("named-again", "incomplete", "same machine", twin=True),
)
HEALTHY = Kind("healthy", "accepted", "")
HOSTILE = (*UNREACHABLE, *HUNG_DRIVERS, *SENDERS, *LIARS)


def shares(count):
    """The kind of each of `count` nodes: one of each hostile kind at least, spread over the whole fleet."""
    groups = ((UNREACHABLE, 0.05), (HUNG_DRIVERS, 0.01), (SENDERS, 0.02), (LIARS, 0.005))
    hostile = [group[n % len(group)] for group, share in groups for n in range(max(len(group), round(share * count)))]
    if len(hostile) > count // 2:
        raise ValueError(f"{count} nodes are too few for {len(hostile)} hostile ones")
    kinds = [HEALTHY] * count
    step = count / len(hostile)
    for number, kind in enumerate(hostile):
        kinds[int((number + 0.5) * step)] = kind
    return kinds
