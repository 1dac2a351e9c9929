"""Whatever a node sends, parsing ends in a fact or in a refusal, quickly."""

import contextlib

from fleet.machine import Machine
from hypothesis import given, settings
from hypothesis import strategies as st
from support.documents import json_values, places, replaced
from support.recordings import FOLDER

from nodegate.errors import CannotMeasure, NotApplicable
from nodegate.facts import FACTS, read
from nodegate.probe.document import ProbeDocument, document_of
from nodegate.probe.kernel_log import parse_lines
from nodegate.tools import fabric_manager, nvidia_smi

HEALTHY = Machine.hgx_h100().document()
PLACES = places(HEALTHY["sections"])
SECTIONS = sorted({section for source in FACTS.values() for section in source.sections})
PARSERS = {"nvidia_smi": nvidia_smi.parse_xml, "fabric_manager": fabric_manager.parse_log}
RECORDINGS = [
    (file.parent.name, file.read_text()) for file in sorted(FOLDER.glob("*/*")) if file.parent.name in PARSERS
]


def read_all(document):
    for name in FACTS:
        with contextlib.suppress(CannotMeasure, NotApplicable):
            read(name, document)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(SECTIONS), st.fixed_dictionaries({"data": json_values}), max_size=4))
def test_any_json_as_the_data_of_a_section(sections):
    read_all(ProbeDocument(sections=sections, uid=0, epoch_s=1.0, duration_s=0.1))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLACES), json_values)
def test_any_json_in_the_place_of_any_value_of_a_healthy_machine(place, value):
    sections = replaced(HEALTHY["sections"], place, value)
    read_all(document_of(HEALTHY | {"sections": sections}, received_epoch_s=1.0, round_trip_s=0.1))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(max_size=80) | st.from_regex(r"\[ *[0-9.]{1,9}\] ?\w*: .{0,20}"), max_size=5), st.floats())
def test_any_line_of_a_kernel_log(lines, now):
    parse_lines(lines, now_epoch_s=now, boot_epoch_s=0.0)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(RECORDINGS), st.integers(0, 20_000), st.integers(0, 200), st.text(max_size=20))
def test_any_damage_to_a_tools_output(recorded, start, length, inserted):
    tool, written = recorded
    damaged = written[:start] + inserted + written[start + length :]
    with contextlib.suppress(CannotMeasure):
        PARSERS[tool](damaged)
