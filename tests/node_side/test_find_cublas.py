"""Which cuBLAS a burn uses: what was named, then the newest that starts, at last nodegate's own kernels."""

import shutil

import pytest
from support import cuda

from lab.nvml.scenario import healthy_h100
from nodegate.node_side.load import find_cublas

PIP = "lib/python3.11/site-packages/nvidia/{}/lib/libcublas.so.{}"


@pytest.fixture(autouse=True)
def nothing_on_this_machine(monkeypatch):
    for name in ("_PLACES", "_PACKAGES"):
        monkeypatch.setattr(find_cublas, name, ())
    monkeypatch.setattr(find_cublas, "_from_cache", list)


def put(path, says=""):
    """A stand-in for cuBLAS that calls itself this release, and "crash"es or "refuse"s when it is started."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(cuda.library(), path)
    if says:
        path.with_name(f"{path.name}.says").write_text(says)
    return path


def test_the_newest_is_taken_by_what_the_library_says_of_itself(tmp_path, monkeypatch):
    toolkit = put(tmp_path / "cuda/lib64/libcublas.so.12.4.5.8", "12.4.5")
    (toolkit.parent / "libcublas.so.12").symlink_to(toolkit.name)
    pip = put(tmp_path / "opt/torch/.venv" / PIP.format("cublas", 12), "12.9.1")
    monkeypatch.setattr(find_cublas, "_PLACES", (str(tmp_path / "cuda/lib64"),))
    monkeypatch.setattr(
        find_cublas,
        "_PACKAGES",
        (str(tmp_path / "opt/*/.venv/lib/python3*/site-packages/nvidia/{}/lib"),),
    )
    found = find_cublas.find(12080)
    assert [(each.path, each.version) for each in found] == [
        (str(pip), (12, 9, 1)),
        (str(toolkit.with_name("libcublas.so.12")), (12, 4, 5)),
    ]
    assert {(each.origin, each.refused) for each in found} == {(find_cublas.HERE, "")}


def test_a_release_that_the_driver_cannot_run_is_refused(tmp_path):
    put(tmp_path / "a/libcublas.so.13", "13.0.2")
    put(tmp_path / "b/libcublas.so.12", "12.8.4")
    named = [("nodegate_cublas", str(tmp_path / "a")), ("--tools", str(tmp_path / "b"))]
    assert [(each.version, each.refused) for each in find_cublas.find(12020, named)] == [
        ((13,), "the driver is of CUDA 12.2"),
        ((12, 8, 4), ""),
    ]
    assert [each.version for each in find_cublas.find(13000, named)] == [(13, 0, 2), (12, 8, 4)]


def test_what_does_not_load_or_does_not_know_its_version_is_refused(tmp_path):
    (tmp_path / "libcublas.so.11").write_text("no library")
    put(tmp_path / "libcublas.so.12", "unknown")
    refused = {each.version: each.refused for each in find_cublas.find(12080, [("nodegate_cublas", str(tmp_path))])}
    assert f"loading {tmp_path}/libcublas.so.11: -1 " in refused[11,]
    assert refused[12,] == "cublasGetProperty: 7 CUBLAS_STATUS_INVALID_VALUE"


@pytest.mark.parametrize(
    "below",
    [
        "libcublas.so.12",
        "lib64/libcublas.so.12",
        "targets/x86_64-linux/lib/libcublas.so.12",
        "math_libs/12.4/lib64/libcublas.so.12",
        "nvidia/cublas/lib/libcublas.so.12",
        "nvidia/cu13/lib/libcublas.so.13",
        PIP.format("cublas", 12),
        "usr/local/cuda-12.8/targets/x86_64-linux/lib/libcublas.so.12",
        "usr/local/lib/python3.12/dist-packages/nvidia/cublas/lib/libcublas.so.12",
    ],
)
def test_a_named_folder_may_be_a_toolkit_a_virtual_environment_or_an_unpacked_image(below, tmp_path):
    path = put(tmp_path / "a {folder}" / below)
    for named in (tmp_path / "a {folder}", path):
        found = find_cublas.find(13000, [("nodegate_cublas", str(named))])
        assert [(each.path, each.origin) for each in found] == [(str(path), "nodegate_cublas")]


def test_what_was_named_comes_before_a_newer_one_and_the_document_says_so(tmp_path):
    named = put(tmp_path / "named/libcublas.so.12", "12.1.3")
    brought = put(tmp_path / "brought/libcublas.so.12", "12.9.1")
    places = [["nodegate_cublas", str(named.parent)], ["--tools", str(brought.parent)]]
    document = cuda.burn(healthy_h100(1), tmp_path, path="auto", places=places)
    assert (document["path"], document["library"], document["library_version"]) == ("cublas", str(named), 120103)
    assert document["library_why"] == "named by nodegate_cublas"
    listed = [each for each in document["libraries"] if each["origin"] != find_cublas.HERE]
    assert listed == [
        {"path": str(named), "version": "12.1.3", "origin": "nodegate_cublas", "refused": ""},
        {"path": str(brought), "version": "12.9.1", "origin": "--tools", "refused": ""},
    ]


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("crash", "ended by SIGSEGV, at cublasCreate_v2"),
        ("refuse", "cublasCreate_v2: 8 CUBLAS_STATUS_ARCH_MISMATCH"),
    ],
)
def test_a_library_that_no_gpu_can_start_gives_way_to_the_next(word, why, tmp_path):
    bad = put(tmp_path / "libcublas.so.12.9.1.4", f"12.9.1 {word}")
    good = put(tmp_path / "libcublas.so.12.4.5.8", "12.4.5")
    places = [["nodegate_cublas", str(tmp_path)]]
    document = cuda.burn(healthy_h100(2), tmp_path, path="auto", places=places)
    assert (document["path"], document["library"], document["library_refused"]) == ("cublas", str(good), "")
    assert [gpu["error"] for gpu in document["gpus"]] == ["", ""]
    first = document["libraries"][0]
    assert (first["path"], first["refused"]) == (str(bad), why)


def test_at_last_our_own_kernels_burn_and_it_is_said_why(tmp_path):
    bad = put(tmp_path / "libcublas.so.12", "12.9.1 crash")
    options = {"places": [["nodegate_cublas", str(tmp_path)]], "not_brought": "gpu1: no folder for the tools"}
    document = cuda.burn(healthy_h100(1), tmp_path, path="auto", **options)
    assert (document["path"], document["library"], document["library_why"]) == ("ptx", "", "")
    assert f"{bad}: ended by SIGSEGV, at cublasCreate_v2" in document["library_refused"]
    assert document["library_refused"].endswith("libcublas.so: gpu1: no folder for the tools")
    assert document["gpus"][0]["phases"][0]["iterations"] > 0
