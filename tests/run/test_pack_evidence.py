"""Evidence of nodes without a finding, compressed at the end of a large run: everything reads it as before."""

import gzip
import json
import shutil
import subprocess
import sys
import tracemalloc

import pytest
from fleet.faults import narrow_gpu
from fleet.machine import Machine
from support import warm
from support.recorded import copied_run, run_pytest, write_fleet

from nodegate.errors import CannotMeasure
from nodegate.files.gz import Damaged, compress, expand, packed_path
from nodegate.node import Connection, Node
from nodegate.records.evidence import MAX_FACTS_BYTES, MAX_MEASURED_BYTES, Evidence
from nodegate.records.manifest import MANIFEST
from nodegate.records.results import read
from nodegate.records.run_folder import RunFolder
from nodegate.report.json_file import load
from nodegate.run import pack_evidence as packing
from nodegate.run.node_facts import recorded
from nodegate.run.run_evidence import drop_what_failed

LARGE = "from nodegate.run import pack_evidence\npack_evidence.FEWEST_NODES = 3\n"
CHECKS = ["-q", "--tb=no", "--passive", "-k", "link_width or kernel_log"]
HEALTHY, NARROW = "gpu1", "gpu2"


def run_over(where, *arguments):
    """A run where three nodes are a large one."""
    (where / "large.py").write_text(LARGE)
    return run_pytest(where, ["-p", "large", *arguments, *CHECKS], timeout_s=300, PYTHONPATH=str(where))


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    where = tmp_path_factory.mktemp("ended")
    machines = [Machine.hgx_h100(f"gpu{number}", number) for number in (1, 2, 3)]
    narrow_gpu(machines[1])
    write_fleet(where, machines)
    outcome = run_over(where, "--inventory", "hosts.yaml", "--run-dir", "run")
    assert outcome.exit_code == 1, outcome.stdout + outcome.stderr
    assert (where / "run").exists(), outcome.stdout + outcome.stderr
    return where


@pytest.fixture
def run(ended, tmp_path):
    return copied_run(ended, tmp_path)


def nodegate(where, *arguments):
    command = [sys.executable, "-m", "nodegate.cli", *arguments]
    return warm.run(command, cwd=where, capture_output=True, text=True, check=False, timeout=120)


def facts(run, node):
    return run / "evidence" / node / "facts.json"


def verdicts(run):
    return {(each.node, each.check): each.verdict.value for each in read(run)}


# ---- what is compressed ----------------------------------------------------------------------------------------------


def test_evidence_of_nodes_without_a_finding_is_compressed_and_whole(run):
    assert {file.name for file in (run / "evidence").glob("gpu[13]/*")} == {"facts.json.gz"}
    assert {file.name for file in (run / "evidence" / NARROW).iterdir()} == {"facts.json"}
    kept = json.loads(gzip.decompress(packed_path(facts(run, HEALTHY)).read_bytes()))
    assert kept["node"] == HEALTHY
    assert kept["document"] == json.loads((run.parent / "recordings" / HEALTHY / "facts.json").read_text())
    assert packed_path(facts(run, HEALTHY)).stat().st_size < len(json.dumps(kept)) / 5


def test_the_manifest_is_of_what_lies_there(run):
    command = ["sha256sum", "--strict", "--check", MANIFEST]
    done = subprocess.run(command, cwd=run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": OK") == 3
    assert nodegate(run.parent, "report", "run").returncode == 0
    assert "not as it was written" not in (run / "report.html").read_text()


def test_a_small_run_keeps_plain_files(ended, tmp_path):
    outcome = run_over(ended, "--inventory", "hosts.yaml", "--nodes", "gpu[1-2]", "--run-dir", str(tmp_path / "two"))
    assert outcome.exit_code == 1, outcome.stdout
    assert {file.name for file in (tmp_path / "two/evidence").glob("*/*")} == {"facts.json"}


def test_the_page_leads_to_the_files_that_there_are(run):
    """A result names a file in the folder of its node, which the page adds."""
    page = (run / "report.html").read_text().partition('<script type="application/json" id="data">')[2]
    data = json.loads(page.partition("</script>")[0])
    files = {}
    for node in data["nodes"]:
        results = [data["alike"][at] for at in data["alike"][node["d"]]] if "d" in node else []
        files[node["n"]] = {data["texts"][at] for result in results for at in result[3]}
    assert files[HEALTHY] == {"evidence//facts.json.gz"}
    assert files[NARROW] == {"evidence//facts.json"}


# ---- what reads it ---------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("extra", [(), ("-n", "2")], ids=["one process", "workers"])
def test_it_is_judged_again_to_the_same_results(run, extra):
    outcome = run_over(run.parent, "--replay", "run", "--run-dir", "again", *extra)
    assert outcome.exit_code == 1, outcome.stdout + outcome.stderr
    assert "evidence that" not in outcome.stdout
    assert verdicts(run.parent / "again") == verdicts(run)
    assert packed_path(facts(run.parent / "again", HEALTHY)).exists()


def test_the_commands_read_it(run):
    shown = nodegate(run.parent, "show", NARROW, "--run", "run")
    assert shown.returncode == 0, shown.stderr
    assert "pcie.link_width" in shown.stdout
    triage = nodegate(run.parent, "triage", "run")
    assert "has no kernel log" not in triage.stdout + triage.stderr
    packed_path(facts(run, HEALTHY)).write_bytes(b"")
    triage = nodegate(run.parent, "triage", "run")
    assert "facts.json.gz: has no kernel log" in triage.stdout + triage.stderr


def test_what_is_measured_again_takes_its_place(run):
    packed_path(facts(run, HEALTHY)).write_bytes(compress(b"{}"))
    outcome = run_over(run.parent, "--resume", "run")
    assert f"has changed since it was written: evidence/{HEALTHY}/facts.json.gz; measured again" in outcome.stdout
    assert verdicts(run)[HEALTHY, "pcie.link_width"] == "pass"
    assert [file.name for file in (run / "evidence" / HEALTHY).iterdir()] == ["facts.json.gz"]
    folder = RunFolder.existing(run)
    assert folder.manifest.odd_files() == ()
    folder.write_evidence(Evidence(HEALTHY, "facts", 1.0, 2.0, document={}))
    assert [file.name for file in (run / "evidence" / HEALTHY).iterdir()] == ["facts.json"]
    folder.drop_evidence("gpu3")
    assert list((run / "evidence/gpu3").iterdir()) == []


def test_it_can_be_copied_away_as_recordings(run, tmp_path):
    shutil.copytree(run / "evidence", tmp_path / "copied")
    node = Node(HEALTHY, Connection(transport="replay", recordings=str(tmp_path / "copied")))
    found = recorded(node, "facts")
    assert found.document is not None
    assert found.document["schema"] == "nodegate.probe/1"


# ---- damaged and hostile ---------------------------------------------------------------------------------------------


def test_what_was_changed_is_an_error_of_its_node(run):
    changed = gzip.decompress(packed_path(facts(run, HEALTHY)).read_bytes()).replace(b'"index":3', b'"index":4', 1)
    packed_path(facts(run, HEALTHY)).write_bytes(compress(changed))
    whole = packed_path(facts(run, "gpu3"))
    whole.write_bytes(whole.read_bytes()[:-9])
    outcome = run_over(run.parent, "--replay", "run", "--run-dir", "again")
    found = verdicts(run.parent / "again")
    assert {found["gpu1", "pcie.link_width"], found["gpu3", "pcie.link_width"]} == {"error"}, outcome.stdout
    assert "evidence/gpu1/facts.json.gz" in outcome.stdout
    again = nodegate(run.parent, "report", "run")
    told = (run / "report.json").read_text() + again.stderr
    assert "evidence/gpu3/facts.json.gz has changed since it was written" in told


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"", "gzip data that was cut off"),
        (b"plain text", "damaged gzip data"),
        (compress(b"{}" * 500)[:-1], "gzip data that was cut off"),
        (compress(b"{}" * 500)[:-4] + b"\0\0\0\0", "damaged gzip data"),
        (compress(b"{}") + compress(b"{}"), "trailing data after the gzip stream"),
        (compress(b" " * (MAX_FACTS_BYTES + 1)), "is larger than 4 MiB"),
    ],
)
def test_a_damaged_file_is_an_error_with_its_name(tmp_path, packed, message):
    folder = RunFolder.create(tmp_path / "run", profile="delivery", started_epoch_s=0.0)
    file = packed_path(folder.evidence_file("gpu1"))
    file.parent.mkdir()
    file.write_bytes(packed)
    found = folder.read_evidence("gpu1")
    assert found is not None
    assert isinstance(found.error, CannotMeasure)
    assert str(file) in found.error.reason
    assert message in found.error.reason
    copied = recorded(Node("gpu1", Connection(transport="replay", recordings=str(tmp_path / "run/evidence"))), "facts")
    assert copied.error is not None


@pytest.mark.long
def test_a_small_file_that_becomes_huge_takes_no_memory(tmp_path):
    bomb = compress(bytes(1 << 30))
    assert len(bomb) < MAX_FACTS_BYTES
    tracemalloc.start()
    try:
        assert len(expand(bomb, MAX_FACTS_BYTES)) == MAX_FACTS_BYTES + 1
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_FACTS_BYTES
    finally:
        tracemalloc.stop()


def test_what_is_just_small_enough_comes_back():
    for size in (0, 1, 70_000):
        assert expand(compress(bytes(size)), size) == bytes(size)
    with pytest.raises(Damaged):
        expand(b"\x1f\x8b", MAX_MEASURED_BYTES)


# ---- a run that ended while it compressed ----------------------------------------------------------------------------


def test_both_forms_after_a_crash_are_right(run):
    """Killed between the two: the manifest lists both, the plain file is there or not."""
    folder = RunFolder.existing(run)
    packed = packed_path(facts(run, HEALTHY)).read_bytes()
    facts(run, HEALTHY).write_bytes(gzip.decompress(packed))
    folder.manifest.add({f"evidence/{HEALTHY}/facts.json": facts(run, HEALTHY).read_bytes()})
    again = RunFolder.existing(run)
    assert again.manifest.odd_files() == ()
    both = again.recorded_evidence(HEALTHY)
    facts(run, HEALTHY).unlink()
    alone = again.recorded_evidence(HEALTHY)
    assert again.manifest.odd_files() == ()
    assert both is not None
    assert both == alone
    assert both.error is None
    drop_what_failed(again, [HEALTHY], (), facts_after=False)
    assert packed_path(facts(run, HEALTHY)).exists()
    packed_path(facts(run, HEALTHY)).unlink()
    lost = RunFolder.existing(run).recorded_evidence(HEALTHY)
    assert lost is not None
    assert lost.error is not None


def test_a_full_disk_leaves_the_plain_files(ended, tmp_path, monkeypatch):
    run = tmp_path / "run"
    shutil.copytree(ended / "run", run)
    folder = RunFolder.existing(run)
    text = gzip.decompress(packed_path(facts(run, HEALTHY)).read_bytes())
    folder.drop_evidence(HEALTHY)
    facts(run, HEALTHY).write_bytes(text)
    folder.manifest.add({f"evidence/{HEALTHY}/facts.json": text})

    def full(path, raw):
        raise OSError(28, "No space left on device", str(path), len(raw))

    monkeypatch.setattr(packing, "write_whole", full)
    monkeypatch.setattr(packing, "FEWEST_NODES", 0)
    packing.pack_evidence(folder, load(run).nodes)
    assert facts(run, HEALTHY).read_bytes() == text
    assert folder.manifest.odd_files() == ()
    assert f"evidence/{HEALTHY}/facts.json\n" in (run / MANIFEST).read_text()
    assert f"evidence/{HEALTHY}/facts.json.gz" not in (run / MANIFEST).read_text()
