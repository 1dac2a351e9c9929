"""The steps of `python -m lab gpu`: each runs a part of nodegate on this machine's GPUs and asserts what must hold."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

from lab.gpu import ours
from lab.gpu.bench import BURN_WIRE, Bench, decoded, local_session
from nodegate.errors import CannotMeasure
from nodegate.measure.burn import document as burn_document
from nodegate.measure.copies import document as copies_document
from nodegate.unknown import Unknown, value_or

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lab.gpu.step import Step
    from nodegate.measure.burn.document import GpuLoad
    from nodegate.measure.copies.document import Tested
    from nodegate.probe.gpu import Gpu

NO_CUBLAS = "cuBLAS was not found"
_CLEAR_S = 20.0  # a driver needs a moment to take back what a killed process held
_SPARE_MIB = 256
_HELD_SHARE = 0.2
_START_S = 90.0
_AGAIN_S = 12.0


def probe(bench: Bench, step: Step) -> None:
    """The probe: its document can be read, NVML answers for every GPU, and every fact has a value or a reason."""
    bench.facts = bench.probe()
    bench.documents["facts"] = dict(bench.facts.document.raw)
    devices = bench.facts.gpus.devices
    step.claim("the driver lists a GPU", devices)
    for gpu in devices:
        step.claim(f"GPU {gpu.index} answers and has name, UUID and address", _is_whole(gpu))
        step.claim(f"the memory of GPU {gpu.index} is known", not isinstance(gpu.memory_total_bytes, Unknown))
    for name, section in sorted(bench.facts.document.sections.items()):
        read = section if isinstance(section, dict) else {"why": "no object"}
        why = read.get("why")
        if why:
            step.notes.append(f"section {name}: {why}{_in(read.get('detail'))}")
        step.claim(f"section {name} ended by itself", why not in ("timeout", "hung"))
    for gpu in devices[:1]:
        unread = [name for name, value in vars(gpu).items() if isinstance(value, Unknown)]
        step.notes.append(f"GPU {gpu.index} does not report: {', '.join(unread) or 'nothing'}")


def own_kernels(bench: Bench, step: Step) -> None:
    """The burn with nodegate's own kernels, twice: every product right, and the same bits both times."""
    _burn_twice(bench, step, "ptx", bench.lengths.own_s, "burn-own")


def cublas(bench: Bench, step: Step) -> None:
    """The burn with cuBLAS, twice, where the machine has it."""
    _burn_twice(bench, step, "cublas", bench.lengths.cublas_s, "burn-cublas")


def copies(bench: Bench, step: Step) -> None:
    """Memory by kernels and by copies, whole by patterns: all is held, and arrives, as it was written."""
    document = bench.copies(bench.lengths.copies_s, "copies")
    refused = document.get("refused")
    step.claim(f"the copies were not refused{f' ({refused})' if refused else ''}", not refused)
    if refused:
        return
    found = copies_document.decode(json.dumps(document))
    for gpu in found.gpus:
        step.claim(f"{gpu.device}: no error{_in(gpu.error)}", not gpu.error)
        step.claim(f"{gpu.device}: copies were made", gpu.copies)
        for copy in gpu.copies:
            step.claim(f"{gpu.device}: {copy.what} {copy.when} has a rate", not isinstance(copy.gb_per_s, Unknown))
        for data in gpu.data:
            step.claim(f"{gpu.device}: {data.what} {data.when} arrived whole", data.wrong_words == 0)
        step.claim(f"{gpu.device}: what arrived was compared", gpu.data)
        step.claim(f"{gpu.device}: its memory held every pattern", _holds(gpu.memory))
    for pair in found.pairs:
        step.claim(f"{pair}: no error{_in(pair.error)}", not pair.error)
        step.claim(f"{pair}: arrived whole", pair.wrong_words == 0)
    step.notes += [f"{gpu.device}: not bound to its CPUs: {gpu.unbound}" for gpu in found.gpus if gpu.unbound]


def busy(bench: Bench, step: Step) -> None:
    """A GPU that somebody uses is not touched: burn and copies refuse while a program holds a part of its memory."""
    gpu = _first(bench)
    uuid, address = value_or(gpu.uuid, ""), value_or(gpu.address, "")
    holder = bench.hold(uuid, address, _HELD_SHARE)
    try:
        step.claim("a program holds memory of the GPU", not holder.ended(0.0))
        for name, refused in (("burn", bench.burn("ptx", 1.0)), ("copies", bench.copies(1.0))):
            step.claim(f"the {name} refuses", refused.get("refused"))
            step.notes.append(f"{name}: {refused.get('refused')}")
    finally:
        output = holder.stop()
    step.claim(f"it held until it was ended{_in(output.stderr.decode('utf-8', 'replace')[-200:])}", not output.stderr)
    _cleared(bench, step)


def killed(bench: Bench, step: Step) -> None:
    """A process that is killed in mid-run is named and costs only its GPU; its time ends what is left of the others."""
    with_worker, seconds = local_session(), 2 * bench.lengths.into_s
    try:
        running = bench.start_burn(with_worker, seconds)
        if not ours.soon(lambda: ours.computing(bench.mark), _START_S):
            step.claim("a process of the burn has loaded CUDA", held=False)
            return
        time.sleep(bench.lengths.into_s)
        victim = ours.computing(bench.mark)[0]
        os.kill(victim, signal.SIGKILL)
        step.claim("the burn ends after one of its processes was killed", running.ended(seconds + _START_S))
        document = decoded(BURN_WIRE, running.stop().stdout.decode("utf-8", "replace"))
        errors = [value_or(each, "") for each in _errors(document)]
        step.claim(
            f"the document names it{_in('; '.join(filter(None, errors)))}", any("SIGKILL" in each for each in errors)
        )
        step.claim("the other GPUs have no error", sum(bool(each) for each in errors) == 1)
    finally:
        with_worker.close()
    _cleared(bench, step)


def deserted(bench: Bench, step: Step) -> None:
    """The controller goes away in mid-run: nothing of the burn is left on the machine."""
    gone = local_session()
    bench.start_burn(gone, 300.0)
    began = ours.soon(lambda: ours.computing(bench.mark), _START_S)
    step.claim("a process of the burn has loaded CUDA", began)
    time.sleep(bench.lengths.into_s)
    gone.close()
    _cleared(bench, step)


STEPS: Mapping[str, Callable[[Bench, Step], None]] = {
    "probe": probe,
    "own kernels": own_kernels,
    "cublas": cublas,
    "copies": copies,
    "busy": busy,
    "killed": killed,
    "deserted": deserted,
}


def _burn_twice(bench: Bench, step: Step, path: str, seconds: float, name: str) -> None:
    first = bench.burn(path, seconds, name)
    if first.get("refused") == f"{NO_CUBLAS} on this node":
        step.missing = f"{NO_CUBLAS}: only nodegate's own kernels were shown"
        return
    second = bench.burn(path, min(seconds, _AGAIN_S))
    results = [_burnt(step, each, path) for each in (first, second)]
    if all(results):
        step.claim("both burns gave the same bits", results[0] == results[1])
        step.claim("all GPUs of a model gave the same bits", _agree(first))


def _burnt(step: Step, document: Mapping[str, object], path: str) -> dict[str, str]:
    """{GPU and dtype: checksum} of a burn, after what must hold for it."""
    refused = document.get("refused")
    step.claim(f"the burn was not refused{_in(refused)}", not refused)
    if refused:
        return {}
    found = burn_document.decode(json.dumps(document))
    step.claim(f"it ran as asked ({path})", found.path == path)
    for gpu in found.gpus:
        _of_gpu(step, gpu)
    if found.library and f"library {found.library}" not in step.notes:
        step.notes += [f"library {found.library}", f"version {found.library_version}"]
    return {f"{gpu.device} {phase.dtype}": phase.checksum for gpu in found.gpus for phase in gpu.phases}


def _of_gpu(step: Step, gpu: GpuLoad) -> None:
    step.claim(f"{gpu.device}: no error{_in(gpu.error)}", not gpu.error)
    step.claim(f"{gpu.device}: it computed", gpu.phases)
    for phase in gpu.phases:
        what = f"{gpu.device} {phase.dtype}"
        step.claim(f"{what}: no word of any product differs from the first", phase.mismatches == 0)
        step.claim(f"{what}: the first product is the host's", phase.reference_errors == 0)
        step.claim(f"{what}: it has a rate", not isinstance(phase.tflops, Unknown))
        step.claim(f"{what}: it has a checksum", phase.checksum)
    step.claim(f"{gpu.device}: sampled under load{_in(gpu.sampling_error)}", sum(each.load for each in gpu.windows))


def _agree(document: Mapping[str, object]) -> bool:
    found: dict[tuple[object, ...], set[str]] = {}
    for gpu in burn_document.decode(json.dumps(document)).gpus:
        for phase in gpu.phases:
            key = gpu.name, gpu.multiprocessors, phase.kernel, phase.dtype, phase.matrix
            found.setdefault(key, set()).add(phase.checksum)
    return all(len(each) == 1 for each in found.values())


def _cleared(bench: Bench, step: Step) -> None:
    """Nothing that we started is left, and the GPUs' memory is as free as before."""
    gone = ours.soon(lambda: not ours.running(bench.mark), _CLEAR_S)
    left = ours.running(bench.mark)
    step.claim(f"no process is left{_in(', '.join(f'{pid} {name}' for pid, name in left.items()))}", gone)
    before = {
        gpu.index: value_or(gpu.memory_used_bytes, 0) for gpu in (bench.facts.gpus.devices if bench.facts else ())
    }
    after = [gpu for gpu in bench.probe().gpus.devices if not isinstance(gpu.memory_used_bytes, Unknown)]
    for gpu in after:
        more = (value_or(gpu.memory_used_bytes, 0) - before.get(gpu.index, 0)) >> 20
        step.claim(f"GPU {gpu.index}: its memory is free again ({more:+d} MiB)", more <= _SPARE_MIB)


def _first(bench: Bench) -> Gpu:
    devices = bench.facts.gpus.devices if bench.facts else ()
    if not devices:
        raise CannotMeasure("no GPU answered the probe", next_step="look at the step probe")
    return devices[0]


def _holds(memory: Tested | None) -> bool:
    return memory is not None and memory.wrong_words == 0 and value_or(memory.passes, 0) > 0


def _is_whole(gpu: Gpu) -> bool:
    return gpu.lost is None and not any(isinstance(each, Unknown) for each in (gpu.name, gpu.uuid, gpu.address))


def _errors(document: Mapping[str, object]) -> list[str]:
    gpus = document.get("gpus")
    return [str(each.get("error", "")) for each in gpus] if isinstance(gpus, list) else []


def _in(text: object) -> str:
    return f": {text}" if text else ""
