"""A context and the facts of a node go with their last reference: a fleet's must not wait for a full collection."""

import gc
import weakref
from collections.abc import Iterator
from typing import NoReturn

import pytest
from fleet.machine import Machine

from nodegate import suite
from nodegate.baseline.baseline import Baselines
from nodegate.errors import NotJudged
from nodegate.judge.context import Context
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.evidence import FACTS, Evidence
from nodegate.records.verdict import Verdict


@pytest.fixture
def no_collections() -> Iterator[None]:
    """No cycle is found while the test runs."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alone() -> NoReturn:
    raise NotJudged("no other node")


@pytest.mark.usefixtures("no_collections")
def test_a_context_holds_no_reference_to_itself_after_its_checks() -> None:
    document = Machine.hgx_h100("gpu01").document()
    del document["sections"]["services"]
    evidence = Evidence("gpu01", FACTS, 0.0, 0.0, document=document)
    context = Context(Node("gpu01"), evidence, baselines=Baselines.read(), profile=Profile.DELIVERY, fleet=alone)
    verdicts = {judge(check, context.resolve, "gpu01", context.parts).verdict for check in suite.checks()}
    assert verdicts >= {Verdict.PASS, Verdict.SKIP, Verdict.NOT_JUDGED, Verdict.ERROR}
    gone, facts = weakref.ref(context), weakref.ref(context.facts)
    del context
    assert gone() is None
    assert facts() is None
