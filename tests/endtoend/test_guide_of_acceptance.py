"""The page docs/guide/acceptance.md, typed over 16 recorded nodes of which one loses a GPU that is then replaced."""

import tarfile
from pathlib import Path

from fleet import faults
from fleet.machine import Machine
from support.recorded import write_fleet
from support.typed import Typed

OUT, IN = "1650003000003", "1659990003003"  # GPU 3 of gpu-03
RECORDED = "all:\n  vars: {ansible_connection: replay, nodegate_recordings: recordings}\n"


def record(folder, *, is_repaired):
    machines = [Machine.hgx_h100(f"gpu-{at:02}", at) for at in range(1, 17)]
    if not is_repaired:
        faults.lost_gpu(machines[2])
    write_fleet(folder, machines)
    for file in (folder / "recordings/gpu-03").glob("*.json") if is_repaired else ():
        file.write_text(file.read_text("utf-8").replace(OUT, IN), "utf-8")


def test_from_the_first_command_to_the_signed_paper(tmp_path):
    page, run = Typed("acceptance.md", tmp_path), tmp_path / "round-2"
    assert page.next() == (0, "")  # 1: inventory and site file
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(hosts.read_text().replace("all:\n", RECORDED, 1))
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        record(tmp_path / name, is_repaired=name == "after")
    (tmp_path / "recordings").symlink_to("before/recordings")

    code, printed = page.next()  # 2: doctor
    assert (code, "a recorded node cannot run programs" in printed) == (1, True), printed

    code, printed = page.next()  # 3: the first round
    assert (code, "1 rejected, 15 accepted of 16 nodes" in printed) == (1, True), printed
    assert f"GPU 3 S/N {OUT}" in printed

    code, printed = page.next()  # 4: for whoever repairs it
    assert (code, "gpu.fallen_off_bus" in printed) == (0, True), printed
    with tarfile.open(tmp_path / "gpu-03.tar.gz") as archive:
        texts = {Path(each.name).name: archive.extractfile(each).read().decode() for each in archive}
    assert "number: C-2026-0815" in texts["contract.txt"]
    assert "[x] order or contract number: contract.txt" in texts["README.txt"]

    (tmp_path / "recordings").unlink()
    (tmp_path / "recordings").symlink_to("after/recordings")
    code, printed = page.next()  # 5: the second round
    assert "16 accepted of 16 nodes" in printed, printed
    assert (code, "GPU 3: gpu_lost" in printed.partition("gone:")[2]) == (0, True), printed
    paper = (run / "certificate.html").read_text("utf-8")
    for serial, said in ((OUT, "out since round 2"), (IN, "in since round 2")):
        assert f"{serial}</td><td>gpu-03 GPU 3</td><td>{said}" in paper

    code, printed = page.next()  # 6: the paper
    assert (code, "signed by lab@example.org" in printed) == (0, True), printed
    assert not page.left
