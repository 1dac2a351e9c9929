"""Packed and recoded logs are read as plain ones are; a hostile archive costs little and is never called good."""

import bz2
import gzip
import io
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from support.job_logs import iteration, remarks

from nodegate.errors import UsageError
from nodegate.triage import packed
from nodegate.triage.triage import triage

NOW_S = 1_786_406_400.0  # 2026-08-11
HEALTHY = "".join(f"{iteration(f'15:{minute:02}:07.{minute * 7919 % 10}', minute)}\n" for minute in range(1, 60))
ERROR = f"{HEALTHY}[2026-08-10 16:00:00] [rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"


def judged(path):
    return triage([str(path)], now_s=NOW_S)


def tar_of(path, *members, mode="w"):
    """An archive with these members, each a name and a text, or a header as tarfile knows it."""
    with tarfile.open(path, mode) as archive:
        for member in members:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member[0])
            data = b"" if isinstance(member, tarfile.TarInfo) else member[1].encode()
            info.size = info.size or len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def header(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zstd(path, text):
    subprocess.run(["zstd", "-q", "-o", str(path)], input=text.encode(), check=True)


def in_two(path, packer):
    path.write_bytes(packer.compress(ERROR.encode()[:99]) + packer.compress(ERROR.encode()[99:]))


def zip_of(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members:
            archive.writestr(name, text)
    return path


LOGS = (("logs/gpu01/rank_3.log", ERROR), ("logs/gpu01/rank_4.log", HEALTHY))
FORMS = {
    "gz in two members": lambda path: in_two(path, gzip),
    "xz": lambda path: path.write_bytes(lzma.compress(ERROR.encode())),
    "xz in two streams": lambda path: in_two(path, lzma),
    "bz2": lambda path: path.write_bytes(bz2.compress(ERROR.encode())),
    "bz2 in two streams": lambda path: in_two(path, bz2),
    **({"zstd": lambda path: zstd(path, ERROR)} if shutil.which("zstd") else {}),
    "utf-16 with a mark": lambda path: path.write_bytes(ERROR.encode("utf-16")),
    "utf-16-le": lambda path: path.write_bytes(ERROR.encode("utf-16-le")),
    "utf-16-be": lambda path: path.write_bytes(ERROR.encode("utf-16-be")),
    "latin-1": lambda path: path.write_bytes(("durée: 3 s\n" + ERROR).encode("latin-1")),
    "zip": lambda path: zip_of(path, *LOGS),
    "tar": lambda path: tar_of(path, *LOGS),
    "tar.gz": lambda path: tar_of(path, *LOGS, mode="w:gz"),
    "tar.xz": lambda path: tar_of(path, *LOGS, mode="w:xz"),
    "tar.bz2": lambda path: tar_of(path, *LOGS, mode="w:bz2"),
    "a long name": lambda path: tar_of(path, ("d" * 150 + "/rank_3.log", ERROR)),
    "a name that goes up": lambda path: tar_of(path, ("../../../etc/rank_3.log", ERROR)),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_error_is_found(tmp_path, form):
    FORMS[form](tmp_path / "job.data")
    answer = judged(tmp_path)
    assert (answer.cause.value, answer.sure, answer.where.rank) == ("hardware", True, 3)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_cut_off_is_never_no_error(tmp_path, form):
    path = tmp_path / "job.data"
    FORMS[form](path)
    if "utf" in form or form == "latin-1":
        return  # text has no end of its own
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 3] if "tar" in form or "name" in form else raw[:-40])
    try:
        answer = judged(path)
    except UsageError:
        return  # nothing at all could be read
    assert answer.failed


DOOR = {
    "a link": header("rank_1.log", tarfile.SYMTYPE, "/etc/passwd"),
    "a hard link": header("rank_1.log", tarfile.LNKTYPE, "/etc/passwd"),
    "a device": header("rank_1.log", tarfile.CHRTYPE),
    "a pipe": header("rank_1.log", tarfile.FIFOTYPE),
    "a folder": header("logs", tarfile.DIRTYPE),
}


@pytest.mark.parametrize("name", DOOR)
def test_only_regular_members_are_read(tmp_path, name):
    answer = judged(tar_of(tmp_path / "job.tar", DOOR[name], ("rank_0.log", HEALTHY)))
    assert (answer.sentence.en, answer.read.job_logs) == ("no error in these logs", 1)


def test_the_name_of_a_member_is_never_opened(tmp_path, monkeypatch):
    outside = tmp_path / "outside.log"
    outside.write_text(ERROR)
    (tmp_path / "in").mkdir()
    answer = judged(tar_of(tmp_path / "in" / "job.tar", ("../../outside.log", HEALTHY), (str(outside), HEALTHY)))
    assert answer.sentence.en == "no error in these logs"


@pytest.mark.parametrize("inner", ["tar", "zip"])
def test_an_archive_in_an_archive_is_not_opened_and_said(tmp_path, inner):
    (tar_of if inner == "tar" else zip_of)(tmp_path / "inner", ("rank_3.log", ERROR))
    path = zip_of(tmp_path / "job.zip", ("inner", (tmp_path / "inner").read_bytes()), ("rank_0.log", HEALTHY))
    answer = judged(path)
    assert answer.sentence.en.startswith("cannot tell: no error in what could be read")
    assert any("holds an archive" in said for said in remarks(answer))


def test_a_packed_member_is_read(tmp_path):
    path = zip_of(tmp_path / "job.zip", ("rank_3.log.gz", gzip.compress(ERROR.encode())))
    assert judged(path).where.rank == 3


@pytest.mark.parametrize("form", ["xz", "bz2", "gz", "zip", "tar.xz"])
def test_what_grows_beyond_its_limit_is_not_read_to_its_end(tmp_path, form, monkeypatch):
    monkeypatch.setattr(packed, "_ALWAYS_BYTES", 1 << 22)
    text = (HEALTHY * 400).encode() + b"x" * (48 << 20)
    path = tmp_path / "job.data"
    if form == "zip":
        zip_of(path, ("rank_0.log", text))
    elif form == "tar.xz":
        tar_of(path, ("rank_0.log", text.decode()), mode="w:xz")
    else:
        path.write_bytes({"xz": lzma, "bz2": bz2, "gz": gzip}[form].compress(text))
    monkeypatch.setattr(packed, "MOST_TIMES", 10)
    answer = judged(path)
    assert any("unpacked it is too large" in said for said in remarks(answer))
    assert answer.sentence.en.startswith("cannot tell")
    assert answer.read.size_bytes < 6 << 20


@pytest.mark.parametrize("make", [tar_of, zip_of])
def test_too_many_members(tmp_path, make, monkeypatch):
    monkeypatch.setattr(packed, "MOST_MEMBERS", 5)
    answer = judged(make(tmp_path / "job.data", *((f"rank_{rank}.log", HEALTHY) for rank in range(9))))
    assert (answer.read.job_logs, answer.recognised) == (5, False)
    assert any("too many members" in said for said in remarks(answer))


def test_a_header_that_promises_a_giant_name_costs_nothing(tmp_path):
    long = header("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    long.size = 1 << 40
    (tmp_path / "job.tar").write_bytes(long.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with pytest.raises(UsageError):
        judged(tmp_path / "job.tar")


@pytest.mark.parametrize("given", ["pipe", "file", "nothing"])
def test_without_arguments_a_pipe_is_read(tmp_path, given):
    path = tmp_path / "rank3.log"
    path.write_text(ERROR)
    command = [sys.executable, "-c", "import sys; from nodegate.cli import main; sys.exit(main())", "triage"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with path.open() as stream:
        how = {"pipe": {"input": ERROR}, "file": {"stdin": stream}, "nothing": {"stdin": subprocess.DEVNULL}}[given]
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=False, **how)
    assert done.returncode == (2 if given == "nothing" else 0)
    assert given == "nothing" or done.stdout.startswith("hardware: ")


def test_a_zip_without_its_end_is_corrupt_and_not_of_too_many_members(tmp_path):
    whole = zip_of(tmp_path / "whole.zip", *LOGS).read_bytes()
    (tmp_path / "rank_3.zip").write_bytes(whole[:60])
    with pytest.raises(UsageError, match="corrupt"):
        judged(tmp_path / "rank_3.zip")
