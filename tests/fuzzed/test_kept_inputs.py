"""Inputs that once broke a reader, or came near to it: each is read or refused in the documented way, ever after."""

import re
from dataclasses import dataclass

import pytest

from fuzz.growth import MOST_GROWTH, growth
from fuzz.table import every_target

TARGETS = every_target()
RECORD = next(iter(TARGETS["files.results"].seeds())).split(b"\n")[0] + b"\n"
HISTORY = next(iter(TARGETS["files.history"].seeds()))
REPORT = next(iter(TARGETS["files.report"].seeds()))
RUN = b'{"profile": "nightly", "nodes": [{"name": "gpu01", "groups": [@"b"]}]}'
XID = b'"NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."'
PROBE = b'{"schema": "nodegate.probe/1", "sections": {}, "uid": 0, "duration_s": 0.1, "epoch_s": '


@dataclass(frozen=True)
class Kept:
    """One input; `what` it is, for people. `broke` says what it did once, empty where a reader always stood it."""

    target: str
    what: str
    data: bytes
    broke: str = ""


KEPT = [
    Kept(
        "triage.kernel_logs",
        "a journal line with an endless time",
        b'{"MESSAGE": ' + XID + b', "__REALTIME_TIMESTAMP": 1e999}',
        "OverflowError: float infinity to integer",
    ),
    Kept(
        "triage.kernel_logs",
        "a journal line with a time of 400 digits",
        b'{"MESSAGE": ' + XID + b', "__REALTIME_TIMESTAMP": ' + b"9" * 400 + b"}",
        "OverflowError: int too large to convert to float",
    ),
    Kept(
        "triage.kernel_logs",
        "a journal line with half a character as its host",
        b'{"MESSAGE": ' + XID + b', "__REALTIME_TIMESTAMP": "1786376165512034", "_HOSTNAME": "\\ud800"}',
        "UnicodeEncodeError: surrogates not allowed",
    ),
    Kept(
        "triage.kernel_logs",
        "a journal line whose time is not a number",
        b'{"MESSAGE": ' + XID + b', "__REALTIME_TIMESTAMP": NaN}',
    ),
    Kept(
        "probe.evidence",
        "a recording whose clock has 400 digits",
        PROBE + b"9" * 400 + b"}",
        "OverflowError: int too large to convert to float",
    ),
    Kept("probe.evidence", "a recording whose clock is not a number", PROBE + b"NaN}"),
    Kept(
        "files.inventory",
        "a listing in YAML with a number as the name of a variable",
        b'{"_meta": {"hostvars": {"gpu01": {22: 1}}}, "all": {"hosts": ["gpu01"]}}',
        "TypeError: expected string, got int",
    ),
    Kept(
        "files.inventory",
        "a listing in YAML with a number as the name of a host",
        b'{"_meta": {"hostvars": {22: {}}}, "all": {"hosts": ["gpu01"]}}',
        "TypeError: expected string, got int",
    ),
    Kept("files.node_names", "a name of 5,000 digits", b"gpu" + b"9" * 5000, "ValueError: the limit of 4300 digits"),
    Kept("files.node_names", "two names of 5,000 digits", b"a%s,a%s" % (b"9" * 5000, b"8" * 5000)),
    Kept("files.node_names", "a range up to a number of 5,000 digits", b"gpu[0-" + b"9" * 5000 + b"]"),
    Kept(
        "tools.perftest",
        "a table whose header is torn",
        b" #bytes     #itera9 9 9tions    BW peak[MB/sec]    BW average[MB/sec]\n 65536 11738.21 11738.21\n",
        "KeyError: '#iterations'",
    ),
    Kept(
        "tools.perftest",
        "a row with endless iterations",
        b" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]\n 65536 inf 391.0 391.0\n",
        "OverflowError: cannot convert float infinity to integer",
    ),
    Kept(
        "files.results",
        "a check that took 10^400 seconds",
        re.sub(rb'"duration_s":[0-9.]+', b'"duration_s":1' + b"0" * 400, RECORD),
        "OverflowError: int too large to convert to float",
    ),
    Kept(
        "files.report",
        "a run that began 10^400 seconds after 1970",
        re.sub(rb'"started_epoch_s": *[0-9.]+', b'"started_epoch_s":1' + b"0" * 400, REPORT),
        "OverflowError: int too large to convert to float",
    ),
    Kept(
        "files.history",
        "a history whose damage SQLite cannot name in UTF-8",
        HISTORY.replace(b") without rowid", b"\xed without rowid"),
        "UnicodeDecodeError",
    ),
    Kept("watch.own_pattern", "a pattern of which Python warns", b"[[a]", "FutureWarning with a line of our source"),
    Kept("files.node_names", "a regular expression of which Python warns", b"~[[a]", "FutureWarning"),
]


SLOW = [
    # What took a second or more below 100 kB, with how it grew: the time of all of these grows with their length now.
    ("files.node_names", "a name with a thousand brackets", lambda size: b"gpu" + b"[1]" * (size // 3)),
    ("files.inventory", "a quote in a long line of a host", lambda size: b"gpu01 c='" + b"," * size),
    ("files.run", "a node that is in one group many times", lambda size: RUN.replace(b"@", b'"a",' * (size // 4))),
    ("files.inventory", "groups one in another", lambda size: b"".join(_chain(size // 24))),
]


def _chain(groups):
    for number in range(groups):
        yield b"[g%d:children]\ng%d\n" % (number, number + 1)
    yield b"[g%d]\ngpu01\n" % groups


@pytest.mark.parametrize(("target", "what", "make"), SLOW, ids=lambda value: value if isinstance(value, str) else "")
def test_an_input_that_took_the_square_of_its_length(target, what, make):
    assert growth(TARGETS[target].read, make, 400_000) <= MOST_GROWTH


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: f"{kept.target}: {kept.what}")
def test_an_input_that_was_kept_breaks_no_reader(kept):
    TARGETS[kept.target].read(kept.data)
