"""A run takes the site file that is named, nodegate_site, or the one beside its inventory, and keeps what it says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.recorded import run_pytest

from nodegate.commands import accept
from nodegate.errors import UsageError
from nodegate.node import Connection, Node
from nodegate.policy import policy_file
from nodegate.policy.policy import DEFAULT
from nodegate.profile import Profile
from nodegate.records.run import Contract, Criterion, Party
from nodegate.run.settings import Settings
from nodegate.run.site_of_run import as_agreed, of_run, site_of
from nodegate.site.site_file import read

ROOT = Path(__file__).parents[2]
WHOLE = """
parties: {supplier: Example Ltd, test_body: {name: Lab, contact: "lab@example.org"}}
contract: {number: 4500012345, date: 2026-11-01}
lot: {number: "2"}
site: {name: Hall 3}
policy: strict-h100
criteria: {compute: {text: 4.2 compute, clause: "4.2"}}
"""
KEPT = {
    "parties": {"supplier": Party("Example Ltd"), "test_body": Party("Lab", contact="lab@example.org")},
    "contract": {"number": "4500012345", "date": "2026-11-01"},
    "lot": {"number": "2"},
    "site": {"name": "Hall 3"},
    "criteria": {"compute": Criterion("4.2 compute", "4.2")},
}


def agreed(settings, nodes=()):
    return of_run(settings, site_of(settings, nodes), None)


def write(folder, text=WHOLE, name="site.yaml"):
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_the_file_is_named_or_beside_the_inventory(tmp_path):
    hosts = write(tmp_path, "all: {hosts: {gpu1: }}\n", "hosts.yaml")
    file = write(tmp_path)
    named = Node("gpu1", expected={"site": "site.yaml"}, origins={"site": f"{hosts}:1"})
    for settings, nodes in (
        (Settings(site=file), []),
        (Settings(inventory=(str(hosts),)), []),
        (Settings(inventory=("gpu1,",)), [named]),
    ):
        assert agreed(settings, nodes)[1] == Contract(str(file), **KEPT)  # type: ignore[arg-type]
    assert agreed(Settings(inventory=("gpu1,",))) == (Settings(inventory=("gpu1,",), lang="en"), Contract())


def test_what_contradicts_is_refused_with_both_places(tmp_path):
    file = write(tmp_path)
    assert agreed(Settings(site=file))[0].policy == "strict-h100"
    assert agreed(Settings(site=file, policy="strict-h100"))[0].policy == "strict-h100"
    with pytest.raises(UsageError, match=r"site.yaml:6.*strict-h100 here and default on the command line"):
        agreed(Settings(site=file, policy="default"))
    nodes = [
        Node(f"gpu{n}", expected={"site": f"{n}.yaml"}, origins={"site": f"{tmp_path}/hosts.yaml:{n}"}) for n in (1, 2)
    ]
    with pytest.raises(UsageError, match=r"hosts.yaml:2.*hosts.yaml:1 names .*1.yaml"):
        agreed(Settings(), nodes)


def test_the_language_is_the_options_the_files_or_english(tmp_path, monkeypatch):
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    for text, option, said in (
        ("languages: [zh, en]", "", ("zh", ("zh", "en"))),
        ("languages: zh", "", ("zh", ("zh",))),
        ("languages: [zh, en]", "en", ("en", ("en",))),
        ("site: {name: Hall 3}", "", ("en", ())),
        ("site: {name: Hall 3}", "zh", ("zh", ("zh",))),
    ):
        settings, contract = agreed(Settings(site=write(tmp_path, text), lang=option))
        assert (settings.lang, contract.languages) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("parties: {suplier: A}", "did you mean"),
        ("parties:\n  customer: {name: A, phone: 1}", r"site.yaml:2: .*unknown key .?phone"),
        ("contract: {number: 1.10}", "a decimal number in quotes"),
        ("criteria: {compute: {texts: a}}", "unknown key"),
        ("criteria: {comput: {text: a}}", "did you mean"),
        ("lot: 7", "must be a mapping"),
        ("languages: [en, fr]", "languages must be en or zh"),
        ("languages: [zh, zh]", "each language once"),
        ("languages: []", "each language once"),
        ("policy: {name: a}", "policy must be some text"),
        ("site: {name: ''}", "some text of at most"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path, text, said):
    with pytest.raises(UsageError, match=r"site.yaml:\d+: ") as found:
        read(write(tmp_path, text))
    assert found.match(said)


def test_a_run_keeps_it_and_judges_again_with_it(tmp_path):
    file = write(tmp_path, WHOLE.replace("policy: strict-h100\n", "languages: [zh, en]\n"))
    given = [str(ROOT / "checks"), "-p", "no:cacheprovider", "--record", "h.sqlite", "--passive", "--run-dir"]
    demo = ["--inventory", str(ROOT / "inventory" / "demo.yaml"), "--nodes", "hgx01"]
    run_pytest(tmp_path, [*given, "one", *demo, "--site", str(file)])
    run_pytest(tmp_path, [*given, "two", "--replay", "one"])
    for name in ("one", "two"):
        for where in ("run.json", "report.json"):
            found = json.loads((tmp_path / name / where).read_text("utf-8"))
            kept = found.get("run", found)["contract"]
            assert kept["parties"]["supplier"]["name"] == "Example Ltd", (name, where)
            assert kept["file"] == str(file)
        page = (tmp_path / name / "report.html").read_text("utf-8")
        for said in ("Example Ltd", "4500012345, 2026-11-01", "Hall 3", "4.2 4.2 compute", "Lab, lab@example.org"):
            assert said in page, said
        other = (tmp_path / name / "report.en.html").read_text("utf-8")
        assert ('<html lang="zh-CN">' in page, '<html lang="en">' in other) == (True, True)


def test_accept_is_the_delivery(capsys, monkeypatch, tmp_path):
    said: list[list[str]] = []
    monkeypatch.setattr(accept.test, "run", lambda words: said.append(list(words)) or 7)
    monkeypatch.chdir(tmp_path)
    assert accept.run(["--inventory", "a,", "-x"]) == 7
    assert accept.run(["--profile", "nightly", "--inventory", "a,"]) == accept.run([]) == accept.WRONG_USE
    write(tmp_path, "night: {inventory: 'gpu[1-2],'}")
    assert accept.run([]) == 7
    assert said == [
        ["--profile", "delivery", "--inventory", "a,", "-x"],
        ["--profile", "delivery", "--inventory", "gpu[1-2],", "--site", "site.yaml"],
    ]
    assert "profile delivery" in capsys.readouterr().err


# The burn that a contract asks for: taken by itself, refused before any load where --burn is shorter


LIVE = [Node("gpu01", Connection(address="192.0.2.1"))]
RECORDED = [Node("gpu01", Connection(transport="replay"))]
STRICT = policy_file.read("strict-h100").limits


def test_without_burn_the_contract_says_how_long_and_the_end_is_told():
    settings, (note,) = as_agreed(Settings(), STRICT, LIVE)
    assert settings.burn == "24h"
    assert note.startswith("--burn 24h, as the policy asks: a burn that starts now ends at 20")


@pytest.mark.parametrize("burn", ["10m", "23h", "86399s"])
def test_a_shorter_burn_is_refused_with_both_times(burn):
    with pytest.raises(
        UsageError, match=rf"--burn {burn}: the policy asks for 24 h \(contract.burn_h\) - write --burn 24h"
    ):
        as_agreed(Settings(burn=burn), STRICT, LIVE)


@pytest.mark.parametrize(
    ("change", "nodes"),
    [
        ({"burn": "24h"}, LIVE),
        ({"burn": "3d"}, LIVE),
        ({"burn": "10m"}, RECORDED),
        ({"burn": "10m", "replay": "reports/earlier"}, LIVE),
        ({"burn": "10m", "resume": "reports/earlier"}, LIVE),
        ({"load": False}, LIVE),
        ({"profile": Profile.NIGHTLY}, LIVE),
    ],
    ids=["as long", "longer", "recorded", "replay", "resume", "passive", "another profile"],
)
def test_nothing_is_refused_where_enough_is_burnt_or_nothing_is(change, nodes):
    settings = replace(Settings(), **change)  # type: ignore[arg-type]
    assert as_agreed(settings, STRICT, nodes) == (settings, ())


def test_a_policy_that_asks_for_no_time_changes_nothing():
    assert as_agreed(Settings(), policy_file.read(DEFAULT).limits, LIVE) == (Settings(), ())
