"""`nodegate tools fetch cublas`: real pip, an index that the test makes, and the hashes that nodegate brings."""

import hashlib
import re
import zipfile
from pathlib import Path

import pytest

from nodegate import cli
from nodegate.commands import tools
from nodegate.toolbox import carried

NAME, VERSION = "nvidia_cublas_cu12", "12.9.3.13"
LIBRARIES = {"nvidia/cublas/lib/libcublas.so.12": b"\x7fELF" * 300_000, "nvidia/cublas/lib/libcublasLt.so.12": b"1" * 9}
HEADER = {"nvidia/cublas/include/cublas.h": b"int cublasCreate_v2(void *);\n"}


def index(folder, files):
    """A package index of one wheel for x86_64, set as pip's own would be; returns the wheel's hash."""
    listing = folder / "index" / "nvidia-cublas-cu12"
    listing.mkdir(parents=True)
    wheel = listing / f"{NAME}-{VERSION}-py3-none-manylinux_2_27_x86_64.whl"
    about = f"{NAME}-{VERSION}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: nvidia-cublas-cu12\nVersion: {VERSION}\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    (listing / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def prepare(folder, monkeypatch, files=None, sha256=""):
    """pip's index is the test's; nodegate's file of hashes names its wheel."""
    found = index(folder, files or LIBRARIES | HEADER)
    hashes = folder / "hashes"
    hashes.mkdir()
    line = f"nvidia-cublas-cu12=={VERSION} --hash=sha256:{sha256 or found}\n"
    (hashes / "cublas-cu12.txt").write_text(line)
    monkeypatch.setattr(tools, "HASHES", hashes)
    monkeypatch.setenv("PIP_INDEX_URL", (folder / "index").as_uri())
    monkeypatch.setenv("PIP_CACHE_DIR", str(folder / "cache"))
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)


def fetch(folder, arch="x86_64"):
    return cli.main(["tools", "fetch", "cublas", "--arch", arch, "--to", str(folder)])


def below(folder):
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def test_the_libraries_are_where_tools_finds_them(tmp_path, monkeypatch, capsys):
    prepare(tmp_path, monkeypatch)
    folder = tmp_path / "new" / "tools"
    assert fetch(folder) == 0
    assert below(folder.parent) == {f"tools/{path}" for path in LIBRARIES}  # nothing beside it
    brought = carried.Carried(folder)
    assert brought.cublas == ("nvidia/cublas/lib",)
    assert brought.size_bytes == sum(map(len, LIBRARIES.values()))
    first, size, following = capsys.readouterr().out.splitlines()
    assert first == f"{folder}/nvidia/cublas/lib: libcublas.so.12, libcublasLt.so.12"
    assert size == "each node gets 1 MB, and needs room for twice as much"
    assert following.endswith(f" --inventory hosts.yaml --tools {folder}")
    assert fetch(folder) == cli.CANNOT_TELL
    assert "nvidia/cublas/lib exists already" in capsys.readouterr().err


def test_beside_tools_that_are_there(tmp_path, monkeypatch):
    prepare(tmp_path, monkeypatch)
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "ib_write_bw").write_bytes(b"#!/bin/sh\n")
    (folder / "ib_write_bw").chmod(0o755)
    assert fetch(folder) == 0
    assert below(folder) == {"ib_write_bw", *LIBRARIES}
    assert carried.Carried(folder).names == {"ib_write_bw"}


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"sha256": "0" * 64}, "DO NOT MATCH THE HASHES"),
        ({"arch": "aarch64"}, "No matching distribution found for nvidia-cublas-cu12==12.9.3.13"),
        ({"files": HEADER}, "the package of cublas-cu12.txt has no libcublas"),
    ],
)
def test_what_fails_says_why_and_leaves_nothing(how, said, tmp_path, monkeypatch, capsys):
    prepare(tmp_path, monkeypatch, how.get("files"), how.get("sha256", ""))
    folder = tmp_path / "new" / "tools"
    assert fetch(folder, how.get("arch", "x86_64")) == cli.CANNOT_TELL
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.startswith("nodegate: ")
    assert "Traceback" not in told.err
    assert told.out == ""
    assert below(folder.parent) == set()


def test_what_is_too_large_with_the_rest_does_not_stay(tmp_path, monkeypatch, capsys):
    prepare(tmp_path, monkeypatch)
    monkeypatch.setattr(carried, "MOST_BYTES", 1 << 20)
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "notes").write_text("ours")
    assert fetch(folder) == cli.CANNOT_TELL
    assert "at most 1 MiB" in capsys.readouterr().err
    assert below(folder) == {"notes"}


def test_without_pip_it_says_what_to_type(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tools, "find_spec", lambda _: None)
    assert fetch(tmp_path / "tools") == cli.CANNOT_TELL
    assert re.search(r"has no pip - install it .* --require-hashes -r \S+/cublas-cu12\.txt", capsys.readouterr().err)


@pytest.mark.parametrize(("cuda", "package"), [("12", "nvidia-cublas-cu12==12."), ("13", "nvidia-cublas==13.")])
def test_the_shipped_files_pin_one_version_by_the_hashes_of_two_architectures(cuda, package):
    file = Path(tools.__file__).parents[1] / "toolbox" / f"cublas-cu{cuda}.txt"
    lines = [line for line in file.read_text().replace("\\\n", " ").splitlines() if not line.startswith("#")]
    assert len(lines) == 1
    assert lines[0].startswith(package)
    _, *hashes = lines[0].split()
    assert len(set(hashes)) == len(tools.ARCHITECTURES) == 2
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes)
