"""Inputs that once broke a reader, or came near to it: each is read or refused in the documented way, ever after."""

import re

import pytest

from fuzz.growth import MOST_GROWTH, growth
from fuzz.table import every_target

TARGETS = every_target()
RECORD = next(iter(TARGETS["files.results"].seeds())).split(b"\n")[0] + b"\n"
HISTORY = next(iter(TARGETS["files.history"].seeds()))
REPORT = next(iter(TARGETS["files.report"].seeds()))
RUN = b'{"profile": "nightly", "nodes": [{"name": "gpu01", "groups": [@"b"]}]}'
PROBE = b'{"schema": "nodegate.probe/1", "sections": {}, "uid": 0, "duration_s": 0.1, "epoch_s": '
KERNEL, NAMES, INVENTORY, RESULT = "triage.kernel_logs", "files.node_names", "files.inventory", "files.results"
DIGITS = b"9" * 400
TOO_LARGE = "OverflowError: int too large to convert to float"
ENDLESS = "OverflowError: cannot convert float infinity to integer"


def journal(time, more=b""):
    xid = b'{"MESSAGE": "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.", "__REALTIME_TIMESTAMP": '
    return xid + time + more + b"}"


def hosts(host, variable):
    return b'{"_meta": {"hostvars": {%s: {%s}}}, "all": {"hosts": ["gpu01"]}}' % (host, variable)


def with_seconds(key, text):
    return re.sub(rb'"%s": *[0-9.]+' % key, b'"%s":%s' % (key, DIGITS), text)


TORN = b" #bytes     #itera9 9 9tions    BW peak[MB/sec]    BW average[MB/sec]\n 65536 11738.21 11738.21\n"
ITERATES = b" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]\n 65536 inf 391.0 391.0\n"
HALF_A_CHARACTER = journal(b'"1786376165512034"', b', "_HOSTNAME": "\\ud800"')
DAMAGED = HISTORY.replace(b") without rowid", b"\xed without rowid")
# What the input is, for people, the input, and what it did once: nothing where a reader always stood it.
KEPT = [
    (KERNEL, "a journal line with an endless time", journal(b"1e999"), ENDLESS),
    (KERNEL, "a journal line with a time of 400 digits", journal(DIGITS), TOO_LARGE),
    (KERNEL, "a journal line with half a character as its host", HALF_A_CHARACTER, "UnicodeEncodeError"),
    (KERNEL, "a journal line whose time is not a number", journal(b"NaN"), ""),
    ("probe.evidence", "a recording whose clock has 400 digits", PROBE + DIGITS + b"}", TOO_LARGE),
    ("probe.evidence", "a recording whose clock is not a number", PROBE + b"NaN}", ""),
    (INVENTORY, "a number as the name of a variable", hosts(b'"gpu01"', b"22: 1"), "TypeError: expected string"),
    (INVENTORY, "a number as the name of a host", hosts(b"22", b""), "TypeError: expected string, got int"),
    (NAMES, "a name of 5,000 digits", b"gpu" + b"9" * 5000, "ValueError: the limit of 4300 digits"),
    (NAMES, "two names of 5,000 digits", b"a%s,a%s" % (b"9" * 5000, b"8" * 5000), ""),
    (NAMES, "a range up to a number of 5,000 digits", b"gpu[0-" + b"9" * 5000 + b"]", ""),
    (NAMES, "a regular expression of which Python warns", b"~[[a]", "FutureWarning"),
    ("tools.perftest", "a table whose header is torn", TORN, "KeyError: '#iterations'"),
    ("tools.perftest", "a row with endless iterations", ITERATES, ENDLESS),
    (RESULT, "a check that took 10^400 seconds", with_seconds(b"duration_s", RECORD), TOO_LARGE),
    ("files.report", "a run that began 10^400 s after 1970", with_seconds(b"started_epoch_s", REPORT), TOO_LARGE),
    ("files.history", "damage that SQLite cannot name in UTF-8", DAMAGED, "UnicodeDecodeError"),
    ("watch.own_pattern", "a pattern of which Python warns", b"[[a]", "FutureWarning with a line of our source"),
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


@pytest.mark.parametrize(
    ("target", "what", "data", "broke"), KEPT, ids=lambda value: value if isinstance(value, str) else ""
)
def test_an_input_that_was_kept_breaks_no_reader(target, what, data, broke):
    TARGETS[target].read(data)
