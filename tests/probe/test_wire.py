"""The line in which a program on a node sends its document, whatever stands around it or became of it."""

import base64
import json
import zlib

import pytest

from nodegate.errors import CannotMeasure
from nodegate.wire import Wire

WIRE = Wire("test/1", "the test", 4096, "look at the node")


def sent(document, keep=None):
    packed = zlib.compress(json.dumps(document).encode())[:keep]
    return f"{WIRE.mark}{base64.b64encode(packed).decode()}\n"


@pytest.mark.parametrize(
    "written",
    [
        sent({"a": 1}),
        f"Welcome\n{sent({'a': 1})}bye\n",
        f"Welcome {sent({'a': 1})}",
        sent({"a": 1}).replace("\n", "\r\n"),
        sent({"a": 0}) + sent({"a": 1}),
        ' {"a": 1}\n',
    ],
)
def test_the_last_document_is_read_whatever_a_login_prints_around_it(written):
    assert WIRE.json(written) == {"a": 1}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "the test sent nothing"),
        (" \n", "the test sent nothing"),
        (sent({"a": 1}, keep=-5), "the test sent a truncated document"),
        (f"{WIRE.mark}\n", "the test sent a truncated document"),
        (f"{WIRE.mark}AAAA\n", "the test sent a damaged document: "),
        (f"{WIRE.mark}\u00e9\n", "the test sent a damaged document: "),
        (sent("x" * 5000), "the test sent more than 4096 bytes"),
        ("x" * 5000, "the test sent more than 4096 bytes"),
        ("bash: not found", "the test did not send a JSON document: bash: not found (Expecting value"),
        ("[1e999]", "the test did not send a JSON document: [1e999] (1e999 is not a finite number)"),
        ("[NaN]", "the test did not send a JSON document: [NaN] (NaN is not a JSON number)"),
    ],
)
def test_a_document_that_is_not_good_is_refused_with_the_next_step(written, said):
    with pytest.raises(CannotMeasure) as refused:
        WIRE.json(written)
    assert refused.value.reason.startswith(said)
    assert refused.value.next_step == "look at the node"


@pytest.mark.parametrize("name", ["a", "\u00e9", "\U0001f600", "\uac00"])
def test_any_text_that_can_be_written_is_read(name):
    plain = json.dumps({name: [name]}, ensure_ascii=False)
    assert WIRE.json(plain) == WIRE.json(sent({name: [name]})) == {name: [name]}


@pytest.mark.parametrize("half", [chr(0xD83D), chr(0xDC80)])
def test_half_a_surrogate_pair_is_refused_in_keys_and_values_however_it_is_written(half):
    for document in ({half: 1}, {"a": ["b", f"c{half}"]}):
        for written in (sent(document), json.dumps(document), json.dumps(document, ensure_ascii=False)):
            with pytest.raises(CannotMeasure, match="surrogates not allowed"):
                WIRE.json(written)
