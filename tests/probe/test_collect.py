"""decode(): whatever a node sends, one clear reason with a next step comes out, or a checked document."""

import base64
import contextlib
import json
import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.documents import json_values

from nodegate.errors import CannotMeasure
from nodegate.node import Connection, Node
from nodegate.probe.collect import WIRE, collect, decode
from nodegate.probe.document import MAX_DOCUMENT_BYTES, document_of, today
from nodegate.transport.session import Output

GOOD: Mapping[str, Any] = {
    "schema": "nodegate.probe/1",
    "python": "3.6.8",
    "uid": 1000,
    "epoch_s": 1763712900.12,
    "duration_s": 0.31,
    "sections": {"pci": {"data": [], "duration_s": 0.01}, "nvml": {"why": "timeout", "detail": "", "duration_s": 20.0}},
}


def changed(**values):
    return json.dumps({**GOOD, **values}).encode()


def sent(plain):
    return WIRE + base64.b64encode(zlib.compress(plain)) + b"\n"


def refusal(raw):
    with pytest.raises(CannotMeasure) as raised:
        decode(raw)
    assert raised.value.next_step
    assert "\n" not in raised.value.reason
    assert len(raised.value.reason) < 400
    return raised.value.reason


@pytest.mark.parametrize("raw", [changed(), sent(changed()), b"Last login: today\n{}\n" + sent(changed()) + b"bye\n"])
def test_a_good_document_is_taken(raw):
    document = decode(raw)
    assert (document.uid, document.epoch_s, document.duration_s) == (1000, 1763712900.12, 0.31)
    assert document.sections == GOOD["sections"]
    assert document.raw == GOOD


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "sent nothing"),
        (b"\x00\xff\xfe garbage", "not send a JSON document"),
        (b"[" * 100_000, "not send a JSON document"),
        (b'{"epoch_s": ' + b"9" * 10_000 + b"}", "not send a JSON document"),
        (b"[1, 2]", "the document is list, expected an object"),
        (b"{}", "schema '' instead of 'nodegate.probe/1'"),
        (changed(schema="nodegate.probe/9"), "'nodegate.probe/9' instead of 'nodegate.probe/1'"),
        (changed(sections=[1]), "has no sections"),
        (changed(sections={"pci": 1}), "section 'pci' is int"),
        (changed(sections={"pci": {}}), "section 'pci' has neither data nor a known reason"),
        (changed(sections={"pci": {"why": "tired"}}), "section 'pci' has neither data nor a known reason"),
        (changed(sections={"pci": {"why": ["lost"]}}), "section 'pci' has neither data nor a known reason"),
        (changed(uid=True), "the document's uid is True, expected a number"),
        (changed(epoch_s="now"), "the document's epoch_s is 'now', expected a number"),
        (changed(duration_s=None), "the document's duration_s is NoneType, expected a number"),
        (changed(padding="x" * MAX_DOCUMENT_BYTES), f"more than {MAX_DOCUMENT_BYTES} bytes"),
    ],
)
def test_a_bad_one_is_refused_in_one_line(raw, said):
    assert said in refusal(raw)


def test_a_decompression_bomb_costs_no_more_than_the_limit():
    bomb = sent(b"{" + b" " * (128 << 20) + b"}")
    assert len(bomb) < 1 << 20
    assert f"more than {MAX_DOCUMENT_BYTES} bytes" in refusal(bomb)


@given(st.binary(max_size=400))
def test_no_bytes_raise_anything_else(raw):
    for attempt in (raw, WIRE + raw, sent(raw)):
        with pytest.raises(CannotMeasure):
            decode(attempt)


@given(json_values)
def test_no_json_in_the_place_of_the_sections_raises_anything_else(value):
    with contextlib.suppress(CannotMeasure):
        assert decode(changed(sections=value)).sections == value


class Answers:
    """A session whose node answers as the test says; keeps what was asked."""

    def __init__(self, output):
        self.node = Node("gpu001", Connection(python="/opt/python3.9"))
        self.output = output
        self.asked: dict[str, Any] = {}

    def run(self, argv, **options):
        self.asked = {"argv": argv, **options}
        return self.output

    def close(self):
        pass

    def hold_lock(self, *args, **options):
        raise NotImplementedError


def output(stdout=b"", stderr=b"", *, exit_code=0, **more):
    return Output(stdout, stderr, exit_code, 0.5, **more)


def test_collect_sends_the_program_to_the_nodes_own_python():
    session = Answers(output(sent(changed())))
    document = collect(session, timeout_s=30.0, as_root=True)
    assert list(session.asked["argv"]) == ["/opt/python3.9", "-I", "-S", "-"]
    assert session.asked["as_root"] is True
    assert session.asked["timeout_s"] == 30.0
    assert session.asked["stdin"].startswith(b"# nodegate")
    assert document.round_trip_s == 0.5
    assert document.received_epoch_s > 1.7e9


def test_what_arrives_from_a_node_is_marked_with_this_release_whatever_the_node_says():
    claimed = {"version": "9", "sections": []}
    document = collect(Answers(output(sent(changed(recorder=claimed)))))
    assert document.recorder == today()
    assert document_of(document.raw).recorder == today()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (output(exit_code=None, timed_out=True), "did not end within 60 s"),
        (output(stderr=b"x\nImportError: no zlib\n", exit_code=1), "exit code 1: 'ImportError: no zlib'"),
        (output(exit_code=None), "was truncated"),
        (output(sent(changed()), truncated=True), "more than"),
    ],
)
def test_collect_says_how_the_probe_ended(answer, said):
    with pytest.raises(CannotMeasure) as raised:
        collect(Answers(answer))
    assert said in raised.value.reason
    assert raised.value.next_step
