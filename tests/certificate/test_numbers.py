"""Each number of a certificate is the one that pandas finds in the results, on the demo and on 16 nodes."""

import gzip
import json
from html.parser import HTMLParser

import pandas as pd
import pytest
from fleet.machine import Machine
from support.recorded import run_pytest, write_fleet

from nodegate.claims.table import claims
from nodegate.metric_names import METRICS, words
from nodegate.text import with_unit

GOOD = {"accepted", "accepted-with-waivers", "accepted-with-gaps"}
SIGNS = {"at least": "at least ", "at most": "at most ", "": ""}


class Rows(HTMLParser):
    """The cells of each row of an HTML file, as text."""

    def __init__(self, text):
        super().__init__()
        self.rows: list[list[str]] = []
        self._in = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
            self._in = True
        if tag in ("div", "span") and self._in:
            self.rows[-1][-1] += "\n"

    def handle_endtag(self, tag):
        self._in = self._in and tag not in ("td", "th")

    def handle_data(self, data):
        if self._in:
            self.rows[-1][-1] += data


def results(folder):
    report = json.loads((folder / "report.json").read_text("utf-8"))
    about = {node["node"]: node for node in report["nodes"]}
    rows = []
    for line in gzip.decompress((folder / "results.jsonl.gz").read_bytes()).splitlines():
        record = json.loads(line)
        for each in record["findings"]:
            value, limit = each["observed"], each["limit"]
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            bound = limit and isinstance(limit["value"], (int, float)) and not isinstance(limit["value"], bool)
            row = {
                "platform": about[record["node"]]["platform"],
                "good": about[record["node"]]["verdict"] in GOOD,
                "check": record["check"],
                "metric": each["metric"] or each["quantity"],
                "unit": each["unit"],
                "value": float(value),
                "passed": each["verdict"] == "pass",
                "limit": float(limit["value"]) if bound else None,
                "direction": limit["direction"] if bound else "",
            }
            rows += [row] * (1 + len(each["also"]))
    return pd.DataFrame(rows)


def expected(folder):
    """Platform, quantity, worst, median, worst of accepted, kept; and each limit, for each claim in its order."""
    found = []
    table = results(folder)
    nodes = json.loads((folder / "report.json").read_bytes())["nodes"]
    made = {each["claim"] for node in nodes for each in node["claims"]}
    for claim in (each for each in claims() if each.name in made):
        by = {*claim.numbers, *claim.amounts}
        mine = table[table.check.isin(by) | (table.check.isin(claim.proving) & table.metric.isin(METRICS))]
        for (platform, _, metric, unit), rows in mine.groupby(["platform", "check", "metric", "unit"]):
            most = (rows.direction == "at most").any()
            pick = max if most else min
            good = rows[rows.good].value
            limits = rows.dropna(subset="limit")[["limit", "direction"]].drop_duplicates().sort_values("limit")
            told = list(dict.fromkeys(SIGNS[way] + with_unit(value, unit) for value, way in limits.to_numpy()))
            found.append(
                (
                    *(platform, words(metric) if metric in METRICS else metric),
                    *(with_unit(pick(rows.value), unit), with_unit(rows.value.median(), unit)),
                    *(with_unit(pick(good), unit) if len(good) else "", f"{rows.passed.sum()} / {len(rows)}"),
                    *(told if len(told) <= 3 else (told[0], told[-1])),
                )
            )
    return found


def printed(folder):
    found = []
    for cells in Rows((folder / "certificate.html").read_text("utf-8")).rows:
        if len(cells) == 7 and cells[0] != "Platform":
            platform, quantity, limits, worst, median, accepted, kept = (cell.strip() for cell in cells)
            told = [each.split("\n")[0].strip() for each in limits.split("; ")] if limits != "none" else []
            found.append((platform, quantity, worst.split("\n")[0], median, accepted, kept, *dict.fromkeys(told)))
    return found


@pytest.mark.long
def test_the_demo(delivery):
    found = printed(delivery.first)
    assert len(found) > 60
    assert sorted(found) == sorted(expected(delivery.first))


@pytest.mark.long
def test_16_nodes(tmp_path):
    machines = [Machine.hgx_h100(f"gpu{number:04d}", number) for number in range(1, 17)]
    write_fleet(tmp_path, machines)
    run_pytest(tmp_path, ["--inventory", "hosts.yaml", "--run-dir", "run", "-q"])
    found = printed(tmp_path / "run")
    assert {cells[5] for cells in found} & {"16 / 16", "128 / 128"}
    assert sorted(found) == sorted(expected(tmp_path / "run"))


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("GPUs on PCIe", ("128", "128", "16", "as ordered")),
        ("RDMA NICs on PCIe", ("136", "136", "20", "as ordered")),
        ("installed memory", ("26624 GiB", "26624 GiB", "4096 GiB", "as ordered")),
        ("GPU model", ("NVIDIA H100 80GB HBM3", "79 / 79", "16 / 16", "not known; not known: hgx03")),
    ],
)
def test_ordered_delivered_accepted(delivery, item, told):
    rows = Rows((delivery.first / "certificate.html").read_text("utf-8")).rows
    first = next(cells for cells in rows if cells and cells[0] == item)
    assert tuple(" ".join(cell.split()) for cell in first[1:]) == told
