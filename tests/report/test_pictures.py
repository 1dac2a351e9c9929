"""The pictures of report.html show the numbers of the run: each is read back from its SVG."""

import contextlib
import re
import shutil
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from support import browser
from support.recorded import run_pytest

from nodegate import open_run
from nodegate.cli import main
from nodegate.records import part
from nodegate.records.finding import Finding, Limit, Record
from nodegate.records.part import Kind
from nodegate.records.run import NodeReport
from nodegate.records.run_folder import RunFolder
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.json_file import load
from nodegate.report.pictures import acceptance, burn, dots, racks, rails
from nodegate.report.pictures.axis import axis
from nodegate.report.pictures.values import every_value, values
from nodegate.report.stats import Measurement, measurements

INVENTORY = Path(__file__).parents[2] / "inventory" / "demo.yaml"
RING = re.compile(r'<(?:circle|path) class="bad"[^>]*><title>([^<]*)</title>')
CHANGED = """
update numbers set value = ? where series in (select sequences.id from sequences join parts on parts.id = part
join quantities on quantities.id = quantity where metric = 'burn.bf16_tflops' and parts.id in (
select part from places where node = 'hgx01' and slot = 'GPU 1'))
"""
PLACES = (("", part.NODE, 0),) * 2
MOVE = re.compile(r"M([\d.]+) ([\d.]+)(?:h0|v-([\d.]+))")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("pictures")
    run_pytest(here, ["--inventory", str(INVENTORY), "--nodes", "hgx0[1-8]", "--run-dir", str(here / "run")])
    return here / "run"


@pytest.fixture(scope="module")
def run(folder):
    return open_run(folder)


@pytest.fixture(scope="module")
def report(folder):
    return load(folder)


@pytest.mark.long
@pytest.mark.parametrize("metric", ["burn.bf16_tflops", "memory.host_to_device_gb_per_s"])
def test_each_dot_is_a_value_and_what_did_not_pass_is_named(metric, run, report):
    entry = next(each for each in measurements(report.nodes) if each.metric == metric)
    own = run.values[(run.values.metric == metric) & (run.values.check == entry.check)]
    bad, good = own[own.verdict != "pass"].sort_values("value"), own[own.verdict == "pass"]
    picture = dots.dots(entry)
    assert [said.partition(":")[0] for said in RING.findall(picture)] == list(bad.node + " " + bad.part)
    along = axis(sorted(own.value), dots.WIDTH, entry.limit, entry.median)
    columns = Counter(int(along.at(value) / 3) for value in good.value)
    assert Counter(int(float(x) / 3) for x, _, high in MOVE.findall(picture) if not high) == columns
    assert f"{len(bad)} of {len(own)} did not pass: " in dots.finding(entry)


def test_many_values_are_bars_of_equal_measure():
    held = tuple(float(at % 7) for at in range(700))
    entry = Measurement("p", "c", "m", "q", "GB/s", tuple(sorted(held)), 100, 3.0, 2.0, *PLACES, -1.0, passed=700)
    assert len({high for _, _, high in MOVE.findall(dots.dots(entry))}) == 1
    assert dots.finding(entry) == "700 of 700 passed"
    assert dots.finding(replace(entry, limit=None)) == "700 values without a limit"


@pytest.mark.parametrize("verdict", [Verdict.ERROR, Verdict.WARN, Verdict.NOT_JUDGED])
def test_what_did_not_pass_or_was_held_to_nothing_is_not_drawn_as_good(verdict):
    limit = None if verdict is Verdict.NOT_JUDGED else Limit(400.0, "Gb/s", "test")
    held = {"unit": "Gb/s", "limit": limit, "metric": "rdma.write_gbps"}
    of = [Finding(part.nic(f"mlx5_{at}"), verdict, "rate", observed=500.0 + at, **held) for at in range(100)]
    nodes = [NodeReport("gpu1", NodeVerdict.REJECTED, "hgx", records=(Record("gpu1", "c", verdict, tuple(of)),))]
    (entry,) = measurements(nodes)
    ((said, picture),) = rails.heat_maps(values(every_value(nodes))[Kind.NIC])
    for shown in (picture, dots.dots(entry)):
        assert not re.search(r'class="(good|heat\d|bars passed)"', shown)
    is_bad = verdict is not Verdict.NOT_JUDGED
    words = "100 of 100 did not pass: gpu1 mlx5_0 (500)" if is_bad else "100 values without a limit"
    assert words in said
    assert words in dots.finding(entry)
    assert len(entry.named) == (60 if is_bad else 0)
    assert picture.count('class="bad"') == (100 if is_bad else 0)


def test_one_far_value_does_not_press_the_others_together():
    held = [*(700.0 + at / 10 for at in range(100)), 1e9]
    along = axis(held, 300)
    assert along.at(709.9) - along.at(700.0) > 60
    assert (along.holds(1e9), along.at(1e9)) == (False, 300)


def test_bars_of_a_node_are_its_gpus(run, report):
    said, drawn = racks.gpu_bars(values(every_value(report.nodes))[Kind.GPU])
    assert said == "bf16 rate (TFLOPS)"
    own = run.values[(run.values.metric == "burn.bf16_tflops") & (run.values.check == "burn.throughput")]
    middle = median(own.value)
    assert set(drawn) == set(own.node)
    for node, picture in drawn.items():
        bars = sorted((float(x), float(high)) for x, _, high in MOVE.findall(picture))
        of_node, wide = own[own.node == node].value / middle, racks.HIGHEST - racks.LOWEST
        shares = [min(1.0, (value - racks.LOWEST) / wide) for value in of_node]
        assert [high for _, high in bars] == pytest.approx([max(1.0, racks.HEIGHT * each) for each in shares], rel=0.01)
        slow = own[(own.node == node) & (own.verdict == "fail")]
        assert picture.count('class="bad"') == bool(len(slow))
        assert all(f"{part}: " in picture for part in slow.part)


def test_a_cell_of_the_map_is_a_rail_of_a_node(run, report):
    ((said, picture),) = rails.heat_maps(values(every_value(report.nodes))[Kind.NIC])
    own = run.values[run.values.metric == "rdma.write_gbps"]
    bad = own[own.verdict == "fail"]
    assert sorted(each.partition(":")[0] for each in RING.findall(picture)) == sorted(bad.node + " " + bad.part)
    runs = [float(wide) for wide in re.findall(r"M[\d.]+ [\d.]+h([\d.]+)", picture)]
    assert sum((wide + 1) / rails.WIDEST for wide in runs) == len(own) > len(runs)
    assert f"{len(bad)} of {len(own)} did not pass" in said


def test_the_burn_of_a_slow_gpu_stands_beside_a_good_one(report, folder):
    def lines(picture):
        return (len(points.split()) for points in re.findall(r'points="([^"]*)"', picture))

    found = burn.burns(report, RunFolder(folder))
    assert [(each.node, each.gpu) for each in found] == [("hgx08", "GPU 4"), ("hgx02", "GPU 2")]
    for each in found:
        assert each.value < (each.limit or 0.0)
        for (_, bad, beside), (said, picture) in zip(each.curves, burn.curves(each), strict=True):
            assert list(lines(picture)) == [len(beside), len(bad)]
            assert said.startswith(f"{each.gpu}: ")
    assert "hgx08 GPU 4 (red): 193 TFLOPS, the limit is 657; beside it" in burn.finding_of(found[0])


def test_a_burn_without_a_course_or_a_good_gpu_beside_is_not_drawn(report, folder):
    (node,) = (each for each in report.nodes if each.node == "hgx08")
    (record,) = (each for each in node.records if each.check == "burn.throughput")
    found = {(each.part.short, each.metric): each for each in record.findings}
    finding = found["GPU 4", "burn.bf16_tflops"]
    loads = burn._loads("hgx08", RunFolder(folder))
    assert burn._beside("hgx08", finding, loads, {4}) is not None
    assert burn._beside("hgx08", finding, loads, set(range(8))) is None
    assert burn._beside("hgx08", finding, {}, {4}) is None
    bare = {at: replace(load, windows=load.windows[:1]) for at, load in loads.items()}
    assert burn._beside("hgx08", finding, bare, {4}) is None


@pytest.mark.parametrize("page", ["certificate.html", "certificate.zh.html"])
def test_axe_finds_nothing_on_a_certificate(page, folder):
    assert browser.accessibility(folder / page, 1280, dark=False) == []


@pytest.fixture(scope="module")
def second(folder, tmp_path_factory):
    """A later run with the record in which the first is, of which one value was changed."""
    here = tmp_path_factory.mktemp("second")
    record = shutil.copy(folder.parent / "reports" / "fleet.sqlite", here / "record.sqlite")
    with contextlib.closing(sqlite3.connect(record)) as base, base:
        base.execute(CHANGED, (900.0,))
    asked = ["--inventory", str(INVENTORY), "--nodes", "hgx0[1-8]", "--record", str(record)]
    run_pytest(here, [*asked, "--run-dir", str(here / "run")])
    return here / "run"


@pytest.mark.long
@pytest.mark.parametrize("again", [False, True])
def test_each_dot_is_a_part_and_its_acceptance(again, run, second, tmp_path):
    if again:
        second = shutil.copytree(second, tmp_path / "again")
        assert main(["report", str(second)]) == 0
    rows = acceptance.against(every_value(load(second).nodes), acceptance.kept(second))
    now, page = open_run(second).values, (second / "report.html").read_text("utf-8")
    assert len(rows) == len(set(now.metric) & set(acceptance.METRICS)) > 4
    (bf16,) = (each for each in rows if each.quantity == "bf16 rate")
    rates = [of[(of.metric == "burn.bf16_tflops") & (of.check == "burn.throughput")] for of in (run.values, now)]
    both = [frame.set_index(["node", "part"]) for frame in rates]
    both[0].loc[("hgx01", "GPU 1"), "value"] = 900.0
    pairs = {each.where: (each.then, each.now) for each in bf16.pairs}
    expected = {f"{node} {part}": [of.value[node, part] for of in both] for node, part in both[1].index}
    assert pairs.keys() == expected.keys()
    assert all(pairs[where] == pytest.approx(held) for where, held in expected.items())
    picture = str(acceptance.scatter(bf16))
    assert picture in page
    along = axis(sorted(value for pair in pairs.values() for value in pair), acceptance.SIZE)
    drawn = re.findall(r'<circle class="bad" cx="([\d.]+)" cy="([\d.]+)" r="2.5"><title>([^:]*): ', picture)
    bad = both[1][both[1].verdict == "fail"]
    assert {where for _, _, where in drawn} == {f"{node} {part}" for node, part in bad.index} != set()
    for x, y, where in drawn:
        then, value = pairs[where]
        assert (float(x), acceptance.SIZE - float(y)) == pytest.approx((along.at(then), along.at(value)), abs=0.1)
    good = [pair for where, pair in pairs.items() if where not in {where for _, _, where in drawn}]
    at = [(along.at(then), acceptance.SIZE - along.at(value)) for then, value in good]
    places = {(round(x / 2) * 2, round(y / 2) * 2) for x, y in at}
    assert {(int(x), int(y)) for x, y in re.findall(r"M(\d+) (\d+)h0", picture)} == places
    assert "most lost at hgx01 GPU 1: 741, 900 at acceptance" in acceptance.finding_of(bf16)


def test_without_an_acceptance_there_is_no_such_picture(folder):
    assert not (folder / acceptance.FILE).exists()
    assert "This run against acceptance" not in (folder / "report.html").read_text("utf-8")


def test_a_picture_of_a_large_fleet_is_small():
    pairs = tuple(
        acceptance.Pair(700.0 + at % 97, 700.0 + at % 89, f"n{at} GPU 0", "bad" if at % 9 == 0 else "good")
        for at in range(10_000)
    )
    picture = acceptance.scatter(
        acceptance.Against("p", "q", "TFLOPS", (*pairs, acceptance.Pair(1.0, 1e9, "far", "bad")), 0)
    )
    assert len(picture) < 48_000
    assert picture.count("<title>") == 60
