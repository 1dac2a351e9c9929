"""What fuzzing begins with: the recordings and documents of our own tests, and real outputs where this machine has any.

The tests' own builders are imported when they are asked for: a session of fuzzing needs them, the kept cases do not.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.machine import Machine

ROOT = Path(__file__).resolve().parents[1]
RECORDINGS = ROOT / "tests" / "tools" / "recordings"
MOST_BYTES = 8_000  # a larger seed makes each run slow
NEXT_LOG, NEXT_PATTERN = b"\n=next log=\n", b"\n=log=\n"  # what parts several texts in one input

# Where real outputs of a tool stand in the folder that NODEGATE_CORPUS names; they are read, never copied.
_REAL = {"fabric_manager": "fabricmanager", "gpu_burn": "gpuburn", "nccl_tests": "nccl", "nvidia_smi": "smi"}
_REAL |= {
    "job_logs": "trainlog",
    "watch": "trainlog",
}


def _support() -> None:
    """Makes the tests' own builders importable."""
    folder = str(ROOT / "tests")
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _real(name: str) -> Iterator[bytes]:
    folder = Path(os.environ.get("NODEGATE_CORPUS") or ROOT.parent / "shared" / "corpus") / _REAL.get(name, name)
    for file in sorted(folder.glob("*")) if folder.is_dir() else ():
        if file.is_file():
            yield file.read_bytes()[:MOST_BYTES]


def recordings(tool: str, pattern: str = "*") -> Iterator[bytes]:
    """The recordings of a tool."""
    yield b""
    for file in sorted((RECORDINGS / tool).glob(pattern)):
        yield file.read_bytes()[:MOST_BYTES]
    if pattern == "*":
        yield from _real(tool)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _small_machine() -> dict[str, object]:
    """A probe document with one device in each list, so that a change meets each kind of value often."""
    _support()
    from fleet.machine import Machine  # noqa: PLC0415

    return _shortened(Machine.hgx_h100().document(), 1)  # type: ignore[return-value]


def _shortened(value: object, most: int) -> object:
    if isinstance(value, dict):
        return {key: _shortened(each, most) for key, each in value.items()}
    if isinstance(value, list):
        return [_shortened(each, most) for each in value[: most if value and isinstance(value[0], dict) else 6]]
    return value


def wire() -> Iterator[bytes]:
    """What the probe sends."""
    from base64 import b64encode  # noqa: PLC0415
    from zlib import compress  # noqa: PLC0415

    from nodegate.probe.collect import WIRE  # noqa: PLC0415

    plain = _json(_small_machine())
    yield b"Welcome\n" + WIRE + b64encode(compress(plain)) + b"\n"
    yield plain
    yield b'{"schema": "nodegate.probe/1", "sections": {}, "uid": 0, "epoch_s": 1.0, "duration_s": 0.1}'


def sections() -> Iterator[bytes]:
    """Each section of a healthy machine by itself, and all together."""
    found = _small_machine()["sections"]
    assert isinstance(found, dict)  # noqa: S101
    for name, section in found.items():
        yield _json({name: section})
    yield _json(found)


def evidence() -> Iterator[bytes]:
    """Evidence files."""
    document = {"schema": "nodegate.probe/1", "sections": {}, "uid": 0, "epoch_s": 1.0, "duration_s": 0.1}
    kept: dict[str, object] = {"schema": "nodegate.evidence/1", "started_epoch_s": 1.0, "duration_s": 2.0}
    kept |= {"node": "gpu01", "measurement": "facts", "received_epoch_s": 2.0, "round_trip_s": 0.1}
    yield _json(document)
    yield _json({**kept, "document": document})
    yield _json({**kept, "error": {"kind": "refused", "reason": "no", "next_step": "look"}})
    for each in rans():
        yield _json({**kept, "document": json.loads(each)})


def kernel_lines() -> Iterator[bytes]:
    """Lines of a kernel log, one example of each signature among them."""
    from nodegate.knowledge.signatures import signatures  # noqa: PLC0415

    examples = [each.example for each in signatures()]
    stamps = ["[12345.678901] ", "<3>[  1.000001] ", "2026-08-10T15:36:05,512034+00:00 ", "6,1,12345678,-;"]
    stamps += ["Aug 10 15:36:05 gpu07 kernel: ", "[Mon Aug 10 15:36:05 2026] ", "kern  :err   : [  5.5] ", ""]
    stamps += ["Aug 10 15:36:05 gpu07 kernel: [  99.123456] "]
    for at in range(0, len(examples), 8):
        group = examples[at : at + 8]
        yield "\n".join(stamp + example for stamp, example in zip(stamps, group, strict=False)).encode()
    nvlink5 = "NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x0 0x0 0x0)"
    yield nvlink5.encode()
    journal = {"MESSAGE": nvlink5, "__REALTIME_TIMESTAMP": "1786376165512034", "_HOSTNAME": "gpu07"}
    yield _json(journal) + b"\n" + _json(journal)
    yield from _real("kernel")
    yield from _real("fabricmanager")


def rans() -> Iterator[bytes]:
    """What measurements keep of the programs that ran."""
    _support()
    from fleet.machine import Machine  # noqa: PLC0415
    from support import burning, rdma_links  # noqa: PLC0415

    from nodegate.measure.measurement import document  # noqa: PLC0415
    from nodegate.records.program_run import Attempt, Plan, ProgramRun  # noqa: PLC0415

    yield _json(document("burn", [Attempt((burning.ran(_small_burn(Machine.hgx_h100())),))]))
    yield _json(document("burn", [Attempt((burning.ran_by_others("healthy.txt"),))]))
    links = rdma_links.healthy(("gpu02",))
    few = dict(list(links.items())[:2] + list(links.items())[-2:])
    yield _json(document("rdma_bandwidth", [rdma_links.attempt(few, partners=1)]))
    text = (RECORDINGS / "nccl_tests" / "2.19-healthy.txt").read_text()
    plan = Plan(gpus=8, size_bytes=1 << 30, limit_s=60.0)
    yield _json(
        document("nccl", [Attempt((ProgramRun("all_reduce", ("x",), text, "", 0, plan=plan, duration_s=9.0),))])
    )
    hung = ProgramRun("all_reduce", ("x",), text[:900], "", None, timed_out=True, plan=plan)
    yield _json(document("nccl", [Attempt((hung,))] * 2))
    yield _json(document("nccl", [Attempt(cannot="no tool", next_step="bring it")]))
    for each in copies_documents():
        yield _json(document("memory", [Attempt((ProgramRun("copies", ("python3", "-"), each.decode(), "", 0),))]))


def _small_burn(machine: Machine) -> dict[str, object]:
    from support import burning  # noqa: PLC0415

    found: dict[str, Any] = burning.document(machine, count=2)
    for gpu in found["gpus"]:
        gpu["samples"]["windows"] = gpu["samples"]["windows"][:3]
    return found


def burn_documents() -> Iterator[bytes]:
    """What the burn prints, plain and packed, and what the program gpu_burn prints."""
    _support()
    from fleet.machine import Machine  # noqa: PLC0415
    from support import burning  # noqa: PLC0415

    found = _small_burn(Machine.hgx_h100())
    yield _json(found)
    yield burning.wire(found).encode()
    yield _json({**found, "gpus": [], "refused": "no memory"})
    yield from recordings("gpu_burn")


def copies_documents() -> Iterator[bytes]:
    """What our program for copies prints, plain and packed."""
    _support()
    from fleet.machine import Machine  # noqa: PLC0415
    from support import copies  # noqa: PLC0415

    whole = copies.document(Machine.hgx_h100())
    small: dict[str, Any] = {**whole, "gpus": whole["gpus"][:2]}
    small["peers"] = {**whole["peers"], "copies": whole["peers"]["copies"][:2]}
    yield _json(small)
    yield copies.wire(small).encode()
    yield _json({**small, "refused": "no GPU"})


def small_texts() -> Iterator[bytes]:
    """Files and outputs of which one value is read."""
    yield b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:00:00 UTC 2025\nGCC version: 12\n"
    yield b"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t GPU-1\nBus Location: \t 0000:1b:00.0\n"
    yield b"NCCL_DEBUG=INFO\n# no\nNCCL_IB_HCA = mlx5\nexport NCCL_ALGO=Ring\n"
    yield b"Limit  Soft Limit  Hard Limit  Units\nMax locked memory         65536   unlimited   bytes\n"
    yield b"Id=nvidia-fabricmanager.service\nActiveState=active\nSubState=running\nLoadState=loaded\n\nId=x\n"
    yield b'{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}'
    yield b"CUDA Version 12.4.131\nlibnccl.so.2.21.5\n/usr/lib/libnccl.so.2"


def gids() -> Iterator[bytes]:
    """GIDs of ports and their types, as grep prints them below /sys/class/infiniband."""
    gid = "0000:0000:0000:0000:0000:ffff:0a1e:0002"
    yield f"mlx5_0/ports/1/gids/3:{gid}\nmlx5_0/ports/1/gid_attrs/types/3:RoCE v2\n".encode()
    yield b"mlx5_0/ports/1/gids/0:fe80:0000:0000:0000:0e42:a1ff:fede:ad01\nmlx5_1/ports/2/gid_attrs/types/0:IB\n"


def tools_found() -> Iterator[bytes]:
    """What the search for tools answers."""
    one = {"path": "/usr/bin/ib_write_bw", "origin": "PATH", "wrong": "", "missing": [], "mpi": False}
    yield _json({"path": "/usr/bin:/bin", "found": {"ib_write_bw": [one], "all_reduce_perf": []}})


def _log_folder(write: object) -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))  # type: ignore[operator]
        return [file.read_bytes() for file in sorted(Path(folder).rglob("*")) if file.is_file()]


def job_logs() -> Iterator[bytes]:
    """Logs of failed jobs, several in one input."""
    from nodegate.knowledge.signatures import signatures  # noqa: PLC0415
    from nodegate.knowledge.words import Side  # noqa: PLC0415

    _support()
    from support import job_logs as made  # noqa: PLC0415

    yield NEXT_LOG.join(_log_folder(made.ecc_case))
    yield "\n".join(made.torchrun_report("gpu07", 3, 1, -9, "15:36:01")).encode()
    lines = [made.iteration("15:36:01.1", 7), *(made.times_out(rank, "15:46:05.7") for rank in (0, 1))]
    yield "\n".join(lines).encode()
    yield "\n".join(made.stands_at(rank, "15:46:05.7", 979 - rank, 976) for rank in (0, 1, 2)).encode()
    yield made.peer_gone("gpu07", 3, "10.9.0.8").encode()
    examples = [each.example for each in signatures() if each.side is Side.USER]
    for at in range(0, len(examples), 6):
        yield "\n".join(examples[at : at + 6]).encode()
    yield from _real("trainlog")


def kernel_logs() -> Iterator[bytes]:
    """Kernel logs."""
    yield from kernel_lines()


def job_and_kernel_logs() -> Iterator[bytes]:
    """A job's log and a node's kernel log."""
    jobs, kernels = list(job_logs()), list(kernel_lines())
    for number, job in enumerate(jobs):
        yield job[:6000] + NEXT_LOG + kernels[number % len(kernels)][:3000]


def training_logs() -> Iterator[bytes]:
    """Logs of a training that goes on."""
    _support()
    from support import training_logs as made  # noqa: PLC0415

    for form in made.FORMATS:
        seconds = made.slowed(made.times(30, form.usual_s), 20, 2.0)
        yield form.write(seconds).encode()
    yield b"world_size ... 0\n***** Running training *****\nsaving checkpoint\nTraceback (most recent call last)\n"
    yield from _real("trainlog")


def own_patterns() -> Iterator[bytes]:
    """A user's pattern, and a log for it."""
    _support()
    from support import training_logs as made  # noqa: PLC0415

    log = made.own([2.0] * 20).encode()
    yield made.OWN.encode() + NEXT_PATTERN + log
    yield rb"step=(?P<iteration>\d+) .*(?P<elapsed>[\d:]+)" + NEXT_PATTERN + log


def yaml_files() -> Iterator[bytes]:
    """YAML of every kind."""
    yield b"a: &x {b: 1, c: [1, 2.5, ~, yes]}\nd: {<<: *x, e: !vault abc}\nf: 0123\n"
    yield b"%YAML 1.2\n---\n- !!int 3\n- |\n  text\n- >-\n  more\n"
    yield from baselines()
    yield from inventories()


def inventories() -> Iterator[bytes]:
    """Inventories in each of the forms."""
    for name in ("example.ini", "example.yaml", "demo.yaml"):
        yield (ROOT / "inventory" / name).read_bytes()[:8000]
    yield b"gpu[001-016]\nlogin,gpu20\n"
    yield b"[gpus]\ngpu[01:04] ansible_host=10.0.0.1 ansible_port=2222\n[all:vars]\nansible_user=x\n"
    yield b"[gpus]\ngpu01\n[a:children]\ngpus\n[a:vars]\nb=[1, 2]\nc='x y'\n"
    yield b"all:\n  hosts:\n    gpu01: {ansible_host: 10.0.0.1}\n  children:\n    a: {hosts: {gpu02: }, vars: {x: 1}}\n"
    yield from listings()


def listings() -> Iterator[bytes]:
    """What ansible-inventory prints."""
    hosts = {"gpu01": {"ansible_host": "10.0.0.1", "ansible_port": 22}, "gpu02": {}}
    groups = {"all": {"children": ["ungrouped", "gpus"]}, "gpus": {"hosts": ["gpu01", "gpu02"], "vars": {"a": 1}}}
    yield _json({"_meta": {"hostvars": hosts}, **groups})


def node_names() -> Iterator[bytes]:
    """Host lists and patterns."""
    yield b"gpu[001-016]\ngpu[1-3,7],login\nr[1-2]n[01-04]\nall:!gpus\ngpu*:&gpus\n~gpu0.\ngpus[0:2]\nuser@gpu01:22\n"


def baselines() -> Iterator[bytes]:
    """Baseline files."""
    for name in ("common.yaml", "hgx-h100-8.yaml"):
        yield (ROOT / "baselines" / name).read_bytes()[:12_000]


def waivers() -> Iterator[bytes]:
    """Waiver files."""
    yield (
        b"- {node: gpu01, check: pcie.link_width, reason: known, owner: mia, expires: 2026-12-31, subject: GPU 3}\n"
        b'- {node: "gpu[01-02]", check: pcie.link_width, reason: known, owner: mia, expires: "2026-12-31"}\n'
    )


def histories() -> Iterator[bytes]:
    """SQLite files of earlier values."""
    from nodegate.metric import Metric  # noqa: PLC0415
    from nodegate.past.record import FleetRecord  # noqa: PLC0415

    _support()
    from support.remembered import keep  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fleet.sqlite"
        metric = Metric("burn.bf16_tflops", device="GPU 0", values=(700.0,), unit="TFLOPS", conditions={"tool": "x"})
        keep(FleetRecord(file), "run", 1e9, {"gpu01": [metric]})
        yield file.read_bytes()
        with sqlite3.connect(file) as base:
            base.execute("update numbers set value = 'text'")
        base.close()
        yield file.read_bytes()


def reports() -> Iterator[bytes]:
    """report.json of a small fleet."""
    import io  # noqa: PLC0415

    from nodegate.report import json_file  # noqa: PLC0415
    from nodegate.report.model import Report  # noqa: PLC0415

    _support()
    from support import sample_report as made  # noqa: PLC0415

    node = made.node("gpu01", random.Random(1), "reject", devices=1)  # noqa: S311
    small = Report(run=made.run(), nodes=(node,), drift=(), checks={})
    written = io.BytesIO()
    json_file.write(small, written, ("0" * 64, len(node.records)), [])
    yield written.getvalue()


def results() -> Iterator[bytes]:
    """Lines of results.jsonl.gz."""
    from nodegate.records.store import to_lines  # noqa: PLC0415

    _support()
    from support import sample_report as made  # noqa: PLC0415

    chance = random.Random(1)  # noqa: S311
    bad = made.measured("gpu01", "pcie.link_width", chance, bad=True, devices=1)
    yield to_lines((made.passed("gpu01", "gpu.count"), made.errored("gpu01", "gpu.xid"), bad))


def manifests() -> Iterator[bytes]:
    """Manifests of a run's evidence."""
    line = b"0" * 64 + b"  evidence/gpu01/facts.json\n"
    yield line
    yield line * 2 + b"f" * 64 + b"  evidence/gpu02/burn.json\n" + line[:40]
    yield line.replace(b"gpu01", b"..") + line.replace(b"gpu01", b"\x1b[2J")


def runs() -> Iterator[bytes]:
    """run.json."""
    node = {"name": "gpu01", "address": "10.0.0.1", "transport": "ssh", "groups": ["gpus"], "expected": {"gpus": 8}}
    whole: dict[str, object] = {"schema": "nodegate.run/1", "id": "x", "profile": "delivery", "started_epoch_s": 1.5}
    whole["asked"] = {"inventory": ["hosts.yaml"], "nodes": "gpu*", "passive": False, "burn": "60s"}
    yield _json({**whole, "nodes": [{**node, "origin": "hosts.yaml:1"}, {**node, "name": "gpu02"}]})
