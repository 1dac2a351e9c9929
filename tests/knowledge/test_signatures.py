"""Each signature finds a line of its form and each name of its error, and no earlier one takes it."""

import csv
import re
from pathlib import Path

import pytest
from support.patterns import alternatives

from nodegate.knowledge.signatures import find, literals, signatures
from nodegate.knowledge.sxids import sxids
from nodegate.knowledge.tables import Lasts, fabric_lines
from nodegate.knowledge.words import Cause, Role, Side
from nodegate.triage.scan import interesting

OF_JOBS = [each for each in signatures() if each.side is Side.USER]
OF_KERNELS = [each for each in signatures() if each.side is Side.KERNEL and not each.id.startswith(("xid_", "sxid_"))]
WITH_A_PATTERN = OF_KERNELS + OF_JOBS
KNOWN_MODES = {f"F{number:02}" for number in range(1, 34)}


def test_it_is_the_first_that_fits_its_own_example(subtests):
    for signature in WITH_A_PATTERN:
        with subtests.test(signature.id):
            hit = find(signature.example, signature.side)
            assert (hit and hit.signature.id) == signature.id


def test_every_xid_and_sxid_is_found_by_its_code():
    for signature in signatures():
        if signature.id.startswith(("xid_", "sxid_")):
            hit = find(signature.example, signature.side)
            assert hit is not None, signature.id
            assert hit.signature == signature


def test_each_alternative_of_a_pattern_is_let_through(subtests):
    """Of each alternative that the pattern has, at any depth, a text is made: the quick look must not put it aside."""
    for signature in WITH_A_PATTERN:
        with subtests.test(signature.id):
            quick = literals(signature.side)
            for text in alternatives(signature.pattern):
                assert any(held in text for held in signature.holds), text
                assert any(string in text for string in quick), text


def test_a_line_of_a_kernel_is_seen_in_the_log_of_a_job_too():
    for signature in OF_KERNELS:
        if signature.role is not Role.CONTEXT:
            assert interesting(f"x\n{signature.example}\nx\n".encode()), signature.id


def test_ids_are_names_and_each_stands_once():
    ids = [each.id for each in signatures()]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]+", each) for each in ids)


def test_every_sentence_is_one_line_without_an_end_in_both_languages():
    texts = [(each.id, text) for each in signatures() for text in (each.meaning, each.action)]
    texts += [(each.id, text) for each in fabric_lines() for text in (each.meaning, each.action)]
    sxid_actions = [(rule.code, rule.action_for(fatal=fatal)) for rule in sxids().values() for fatal in (True, False)]
    for whose, text in (*texts, *sxid_actions):
        assert text.en, whose
        assert not re.search(r"[\n.]$|  ", text.en), whose
        assert re.search(r"[\u4e00-\u9fff]", text.zh), whose
        assert not re.search(r"[\n。]$", text.zh), whose


def test_failure_modes_are_known():
    assert {mode for each in signatures() for mode in each.failure_modes} <= KNOWN_MODES
    assert all(each.failure_modes and each.lasts is Lasts.START for each in fabric_lines())


def test_what_only_follows_or_explains_blames_nobody_of_its_own():
    blamed = {each.id for each in OF_JOBS if each.role is Role.CONSEQUENCE and each.cause is Cause.PROGRAM}
    assert blamed == set()


def test_the_watchdog_tells_its_numbers():
    hit = find(next(each.example for each in OF_JOBS if each.id == "watchdog_timeout"), Side.USER)
    assert hit is not None
    wanted = {"rank": "3", "seq": "4711", "op": "ALLREDUCE", "numel_in": "26214400", "ran_ms": "600043"}
    assert {name: hit.group(name) for name in wanted} == wanted


@pytest.mark.parametrize("who", ["[Rank 0]", "[PG ID 0 PG GUID 0(default_pg) Rank 12]", "[PG 2 Rank 12]"])
@pytest.mark.parametrize("what", ["OpType=ALLREDUCE, TensorShape=[8]", "SeqNum=9, OpType=_X, NumelIn=8, NumelOut=64"])
def test_every_form_of_the_watchdog_is_read(who, what):
    said = f"Watchdog caught collective operation timeout: WorkNCCL({what}, Timeout(ms)=600000) ran for 600081 "
    hit = find(f"{who} {said}milliseconds before timing out.", Side.USER)
    assert hit is not None
    assert (hit.signature.id, hit.group("ran_ms")) == ("watchdog_timeout", "600081")
    assert hit.group("rank") == who.rstrip("]").rsplit(" ", maxsplit=1)[-1]
    assert hit.group("op")


@pytest.mark.parametrize(
    ("line", "id_", "peer"),
    [
        ("10.2.0.5<33092> with error 12, opcode 0", "nccl_ib_peer_gone", "10.2.0.5"),
        ("10.2.0.5<33092> with status=12 opcode=0", "nccl_ib_peer_gone", "10.2.0.5"),
        ("gpu-9<1> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0)", "nccl_ib_peer_gone", "gpu-9"),
        ("10.2.0.5<33092> with status=5 opcode=0", "nccl_ib_flushed", "10.2.0.5"),
    ],
)
def test_an_rdma_error_names_its_peer_in_every_wording(line, id_, peer):
    hit = find(f"gpu07:4827:6900 [4] NCCL WARN NET/IB : Got completion from peer {line}", Side.USER)
    assert hit is not None
    assert (hit.signature.id, hit.group("peer")) == (id_, peer)


@pytest.mark.parametrize(("code", "word", "role"), [(20034, "Fatal", Role.PRIMARY), (20034, "Non-fatal", Role.EITHER)])
def test_an_sxid_is_as_bad_as_its_line_says(code, word, role):
    hit = find(f"nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): {code}, {word}, Link 30 LTSSM Fault Up", Side.KERNEL)
    assert hit is not None
    assert (hit.signature.id, hit.signature.role, hit.device) == (f"sxid_{code}", role, "0000:a9:00.0")


def test_codes_that_nobody_has_told_us_are_found_too():
    xid = find("NVRM: Xid (PCI:0000:9b:00): 999, pid=1, name=x, something", Side.KERNEL)
    sxid = find("nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 99999, Fatal, something", Side.KERNEL)
    assert xid is not None
    assert sxid is not None
    assert (xid.signature.id, sxid.signature.id) == ("xid_999", "sxid_99999")


TABLE = Path(__file__).with_name("error_names.csv")


def test_a_line_is_of_the_signature_that_the_table_names(subtests):
    """`id` is empty for a line without a fault."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            with subtests.test(row["line"]):
                hit = find(row["line"], Side.USER)
                assert (hit.signature.id if hit else "") == row["id"]
