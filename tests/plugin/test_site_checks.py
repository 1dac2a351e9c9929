"""A site's own checks: what cannot be a check is refused in one line, and no verdict is lost or shared."""

import json

import pytest
from fleet.machine import Machine
from support.recorded import run_pytest, write_fleet

BODY = "    '''It holds.'''\n    verdicts.passed(part=__import__('nodegate').part.NODE, text='holds')\n"
OWN = f"def test_mine(host, verdicts):\n{BODY}"


@pytest.fixture
def site(tmp_path):
    write_fleet(tmp_path, [Machine.hgx_h100(f"gpu{number:04}", number) for number in (1, 2)])
    (tmp_path / "checks").mkdir()
    return tmp_path


def run(site, text, *arguments):
    (site / "checks" / "test_site.py").write_text(text)
    return run_pytest(site, ["--inventory", "hosts.yaml", "-q", "--tb=short", *arguments])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"import nothing_here\n{OWN}", "No module named 'nothing_here'"),
        ("def test_mine(:", "SyntaxError"),
        (
            f"class TestSite:\n    def test_mine(self, verdicts):\n    {BODY}".replace("\n    v", "\n        v"),
            "a method",
        ),
        (f"import pytest\n@pytest.mark.parametrize('x', [1])\n{OWN}", "site.mine is marked parametrize"),
        (f"import pytest\n@pytest.mark.xfail\n{OWN}", "site.mine is marked xfail - accept a deviation with --waivers"),
        (f"import pytest\npytestmark = pytest.mark.tier('weekly')\n{OWN}", "site.mine has the mark tier('weekly')"),
        (f"import pytest\npytestmark = pytest.mark.tier()\n{OWN}", "site.mine has the mark tier()"),
        (f"async {OWN}", "site.mine is async"),
        (f"def test_mine(host, verdicts):\n{BODY}    yield\n", "site.mine yields"),
        (f"def test_mine(gpuss, verdicts):\n{BODY}", "unknown fact 'gpuss' - did you mean gpus?"),
    ],
)
def test_what_is_no_check_stops_before_any_node_is_measured(site, text, words):
    outcome = run(site, text)
    assert outcome.exit_code == 2, outcome.stdout
    assert words in outcome.stdout
    assert "INTERNALERROR" not in outcome.stdout
    assert not (site / "reports").exists()


@pytest.mark.parametrize("text", [f"import nothing_here\n{OWN}", f"async {OWN}"])
def test_under_n_it_stops_there_too_and_leaves_no_run(site, text):
    outcome = run(site, text, "-n", "2")
    assert outcome.exit_code == 2, outcome.stdout
    assert "Interrupted: a check file cannot be collected" in outcome.stdout
    assert list((site / "reports").iterdir()) == []


def test_two_files_with_one_check_do_not_share_its_verdict(site):
    (site / "other" / "checks").mkdir(parents=True)
    (site / "other" / "checks" / "test_site.py").write_text(OWN)
    outcome = run(site, OWN, "checks", "other/checks")
    assert outcome.exit_code == 2
    assert f"site.mine is in {site}/checks/test_site.py too - rename one of the files" in outcome.stdout


def test_checks_of_one_name_in_two_files_keep_their_own_verdicts_under_n(site):
    """A file given by its path outside the rootdir has no id of its own in pytest."""
    outcome = run(site, OWN.replace("test_mine", "test_link_width"), "-k", "link_width", "-n", "2")
    assert outcome.exit_code == 0, outcome.stdout
    assert {record.check for record in outcome.records} == {"pcie.link_width", "site.link_width"}
    assert len(outcome.records) == 4


def test_ids_are_those_of_the_contract_wherever_the_checks_lie(site):
    listed = run(site, OWN, "--collect-only", "-q", "-q", "-k", "mine or link_width").stdout
    assert "checks/test_pcie.py: 2" in listed
    assert "checks/test_site.py: 2" in listed


def test_the_report_has_the_sentences_of_the_sites_checks_under_n(site):
    folder = run(site, OWN, "-k", "mine", "-n", "2").folder
    checks = json.loads((folder / "report.json").read_text())["checks"]
    assert [(check["check"], check["title"]) for check in checks] == [("site.mine", "It holds.")]


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_a_site_adds_a_check_and_replaces_a_file_of_ours(site, more):
    (site / "checks" / "test_pcie.py").write_text(OWN)
    outcome = run(site, OWN, "-k", "mine or link_width", *more)
    assert {record.check for record in outcome.records} == {"site.mine", "pcie.mine"}


def test_ours_run_too_where_a_site_names_its_tests_otherwise(site):
    (site / "pytest.ini").write_text("[pytest]\npython_files = spec_*.py\npython_functions = spec_*\n")
    outcome = run(site, OWN, "-k", "mine or link_width")
    assert {record.check for record in outcome.records} == {"site.mine", "pcie.link_width"}


@pytest.mark.parametrize("mark", ["skip(reason='later')", "skipif(True, reason='later')"])
def test_a_check_that_is_marked_skip_leaves_a_skip(site, mark):
    outcome = run(site, f"import pytest\n@pytest.mark.{mark}\n{OWN}", "-k", "mine or link_width")
    assert outcome.exit_code == 0, outcome.stdout
    assert outcome.verdicts("site.mine") == {"gpu0001": "skip", "gpu0002": "skip"}
    assert "later" in next(record.message for record in outcome.records if record.check == "site.mine")
    assert "2 incomplete of 2 nodes" in outcome.stdout


@pytest.mark.parametrize(
    "end", ["raise SystemExit(0)", "import pytest; pytest.skip('so')", "import pytest; pytest.exit('so')"]
)
def test_a_check_cannot_end_the_run_of_a_fleet(site, end):
    outcome = run(site, f"import sys, pytest\n{OWN}    {end}\n", "-k", "mine or link_width")
    assert outcome.exit_code == 1
    assert set(outcome.verdicts("site.mine").values()) == {"error"}
    assert set(outcome.verdicts("pcie.link_width").values()) == {"pass"}


def test_what_a_node_sends_cannot_steer_a_terminal_or_fill_it(site):
    machine = Machine.hgx_h100("gpu0001", 1)
    machine.set_gpu(3, "name", "\x1b]0;owned\x07\x1b[2J\u202eGPU\n\n" + "x" * 100_000)
    (site / "recordings" / "gpu0001" / "facts.json").write_text(json.dumps(machine.document()))
    body = "    '''It holds.'''\n    for gpu in gpus.devices:\n"
    found = "        verdicts.equal(part=gpu.part, quantity='name', observed=gpu.name, expected='x', action='look')\n"
    outcome = run(site, f"def test_mine(gpus, verdicts):\n{body}{found}", "-k", "mine and gpu0001", "-rA")
    assert outcome.exit_code == 1
    said = outcome.stdout
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert len(said) < 30_000
    for finding in outcome.records[0].findings:
        assert "\n" not in finding.message
        assert len(finding.message) < 1100


# A run that stops early accepts nobody


@pytest.mark.parametrize(("more", "code"), [(["-x"], 1), (["--maxfail=1"], 1), (["-x", "-n", "2"], 2)])
def test_a_node_is_not_accepted_by_half_of_its_checks(site, more, code):
    bad = OWN.replace("passed(", "found(__import__('nodegate').Verdict.FAIL, ")
    (site / "checks" / "test_a.py").write_text(bad.replace("test_mine", "test_first"))
    outcome = run(site, OWN, "checks", *more)
    assert outcome.exit_code == code, outcome.stdout
    report = json.loads((outcome.folder / "report.json").read_text())
    assert not [node for node in report["nodes"] if node["verdict"].startswith("accepted")]
    assert report["run"]["interrupted"] is True


def test_a_worker_that_dies_leaves_its_node_incomplete(site):
    text = OWN + "    import os\n    if host.hostname == 'gpu0001': os._exit(1)\n"
    outcome = run(site, text, "-k", "mine or link_width", "-n", "2", "--max-worker-restart=0")
    assert outcome.exit_code in (1, 2), outcome.stdout
    report = json.loads((outcome.folder / "report.json").read_text())
    assert {node["node"]: node["verdict"] for node in report["nodes"]}["gpu0001"] == "incomplete"


def test_another_plugin_cannot_turn_a_rejected_node_into_success(site):
    (site / "conftest.py").write_text(
        "import pytest\n\n@pytest.hookimpl(wrapper=True, tryfirst=True)\ndef pytest_runtest_makereport(item):\n"
        "    report = yield\n    report.outcome = 'passed'\n    return report\n"
    )
    text = OWN.replace("passed(", "found(__import__('nodegate').Verdict.FAIL, ")
    outcome = run(site, text, "-k", "mine")
    assert "rejected" in outcome.stdout
    assert outcome.exit_code == 1


# Without nodes


def test_checks_without_an_inventory_say_what_is_missing(site):
    (site / "checks" / "test_site.py").write_text(OWN)
    outcome = run_pytest(site, ["checks"])
    assert outcome.exit_code == 2
    assert "nodegate's checks need nodes: add --inventory FILE" in outcome.stdout


@pytest.mark.parametrize("more", [[], ["-n", "2"]])
def test_pytest_alone_in_a_site_folder_says_what_is_missing_once(site, more):
    for name in ("test_one.py", "test_two.py"):
        (site / "checks" / name).write_text(OWN)
    outcome = run_pytest(site, more)
    assert outcome.exit_code == 4
    assert outcome.stderr.strip() == (
        f"ERROR: {site}/checks: these are nodegate's checks, which need nodes - "
        "add --inventory FILE, as in: pytest --inventory hosts.yaml"
    )


@pytest.mark.parametrize(
    ("file", "arguments", "codes", "words"),
    [
        ("", [], (5,), "no tests here; for nodes, add --inventory FILE, as in: "),
        ("test_theirs.py", ["-k", "nothing"], (5,), ""),
        ("test_theirs.py", ["--nodes=gpu1"], (4,), "add --inventory FILE"),
        ("test_theirs.py", ["--run-dir=x"], (4,), "add --inventory FILE"),
        ("hosts.yaml", ["hosts.yaml"], (4, 5), "pytest --inventory hosts.yaml"),
        ("hosts.ini", ["hosts.ini"], (4, 5), "pytest --inventory hosts.ini"),
    ],
)
def test_what_is_missing_is_said_and_other_tests_get_no_word_of_ours(tmp_path, file, arguments, codes, words):
    if file:
        text = "def test_it():\n    assert True\n" if file.endswith(".py") else "all: {hosts: {gpu1: }}\n"
        (tmp_path / file).write_text(text)
    outcome = run_pytest(tmp_path, arguments)
    said = outcome.stdout + outcome.stderr
    assert outcome.exit_code in codes
    assert words in said if words else "--inventory" not in said


@pytest.mark.parametrize("more", [[], ["-n", "2"], ["checks/test_site.py"]])
def test_a_waiver_for_a_check_of_the_site_is_known(site, more):
    line = "- {node: gpu0001, check: site.mine, reason: on order, owner: dc-ops, expires: 2099-01-01}\n"
    (site / "waivers.yaml").write_text(line)
    outcome = run(site, OWN, "--waivers=waivers.yaml", "-k", "mine", *more)
    assert outcome.exit_code == 0, outcome.stdout + outcome.stderr
