"""What checks are given of a node: it goes with its last reference, and says what no split GPU can be measured for."""

import gc
import weakref

import pytest
from fleet.machine import Machine
from support.healthy_platforms import every

from nodegate import suite
from nodegate.baseline.baseline import Baselines
from nodegate.errors import CannotMeasure, NotApplicable, NotDone, NotJudged
from nodegate.judge.context import Context
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.profile import Profile
from nodegate.records.evidence import FACTS, Evidence
from nodegate.records.verdict import Verdict


@pytest.fixture
def no_collections():
    """No cycle is found while the test runs."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alone():
    raise NotJudged("no other node")


@pytest.mark.usefixtures("no_collections")
def test_a_context_holds_no_reference_to_itself_after_its_checks():
    """A fleet's must not wait for a full collection."""
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


# GPUs that are split by MIG have no whole GPU to load: by design where the site says so, else something is open


OF_WHOLE_GPUS = ("burn", "gpu_copies", "nccl", "nccl_groups")


def context(machine, **expected):
    def nothing(name):
        raise CannotMeasure(f"no evidence of {name}", next_step="measure this node again")

    node = Node("gpu01", expected=expected, origin="hosts.yaml:7")
    facts, limits = Evidence("gpu01", FACTS, 0.0, 0.0, document=machine.document()), Baselines.read()
    return Context(node, facts, baselines=limits, profile=Profile.DELIVERY, fleet=alone, measured=nothing)


@pytest.fixture
def split():
    every(machine := Machine.hgx_h100(), "mig_mode", [1, 1])
    return machine


@pytest.mark.parametrize("name", OF_WHOLE_GPUS)
def test_mig_by_policy_is_not_applicable(split, name):
    with pytest.raises(NotApplicable, match="MIG is on for every GPU") as said:
        context(split, mig="on").resolve(name)
    assert not isinstance(said.value, NotDone)


@pytest.mark.parametrize("name", OF_WHOLE_GPUS)
@pytest.mark.parametrize("expected", [{}, {"mig": "off"}])
def test_mig_that_nobody_asked_for_leaves_the_claims_open(split, name, expected):
    with pytest.raises(NotDone, match=r"nodegate_mig: on"):
        context(split, **expected).resolve(name)


def test_one_split_gpu_hides_no_other(split):
    split.set_gpu(3, "mig_mode", [0, 0])
    with pytest.raises(CannotMeasure, match="no evidence of burn"):
        context(split, mig="mixed").resolve("burn")
