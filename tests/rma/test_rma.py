"""`nodegate rma`: one archive about a node, from a real run over recorded nodes; nothing of another node in it."""

import gzip
import hashlib
import json
import re
import shutil
import sys
import tarfile

import pytest
from support import sample_report, warm

from lab.run import ROOT
from nodegate import cli
from nodegate.records.run import NodeReport
from nodegate.records.verdict import NodeVerdict
from nodegate.report.model import Report
from nodegate.rma.clean import Clean
from nodegate.rma.subject import Subject

NODE, SERIAL, CHASSIS = "hgx03", "1650003000003", "7XK0003"  # a GPU of it is lost
OTHER_NAMES = re.compile(r"\b(?:hgx(?!03)|roce)\d\d\b")
OTHER_SERIALS = re.compile(r"(?:16500(?!03)\d\d|1320\d{3})\d{6}|7XK00(?!03)\d\d|S4900\d\d")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--inventory", f"{ROOT}/inventory/demo.yaml"]
    command += ["--nodes", "hgx[01-03],roce01", "--run-dir", "run", "--record", "fleet.sqlite"]
    done = warm.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert (folder / "run" / "report.json").exists(), done.stdout + done.stderr
    return folder


def archive(site, to, wanted=NODE, *more, code=0):
    arguments = ["rma", wanted, "--run", str(site / "run"), "--record", str(site / "fleet.sqlite"), "--to", str(to)]
    assert cli.main([*arguments, *more]) == code
    if code:
        return {}
    with tarfile.open(to) as found:
        read = {member.name: opened.read() for member in found if (opened := found.extractfile(member))}
    return {name.partition("/")[2]: raw for name, raw in read.items()}


@pytest.fixture(scope="module")
def plain(site):
    return archive(site, site / "plain.tar.gz")


def test_it_has_what_a_vendor_asks_for_and_says_what_is_missing(site, tmp_path, capsys):
    files = archive(site, tmp_path / "a.tar.gz", SERIAL)
    said = capsys.readouterr().out
    wanted = {"README.txt", "findings.txt", "findings.json", "serials.txt", "kernel-log.txt", "history.txt"}
    assert wanted | {"history-of-part.txt", "manifest.sha256", "evidence/facts.json"} <= set(files)
    readme = files["README.txt"].decode()
    assert f"{NODE}, part S/N {SERIAL}: rejected" in readme
    assert "[x] kernel log (Xid, AER, MCE lines): kernel-log.txt" in readme
    assert "[ ] nvidia-bug-report.log.gz: not here - run nvidia-bug-report.sh" in readme
    assert "not in it: nvidia-bug-report.log.gz" in said
    assert f"GPU 3: serial {SERIAL}\n" in files["serials.txt"].decode()  # it answers no more: the kernel log knew it
    assert b"Xid" in files["kernel-log.txt"]
    assert json.loads(files["findings.json"])["causes"][0]["condition"] == "gpu_lost"
    assert b"newest: rejected (delivery)" in files["history.txt"]


def test_nothing_of_another_node_is_in_it_and_evidence_is_as_in_the_run(site, plain):
    files = plain
    whole = b"\n".join(files.values()).decode()
    assert OTHER_NAMES.findall(whole) == []
    assert OTHER_SERIALS.findall(whole) == []
    assert "other-node-" in files["evidence/rdma_bandwidth.json"].decode()  # whom it was measured with
    assert OTHER_NAMES.search((site / "run" / "evidence" / NODE / "rdma_bandwidth.json").read_text())
    assert files["evidence/facts.json"] == (site / "run" / "evidence" / NODE / "facts.json").read_bytes()
    assert "differ from the run's own: evidence/rdma_bandwidth.json" in files["README.txt"].decode()


def test_the_manifest_is_right_and_the_same_run_gives_the_same_bytes(site, plain):
    files = dict(plain)
    lines = dict(reversed(line.split("  ")) for line in files.pop("manifest.sha256").decode().splitlines())
    assert lines == {name: hashlib.sha256(raw).hexdigest() for name, raw in files.items()}
    archive(site, site / "again.tar.gz")
    assert (site / "plain.tar.gz").read_bytes() == (site / "again.tar.gz").read_bytes()


def test_redacted_it_keeps_the_serials_of_the_chassis_and_of_what_failed(site, tmp_path):
    files = archive(site, tmp_path / "a.tar.gz", NODE, "--redact")
    whole = b"\n".join(files.values()).decode()
    assert set(re.findall(r"16500\d{8}", whole)) == {SERIAL}
    assert CHASSIS in whole
    assert not re.findall(r"\b10\.20\.\d+\.\d+\b|GPU-[0-9a-f]{8}-", whole)
    assert re.search(r"\b10\.20\.\d+\.\d+\b", (site / "run" / "evidence" / NODE / "facts.json").read_text())


def test_it_is_never_written_over_another(site, tmp_path, capsys):
    (tmp_path / "a.tar.gz").write_text("mine")
    archive(site, tmp_path / "a.tar.gz", code=2)
    assert "File exists" in capsys.readouterr().err
    assert (tmp_path / "a.tar.gz").read_text() == "mine"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("hgx09", "no part 'hgx09' - did you mean hgx03"), ("1650009000003", "no part '1650009000003'")],
)
def test_what_the_run_does_not_know_is_refused(site, tmp_path, capsys, wanted, said):
    archive(site, tmp_path / "a.tar.gz", wanted, code=2)
    assert said in capsys.readouterr().err
    assert not (tmp_path / "a.tar.gz").exists()


@pytest.mark.parametrize(
    ("text", "more", "code"),
    [
        (f"Linux {NODE} 5.15.0 x86_64", (), 0),
        (f"Serial Number : {SERIAL}", (), 0),
        ("Linux hgx02 5.15.0 x86_64", (), 2),  # another node's
        (f"Linux {NODE}", ("--redact",), 0),
    ],
)
def test_a_bug_report_that_is_there_is_taken_if_it_is_of_the_node(site, tmp_path, text, more, code):
    report = tmp_path / "report.gz"
    report.write_bytes(gzip.compress(text.encode()))
    files = archive(site, tmp_path / "a.tar.gz", NODE, "--bug-report", str(report), *more, code=code)
    taken = not code and not more
    assert files.get("nvidia-bug-report.log.gz") == (report.read_bytes() if taken else None)
    assert ("cannot be redacted" in files["README.txt"].decode()) if more else True


def copied(site, tmp_path):
    shutil.copytree(site, tmp_path / "site")
    return tmp_path / "site"


def test_a_run_folder_cannot_make_it_pack_what_is_elsewhere(site, tmp_path):
    """A link, another node's file, one that was changed, one without a name."""
    secret = tmp_path / "secret"
    secret.write_text('{"schema": "nodegate.evidence/1", "node": "hgx03", "key": "PRIVATE"}')
    mine = copied(site, tmp_path)
    place = mine / "run" / "evidence" / NODE
    (place / "linked.json").symlink_to(secret)
    (place / "nvidia-bug-report.log.gz").symlink_to(secret)
    shutil.copy(place.parent / "hgx01" / "burn.json", place / "other.json")
    (place / "burn.json").write_text('{"schema": "nodegate.evidence/1", "node": "hgx03"}')
    (place / "bare.json").write_text("[]")
    files = archive(mine, tmp_path / "a.tar.gz")
    assert not {f"evidence/{name}.json" for name in ("linked", "other", "burn", "bare")} & set(files)
    assert b"PRIVATE" not in b"".join(files.values())
    left = files["README.txt"].decode().partition("Left out:")[2]
    reasons = {"linked": "a link", "other": "another node's", "burn": "has changed", "bare": "it does not"}
    assert all(f"evidence/{name}.json: {why}" in left for name, why in reasons.items()), left


def test_without_evidence_and_record_it_says_so(site, tmp_path):
    mine = copied(site, tmp_path)
    (mine / "fleet.sqlite").unlink()
    shutil.rmtree(mine / "run" / "evidence" / NODE)
    readme = archive(mine, tmp_path / "a.tar.gz")["README.txt"].decode()
    assert "[ ] measurements as they were taken: not here" in readme
    assert "there is no record fleet.sqlite" in readme


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("gpu7 and gpu7.site, gpu70", "other-node-1 and other-node-1, gpu70"),
        ("gpu[7-8] slower", "other-nodes slower"),
        ("gpu[3-4]", "gpu[3-4]"),
        ("to 10.0.0.7:22", "to other-node-1:22"),
        ("gpu3-b and gpu3", "other-node-2 and gpu3"),
        ("12 GPU 7", "12 GPU 7"),
        (
            "gpu7-ib0, eth0.gpu7_x, http://gpu7:80/, a=gpu7.",
            "other-node-1-ib0, eth0.other-node-1_x, http://other-node-1:80/, a=other-node-1.",
        ),
        ("from fd00::7 to fd00::71", "from other-node-1 to fd00::71"),
        (
            "[1,3]<stdout>:gpu7:99:99 [0] NCCL INFO eth0:10.0.0.7<0>\ngpu3:98:98 [0] NCCL INFO",
            "[1,3]<stdout>:[a line of other-node-1]\ngpu3:98:98 [0] NCCL INFO",
        ),
        ("gpu7:99:99 [0] NCCL INFO NET/IB", "[a line of other-node-1]"),
        (" remote address: LID 0x60 QPN 1\n GID: 00:01\n#bytes", " remote address: other-nodes\n#bytes"),
        ("\ngpu7\n", "\nother-node-1\n"),
    ],
)
def test_names_of_other_nodes_are_found_in_any_text(text, clean):
    nodes = [NodeReport(name, NodeVerdict.ACCEPTED) for name in ("gpu3", "gpu7", "gpu3-b", "12")]
    about = Subject(Report(sample_report.run(), tuple(nodes)), nodes[0])
    names = ["gpu7", "gpu7.site", "10.0.0.7", "fd00::7", "gpu3-b", "12", "gpu3"]
    found = Clean(about, names, redacted=False).text(text)
    assert re.sub(r"other-node-\d", "other-node-N", found) == re.sub(r"other-node-\d", "other-node-N", clean)
