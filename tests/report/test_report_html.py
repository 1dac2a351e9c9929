"""report.html in a real Chromium: what a node sends stays text, and the page stays small and quick."""

import re
import time
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from support import browser, sample_report
from support.sample_report import fleet

from nodegate.files.text_file import Source
from nodegate.knowledge.failure_modes import failure_modes
from nodegate.records import part
from nodegate.records.claim import Amount, Shown, State
from nodegate.records.finding import Finding, Limit, Record
from nodegate.records.run import CheckInfo, Drift, NodeReport
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.model import Report
from nodegate.report.render import render

BAD = (Verdict.FAIL, Verdict.ERROR, Verdict.WARN)
SCRIPT = "<script>alert(1)</script>"
BREAKOUT = "</script><script>document.documentElement.dataset.pwned='yes'</script><img src=x onerror=alert(1)>"
ATTRIBUTE = '" onmouseover="document.documentElement.dataset.pwned=\'yes\'" x="'


class Elements(HTMLParser):
    """The elements of a document with their attributes."""

    def __init__(self, document):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(document)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def named(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def written(report, folder):
    render(report, folder)
    return folder / "report.html"


def hostile():
    """Every field that a node or a file fills holds markup."""
    told = {"text": BREAKOUT, "note": ATTRIBUTE, "action": BREAKOUT, "code": SCRIPT}
    limit = Limit(BREAKOUT, SCRIPT, ATTRIBUTE)
    found = Finding(part.nic(SCRIPT, netdev=ATTRIBUTE), Verdict.FAIL, BREAKOUT, 3, SCRIPT, limit, **told)
    files = ("javascript:alert(1)", "evidence/../../etc/passwd", "evidence/a/facts.json", BREAKOUT)
    record = Record("gpu001", f"gpu.{ATTRIBUTE}", Verdict.FAIL, (found,), (SCRIPT,), files)
    waiver = Record("gpu001", "a.b", Verdict.FAIL, (found,), waiver=BREAKOUT)
    unjudged = replace(found, verdict=Verdict.NOT_JUDGED)
    skipped = replace(found, verdict=Verdict.SKIP)
    told = (record, waiver, Record("gpu001", BREAKOUT, Verdict.NOT_JUDGED, (unjudged,)))
    named = ({SCRIPT: BREAKOUT}, ((SCRIPT, BREAKOUT),))
    nodes = (
        NodeReport("gpu001", NodeVerdict.REJECTED, SCRIPT, BREAKOUT, *named, told),
        NodeReport(ATTRIBUTE, NodeVerdict.UNREACHABLE, unreachable=BREAKOUT),
        NodeReport(
            "</script>", NodeVerdict.NOT_JUDGED, records=(Record("</script>", "a.b", Verdict.SKIP, (skipped,)),)
        ),
    )
    run = sample_report.run(command=BREAKOUT, host=ATTRIBUTE, inventory=(Source(BREAKOUT, SCRIPT),), selection=BREAKOUT)
    drift = (Drift(SCRIPT, BREAKOUT, ATTRIBUTE, 1, 2, {BREAKOUT: (ATTRIBUTE,)}),)
    return Report(run, nodes, drift, {f"gpu.{ATTRIBUTE}": CheckInfo(BREAKOUT, (SCRIPT,))})


def test_what_a_node_sends_stays_text(tmp_path):
    dom = browser.dump_dom(written(hostile(), tmp_path), fragment="node=gpu001")
    assert 'data-ready="yes"' in dom  # our own script ran to its end
    assert "data-pwned" not in dom
    elements = Elements(dom)
    assert [script.get("type") for script in elements.named("script")] == ["application/json", None]
    assert elements.named("img") == []
    assert [name for _, attributes in elements.found for name in attributes if name.startswith("on")] == []
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in dom


def test_evidence_is_linked_only_inside_the_run_folder(tmp_path):
    dom = browser.dump_dom(written(hostile(), tmp_path))
    targets = {link["href"] for link in Elements(dom).named("a")}
    assert {target for target in targets if target and not target.startswith("#")} == {"evidence/a/facts.json"}


def test_chromium_has_nothing_to_say(tmp_path):
    assert browser.console(written(fleet(16), tmp_path / "good")) == []
    assert browser.console(written(hostile(), tmp_path / "hostile")) == []


def test_the_policy_stops_what_escaping_would_let_through(tmp_path):
    """A second line of defence that holds by itself: markup put into the page by hand does not run."""
    page = written(fleet(8), tmp_path)
    page.write_text(page.read_text(encoding="utf-8").replace("<main>", f"<main>{BREAKOUT}", 1), encoding="utf-8")
    assert "data-pwned" not in browser.dump_dom(page)
    assert any("Content Security Policy" in line for line in browser.console(page))


def test_the_page_needs_nothing_from_outside(tmp_path):
    text = written(fleet(16), tmp_path).read_text(encoding="utf-8")
    elements = Elements(text)
    assert "://" not in text
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert not [name for _, found in elements.found for name in found if name in ("src", "srcset", "action", "style")]
    assert elements.named("link") == []
    [policy] = [found["content"] for found in elements.named("meta") if found.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_hidden_characters_are_written_out(tmp_path):
    evil = Finding(part.NODE, Verdict.FAIL, text="evil \u202e txt \x1b[2J \udc80")
    node = NodeReport("gpu001", NodeVerdict.REJECTED, records=(Record("gpu001", "a.b", Verdict.FAIL, (evil,)),))
    text = written(Report(sample_report.run(), (node,)), tmp_path).read_text(encoding="utf-8")
    assert "evil \\u202e txt \\x1b[2J \\udc80" in text
    assert "\u202e" not in text


def test_what_a_person_signs_is_there_without_any_script(tmp_path):
    text = re.sub(r"(?s)<script.*", "", written(fleet(16), tmp_path).read_text(encoding="utf-8"))
    for words in (
        "10 of 16 nodes accepted",
        "80 of 120 GPUs accepted (of 15 of 16 nodes; the others are not counted).",
        "Not accepted: 3 rejected; 2 incomplete: something could not be measured, or a claim is not proven; 1 not reachable.",  # noqa: E501
        "gpu[001,003,005,007-009,011,013,015]",  # which nodes are accepted
        "Xid 79 (GPU has fallen off the bus) once since boot",
        "power-cycle; then RMA",
        "riser on order, PO 8841; owner R. Weiss; expires 2026-12-15",
        "not asked for: no second node in this run",
        "535.183.01",  # drift
        "The pcie link width is as it should be.",
        "pytest --inventory hosts.yaml --profile delivery",
        "a7" * 32,  # the baseline's fingerprint
        "Signature",
        f'title="{failure_modes()["F05"].name}">F05</abbr>',
    ):
        assert words in text, words


def test_the_matrix_shows_letters_as_well_as_colours(tmp_path):
    dom = browser.dump_dom(written(fleet(16), tmp_path))
    body = dom[dom.index('id="grid"') : dom.index('id="node"')]
    assert body.count("<tr") == 17
    [row] = re.findall(r'<tr data-index="\d+"><th[^>]*><a href="#node=gpu012">.*?</tr>', body)
    assert '<b class="sign fail">F</b>' in row
    assert 'aria-label="fail: pcie.link_width"' in row
    assert "connection timed out" in body  # a node out of reach says why instead


def test_a_link_to_a_node_opens_it(tmp_path):
    dom = browser.dump_dom(written(fleet(128), tmp_path), fragment="node=gpu001")
    opened = dom[dom.index('id="articles"') : dom.index('id="measurements"')]
    assert re.findall(r"<h3>(.*?)</h3>", opened) == ["gpu001"]
    assert "S/N GPU 7" in opened
    dom = browser.dump_dom(written(fleet(16), tmp_path / "few"), fragment="node=gpu012")
    reasons = dom[dom.index('<ul class="reasons">') :]  # its causes, worst first
    assert 'href="#cause=1600000012003/pcie_narrow"' in reasons[: reasons.index("</ul>")]


def test_a_nodes_page_says_what_is_proven_of_it_and_how_much(tmp_path):
    hot = Amount("temperature under load", "°C", 58.0, 71.0, 8, "GPU")
    claims = (
        Shown("identity", State.PROVEN, by=("platform.known",)),
        Shown("burned", State.PROVEN, by=("burn.power",), amounts=(hot,)),
        Shown("rails", State.NOT_PROVEN, "no ib_write_bw", ("rdma_bandwidth.complete",), signed="ticket 4711"),
        Shown("links", State.REFUTED, "GPU 3: link width 8 lanes", ("pcie.link_width",)),
    )
    report = fleet(16)
    report = replace(report, nodes=tuple(replace(node, claims=claims) for node in report.nodes))
    dom = browser.dump_dom(written(report, tmp_path), fragment="node=gpu001")
    opened = dom[dom.index('id="articles"') : dom.index('id="measurements"')]
    shown = opened[opened.index("2 of 4 claims proven") :]
    said = re.findall(r'<li><span class="badge (\w+)">([\w-]+)</span> (.*?)</li>', shown[: shown.index("</ul>")])
    assert said == [
        ("pass", "proven", "burned: 8 GPUs: temperature under load 58 to 71 °C"),
        ("error", "not-proven", "rails: no ib_write_bw; signed: ticket 4711"),
        ("fail", "refuted", "links: GPU 3: link width 8 lanes"),
    ]
    assert "128 GPUs: temperature under load 58 to 71 °C" in dom[: dom.index('id="findings"')]


def test_the_small_page_carries_what_passed_and_the_large_one_says_where_it_is(tmp_path):
    small = browser.dump_dom(written(fleet(8), tmp_path / "small"), fragment="node=gpu001")
    assert "passed, with what was measured" in small
    assert "busbw at 8 GiB" in small[small.index('id="articles"') : small.index('id="measurements"')]
    large = browser.dump_dom(written(fleet(128), tmp_path / "large"), fragment="node=gpu001")
    assert "The values of passed checks are in results.jsonl.gz." in large


@pytest.mark.long
def test_paper_has_every_node_with_a_finding(tmp_path):
    pypdf = pytest.importorskip("pypdf")
    report = fleet(200)
    browser.print_pdf(written(report, tmp_path), tmp_path / "page.pdf")
    paper = "".join(page.extract_text() for page in pypdf.PdfReader(tmp_path / "page.pdf").pages)
    printed = set(re.findall(r"SN\d{9}", paper))
    loud = [node for node in report.nodes if any(record.verdict in BAD for record in node.records)]
    assert len(loud) > 8
    assert printed == {node.serials["chassis"] for node in loud if node.serials}
    assert "Signature" in paper


def test_an_empty_run_says_so(tmp_path):
    page = written(Report(sample_report.run(interrupted=True)), tmp_path)
    dom = browser.dump_dom(page)
    assert "No node was judged" in dom
    assert "The run was interrupted" in dom
    assert 'data-ready="yes"' in dom


def test_a_fleet_out_of_reach_says_so_in_one_row(tmp_path):
    reason = "connection refused"
    nodes = tuple(NodeReport(f"gpu{index:03d}", NodeVerdict.UNREACHABLE, unreachable=reason) for index in range(1, 41))
    dom = browser.dump_dom(written(Report(sample_report.run(), nodes), tmp_path))
    assert "0 of 40 nodes accepted" in dom
    findings = dom[dom.index('id="findings"') : dom.index('id="matrix"')]
    assert findings.count('<tbody class="cause"') == 1
    assert "gpu[001-040]" in findings
    assert "connection refused" in findings
    assert "nodegate doctor" in findings
    assert 'data-ready="yes"' in dom


@pytest.mark.long
def test_a_large_fleet_is_made_in_seconds_and_stays_below_two_megabytes(tmp_path):
    report = fleet(1250)
    started = time.process_time()
    page = written(report, tmp_path)
    assert time.process_time() - started < 60  # 3 s on an idle core; the machines of others are slow
    assert page.stat().st_size < 2_000_000
    dom = browser.dump_dom(page)
    assert 'data-ready="yes"' in dom
    assert dom.count("<tr data-index=") == 1250


@pytest.mark.long
def test_the_size_is_bounded_where_every_node_says_something_else(tmp_path):
    nodes = []
    for index in range(300):
        name = f"gpu{index:03d}"
        said = [{"text": "x" * 900, "code": f"{name} {k}", "action": f"fix {k}"} for k in range(100)]
        found = tuple(Finding(part.nic(f"d{k}"), Verdict.FAIL, **each) for k, each in enumerate(said))
        record = Record(name, "a.b", Verdict.FAIL, found)
        nodes.append(NodeReport(name, NodeVerdict.REJECTED, records=(record,)))
    page = written(Report(sample_report.run(), tuple(nodes)), tmp_path)
    assert page.stat().st_size < 9_000_000  # the findings are 27 MB
    assert "29,500 more rows are in report.json" in page.read_text(encoding="utf-8")


def test_not_judged_has_a_letter_of_its_own_and_stands_apart_from_what_does_not_apply(tmp_path):
    records = (sample_report.unjudged("gpu001", "burn.throughput"), sample_report.skipped("gpu001", "fabric.read_bw"))
    node = NodeReport("gpu001", NodeVerdict.ACCEPTED, records=(*records, sample_report.passed("gpu001", "gpu.count")))
    dom = browser.dump_dom(written(Report(sample_report.run(), (node,)), tmp_path))
    matrix = dom[dom.index('id="grid"') : dom.index('id="node"')]
    assert '<b class="sign not-judged">N</b>' in matrix
    assert '<b class="sign skip">–</b>' in matrix  # noqa: RUF001 - the cell's sign
    legend = dom[dom.index('class="note legend"') : dom.index('id="grid"')]
    assert "not judged" in legend
    assert "does not apply" in legend
    section = dom[dom.index('id="not-judged"') : dom.index('id="words"')]
    unjudged, inapplicable = section.split("Does not apply here")
    assert "no baseline has a limit for what was measured" in unjudged
    assert "burn.fp64_tflops" in unjudged
    assert "no second node in this run" in inapplicable
    assert "1 check was not judged on 1 node" in dom


def asking(page, script, **more):
    """The page after a script of ours ran in it, which its own policy would not let run."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text(encoding="utf-8"))
    page.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    return browser.dump_dom(page, **more)


def test_no_table_is_wider_than_the_screen(tmp_path):
    """What does not fit scrolls in its own frame; the page itself never does."""
    ask = """const wide = [...document.querySelectorAll("main *")].filter((each) => !each.closest(".scroll")
        && each.getBoundingClientRect().right > document.documentElement.clientWidth + 1);
      const page = document.documentElement;
      const names = wide.map((each) => each.className || each.tagName);
      page.dataset.wide = [page.scrollWidth - page.clientWidth, ...names].join(" ");"""
    [wide] = re.findall(r'<html[^>]* data-wide="([^"]*)"', asking(written(fleet(64), tmp_path), ask, width=390))
    assert wide.split() == ["0"]


def shown(dom):
    causes, nodes = (re.search(rf'id="{name}"[^>]*>([^<]*)<', dom) for name in ("causes-shown", "shown"))
    return causes[1] if causes else "", nodes[1] if nodes else ""


def test_the_address_holds_the_filters(tmp_path):
    page = written(fleet(64), tmp_path)
    all_causes, all_nodes = shown(browser.dump_dom(page))
    dom = browser.dump_dom(page, "show=severity=unusable&find=gpu001&without=accepted")
    causes, nodes = shown(dom)
    unusable = re.findall(r'<tbody class="cause"[^>]*data-severity="unusable"', dom)
    assert int(causes.split()[0]) == len(unusable) < int(all_causes.split()[0])
    assert int(nodes.split()[0]) <= 1 < int(all_nodes.split()[0])
    assert shown(browser.dump_dom(page, "show=")) == (all_causes, all_nodes)


def test_a_filter_that_is_set_is_written_into_the_address(tmp_path):
    ask = """addEventListener("load", () => {
      const find = document.getElementById("find");
      find.value = "gpu00 a&b";
      find.dispatchEvent(new Event("input", { bubbles: true }));
      document.documentElement.dataset.address = location.hash;
    });"""
    assert 'data-address="#show=find=gpu00+a%26b"' in asking(written(fleet(64), tmp_path), ask)


@pytest.mark.long
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, False), (1280, True)])
def test_axe_finds_nothing(tmp_path, width, dark):
    assert browser.accessibility(written(fleet(8), tmp_path), width, dark=dark) == []
