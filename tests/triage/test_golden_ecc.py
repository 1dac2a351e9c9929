"""The worked example: a memory error on one GPU, told by its kernel at once and by the other rank ten minutes later."""

from datetime import datetime, timezone

import pytest
from support import job_logs

from nodegate.cli import main
from nodegate.triage.triage import triage

NOW_S = datetime(2026, 8, 11, tzinfo=timezone.utc).timestamp()
ERROR_S = datetime(2026, 8, 10, 15, 36, 5, 512034, tzinfo=timezone.utc).timestamp()


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


def test_the_command_answers_in_chinese(tmp_path, capsys):
    assert main(["triage", str(job_logs.ecc_case(tmp_path)), "--lang", "zh"]) == 0
    assert capsys.readouterr().out.startswith("硬件故障：把作业移出 gpu08")  # noqa: RUF001
