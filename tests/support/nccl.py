"""nccl-tests on machines without a GPU: the fake programs in a folder, and what they would print."""

import json
import shutil
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from nodegate.records.program_run import Plan, ProgramRun

SCRIPT = Path(__file__).with_name("fake_tools") / "nccl_perf"
NAMES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv")


def install(folder, *, suffix="_perf", **told):
    """The programs of nccl-tests in `folder`, and what they are told (see the script)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        shutil.copy(SCRIPT, folder / f"{name}{suffix}")
    (folder / "nccl_perf.json").write_text(json.dumps(told))
    return folder


def output(what, told, options):
    """Standard output, standard error and exit code of a launch ("all_reduce ring"); None: it hangs."""
    script = _script()
    collective, _, algorithm = what.partition(" ")
    environ = {"NCCL_DEBUG": "INFO" if what == "all_reduce" else "WARN"}
    environ |= {"NCCL_ALGO": "Ring"} if algorithm else {}
    written: dict[str, list[str]] = {"out": [], "err": []}
    perf = script.Perf(
        f"{collective}_perf", options.split(), environ, told, written["out"].append, written["err"].append, _hangs
    )
    perf.hang = lambda: _hangs(0.0)
    code: int | None = 0
    try:
        perf.run()
    except script.Ended as end:
        code = end.code if end.code >= 0 else 128 - end.code
    except _Hang:
        code = None
    return "".join(written["out"]), "".join(written["err"]), code


def ran(what, *, gpus=8, size_bytes=1 << 30, limit_s=60.0, **told):
    """A launch as evidence holds it."""
    options = f"-b 512M -e {size_bytes} -f 2 -g {gpus} -n 20 -w 5 -c 1"
    stdout, stderr, code = output(what, {"gpus": gpus, **told}, options)
    return ProgramRun(
        what=what,
        argv=("env", f"/opt/nccl-tests/{what.partition(' ')[0]}_perf", *options.split()),
        stdout=stdout,
        stderr=stderr,
        exit_code=code,
        timed_out=code is None,
        duration_s=limit_s if code is None else 9.0,
        plan=Plan(gpus=gpus, size_bytes=size_bytes, limit_s=limit_s),
    )


class _Hang(Exception):  # noqa: N818 - no error
    """The program would wait for ever."""


def _hangs(seconds):
    raise _Hang


@cache
def _script():
    loader = SourceFileLoader("fake_nccl_perf", str(SCRIPT))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
