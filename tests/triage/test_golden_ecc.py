"""The worked example: a memory error on one GPU, told by its kernel at once and by the other rank ten minutes later."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from support import job_logs

from nodegate.cli import main
from nodegate.knowledge.words import Cause
from nodegate.triage.triage import triage

NOW_S = datetime(2026, 8, 11, tzinfo=timezone.utc).timestamp()
ERROR_S = datetime(2026, 8, 10, 15, 36, 5, 512034, tzinfo=timezone.utc).timestamp()


def test_the_kernel_line_is_the_root_with_node_gpu_and_time(tmp_path):
    found = triage([str(job_logs.ecc_case(tmp_path))], now_s=NOW_S)
    assert found.cause is Cause.HARDWARE
    assert found.sure
    assert (found.where.node, found.where.gpu, found.where.rank) == ("gpu08", 3, 1)
    assert found.device == "0000:9b:00.0"
    assert found.root.kind.id == "xid_48"
    assert found.began_s == pytest.approx(ERROR_S, abs=1)
    assert found.iteration == 121
    assert not found.nodes_fine
    assert found.sentence.en.startswith("hardware: move the job off gpu08 because ")


def test_without_the_kernel_log_the_rank_that_died_is_the_root(tmp_path):
    folder = job_logs.ecc_case(tmp_path)
    found = triage([str(folder / "rank0.log"), str(folder / "rank1.log")], now_s=NOW_S)
    assert found.root.kind.id == "cuda_ecc"
    assert (found.where.node, found.where.gpu, found.where.rank) == ("gpu08", 3, 1)
    assert found.began_s == pytest.approx(ERROR_S, abs=1)
    assert any("no kernel log was given" in remark for remark in job_logs.remarks(found))


def test_the_time_out_is_sorted_by_when_the_hang_began(tmp_path):
    found = triage([str(job_logs.ecc_case(tmp_path))], now_s=NOW_S)
    hang = next(group for group in found.followed if group.kind.id == "watchdog_timeout")
    assert hang.first_s == pytest.approx(ERROR_S, abs=1)
    assert hang.printed_s == pytest.approx(ERROR_S + 600, abs=1)


def test_clocks_in_another_zone_are_joined_by_the_zone_that_the_kernel_log_names(tmp_path):
    """The job prints 15:36 local time; the kernel log says 15:36:05+08:00, which is 07:36 UTC."""
    found = triage([str(job_logs.ecc_case(tmp_path, kernel_zone="+08:00"))], now_s=NOW_S)
    assert found.root.kind.id == "xid_48"
    assert found.zone_s == 8 * 3600
    assert found.began_s == pytest.approx(ERROR_S - 8 * 3600, abs=1)


def test_the_command_prints_about_ten_lines_and_exits_0(tmp_path, capsys):
    assert main(["triage", str(job_logs.ecc_case(tmp_path))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "hardware: move the job off gpu08 because two bits of one word of GPU memory were wrong at once"
    assert lines[1].split() == ["where", "gpu08,", "rank", "1,", "GPU", "3,", "0000:9b:00.0"]
    assert len(lines) < 20


def test_json_and_chinese(tmp_path, capsys):
    folder = str(job_logs.ecc_case(tmp_path))
    assert main(["triage", folder, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["schema"], value["class"], value["node"], value["gpu"]) == (
        "nodegate.triage/1",
        "hardware",
        "gpu08",
        3,
    )
    assert value["first_error"]["signature"] == "xid_48"
    assert main(["triage", folder, "--lang", "zh"]) == 0
    assert capsys.readouterr().out.startswith("硬件故障：把作业移出 gpu08")  # noqa: RUF001
