"""Whatever a node sends as its burn: each check judges it or says that it cannot, and never breaks."""

import copy

from fleet.machine import Machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.burning import BurnCase, document, judged
from support.documents import json_values, places, replaced

from nodegate import suite
from nodegate.records.verdict import Verdict


def small():
    """A burn with few windows, so that a change seldom falls on one of many alike."""
    found = document(Machine.hgx_h100(), count=3)
    for gpu in found["gpus"]:
        gpu["samples"]["windows"] = gpu["samples"]["windows"][:3]
    return found


SMALL = small()
OF_THE_BURN = [check.id for check in suite.checks() if check.id.startswith("burn.")]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.sampled_from(places(SMALL)), value=json_values, check=st.sampled_from(OF_THE_BURN))
def test_no_value_in_the_document_breaks_a_check(place, value, check):
    def change(found):
        changed = replaced(copy.deepcopy(SMALL), place, value)
        found.clear()
        found.update(changed)

    record = judged(BurnCase("hostile", Verdict.PASS, change, check=check))
    assert "itself failed" not in record.message, record.message
    assert all("itself failed" not in finding.message for finding in record.findings)
    assert all(len(finding.message) < 4000 for finding in record.findings)
