"""`nodegate baseline`: learn from a run, show what holds, compare two files."""

import argparse

import pytest
from fleet.machine import Machine
from support.measured import ALL_REDUCE, metric
from support.recorded import run_pytest, write_fleet

from nodegate.commands import baseline
from nodegate.errors import UsageError
from nodegate.files.paths import suite_folder
from nodegate.learn.learn import LearnedFrom
from nodegate.records.run import Run

ENTRY = """
  nccl.all_reduce_gb_per_s:
    value: {value}
    unit: GB/s
    source: s
    direction: at least
    tolerance: 0.05
    parameters: {{nccl: "{nccl}"}}
"""


def command(*arguments):
    parser = argparse.ArgumentParser()
    baseline.add_arguments(parser)
    return baseline.run(parser.parse_args(arguments))


def write(folder, name, entries, platform="hgx-h100-8"):
    (folder / name).write_text(f"platform: {platform}\nlimits:\n{entries}")
    return str(folder / name)


class TestDiff:
    def test_the_same(self, tmp_path, capsys):
        one = write(tmp_path, "a.yaml", ENTRY.format(value=480, nccl="2.27.3"))
        assert command("diff", one, one) == 0
        assert capsys.readouterr().out == ""

    def test_another_value(self, tmp_path, capsys):
        one = write(tmp_path, "a.yaml", ENTRY.format(value=480, nccl="2.27.3"))
        other = write(tmp_path, "b.yaml", ENTRY.format(value=432, nccl="2.27.3").replace("0.05", "0.1"))
        assert command("diff", one, other) == 1
        assert capsys.readouterr().out == (
            "nccl.all_reduce_gb_per_s: 480 GB/s -> 432 GB/s (-10.0 %) for nccl 2.27.3\n"
            "nccl.all_reduce_gb_per_s: tolerance 0.05 -> 0.1 for nccl 2.27.3\n"
        )

    def test_other_conditions_are_not_compared_and_the_difference_is_named(self, tmp_path, capsys):
        one = write(tmp_path, "a.yaml", ENTRY.format(value=480, nccl="2.21.5"))
        other = write(tmp_path, "b.yaml", ENTRY.format(value=480, nccl="2.27.3"))
        assert command("diff", one, other) == 2
        assert capsys.readouterr().out == "nccl.all_reduce_gb_per_s: not compared: nccl 2.21.5 and 2.27.3\n"

    def test_keys_of_one_file_only_and_another_platform(self, tmp_path, capsys):
        one = write(tmp_path, "a.yaml", "  gpu.count: {value: 8, unit: GPUs, source: s}\n")
        other = write(tmp_path, "b.yaml", "  rdma.rails: {value: 8, unit: ports, source: s}\n", "hgx-h200-8")
        assert command("diff", one, other) == 1
        assert capsys.readouterr().out == (
            "platform: hgx-h100-8 -> hgx-h200-8\n"
            f"gpu.count: only in {one} (8 GPUs)\n"
            f"rdma.rails: only in {other} (8 ports)\n"
        )

    def test_variants_are_compared_by_their_conditions(self, tmp_path, capsys):
        def variants(*values):
            listed = "".join(f"      - {{value: {v}, source: s, parameters: {{dtype: {d}}}}}\n" for d, v in values)
            return f"  burn.bf16_tflops:\n    unit: TFLOPS\n    direction: at least\n    variants:\n{listed}"

        one = write(tmp_path, "a.yaml", variants(("bf16", 700), ("fp8", 1300)))
        other = write(tmp_path, "b.yaml", variants(("fp8", 1365), ("bf16", 700), ("fp6", 9)))
        assert command("diff", one, other) == 1
        assert capsys.readouterr().out == (
            "burn.bf16_tflops: 1300 TFLOPS -> 1365 TFLOPS (+5.0 %) for dtype fp8\n"
            f"burn.bf16_tflops: only in {other} for dtype fp6 (9 TFLOPS)\n"
        )

    @pytest.mark.parametrize("text", ["", "platform: [", "platform: x\nlimits: {gpu.count: {}}", "\x00"])
    def test_a_file_that_is_no_baseline_is_one_clear_message(self, text, tmp_path):
        file = tmp_path / "a.yaml"
        file.write_text(text)
        with pytest.raises(UsageError, match=r"a\.yaml"):
            command("diff", str(file), str(file))


class TestShow:
    def test_the_platforms(self, capsys):
        assert command("show") == 0
        lines = capsys.readouterr().out.splitlines()
        assert any(line.startswith("hgx-h100-8 ") for line in lines)
        assert lines[-1].startswith("* ")

    def test_the_limits_of_one_with_their_sources(self, capsys):
        assert command("show", "hgx-h100-8") == 0
        shown = capsys.readouterr().out
        assert "gpu.count: 8 GPUs\n    baselines/hgx-h100-8.yaml:" in shown
        assert "host.shm_min_gib: 64 GiB" in shown

    def test_a_sites_own_file(self, tmp_path, capsys):
        own = write(tmp_path, "own.yaml", ENTRY.format(value=480, nccl="2.27.3"))
        assert command("show", "hgx-h100-8", "--baseline", own) == 0
        expected = "nccl.all_reduce_gb_per_s: at least 480 GB/s, tolerance 5 %, peak 787 GB/s for nccl 2.27.3\n"
        assert expected in capsys.readouterr().out

    def test_a_platform_that_is_not_there(self):
        with pytest.raises(UsageError, match=r"no baseline for 'hgx-h100' - did you mean .*hgx-h100-8"):
            command("show", "hgx-h100")


class TestLearn:
    @pytest.fixture
    def a_run(self, monkeypatch, tmp_path):
        """Nine good nodes; which nodes of a run folder are good is tested below and with the demo fleet."""
        about = {"driver version": "580.105.08"}
        nodes = {
            f"gpu{at:03}": LearnedFrom("hgx-h100-8", (metric(480 + at / 10),), about) for at in range(10) if at != 3
        }
        run = Run("20261121T081500Z-delivery", "delivery", 1795248900.0, 1795249900.0, "0.1.0")
        monkeypatch.setattr(baseline, "measured_by_good_nodes", lambda *_: (run, nodes))
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def test_only_the_accepted_nodes_teach(self, a_run, capsys):
        assert command("learn", "run", "--out", "learned.yaml") == 0
        said = capsys.readouterr().out
        assert said.startswith("learned.yaml: 1 limits of hgx-h100-8\n  learned from 9 accepted nodes: gpu000, gpu001,")
        assert "gpu003" not in said
        text = (a_run / "learned.yaml").read_text()
        assert "learned from run 20261121T081500Z-delivery, 2026-11-21: median of 9 values of 9 nodes" in text

    def test_what_was_learned_can_be_shown_and_compared(self, a_run, capsys):
        assert command("learn", "run", "--out", "learned.yaml") == 0
        assert command("show", "hgx-h100-8", "--baseline", "learned.yaml") == 0
        assert command("diff", "learned.yaml", "learned.yaml") == 0
        assert f"{ALL_REDUCE}: at least 480.5 GB/s, tolerance 2.5 %" in capsys.readouterr().out

    def test_the_file_is_named_by_platform_and_run(self, a_run):
        assert command("learn", "run") == 0
        assert (a_run / "hgx-h100-8-20261121T081500Z-delivery.yaml").exists()

    def test_a_file_that_is_there_is_never_overwritten(self, a_run):
        (a_run / "learned.yaml").write_text("reviewed by lee")
        with pytest.raises(UsageError, match=r"learned\.yaml: this file already exists - .*baseline diff"):
            command("learn", "run", "--out", "learned.yaml")
        assert (a_run / "learned.yaml").read_text() == "reviewed by lee"

    def test_a_place_that_cannot_be_written(self, a_run):
        with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
            command("learn", "run", "--out", "nowhere/learned.yaml")


def test_a_run_that_measured_nothing_under_load_teaches_nothing(tmp_path):
    write_fleet(tmp_path, [Machine.hgx_h100("gpu0001", 1)])
    checks = str(suite_folder("checks") / "test_gpu.py")
    assert run_pytest(tmp_path, ["--inventory", "hosts.yaml", "-q", "--run-dir", "run", checks]).exit_code == 0
    with pytest.raises(UsageError, match="no accepted node of a known platform was measured under load"):
        command("learn", str(tmp_path / "run"))


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(UsageError, match="not a run folder"):
        command("learn", str(tmp_path))
