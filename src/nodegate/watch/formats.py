"""The iteration lines of the frameworks: each function reads one line, or returns None.

If a log has lines of several formats, the first of FORMATS is used: it has the most information.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodegate.watch.metric_lines import metrics
from nodegate.watch.reading import Reading, elapsed_s, positive, reading, whole

if TYPE_CHECKING:
    from collections.abc import Callable

_MEGATRON = re.compile(r"iteration\s{1,20}([0-9]{1,13})/\s{0,20}([0-9]{1,13}) \|")
_NEMO = re.compile(r"Training epoch [0-9]{1,9}, iteration [0-9]{1,12}/[0-9]{1,12} \|")
_MMENGINE = re.compile(
    r"- mmengine - INFO - (?:Epoch\(train\) {1,4}\[(?P<epoch>[0-9]{1,6})\]|Iter\(train\) )"
    r"\[ {0,8}(?P<step>[0-9]{1,13})/(?P<of>[0-9]{1,13})\] "
)
_MMENGINE_TIME = re.compile(r" time: ([0-9.]{1,20})(?=\s|$)")
_VERL = re.compile(r"(?:^|[\s)])step:([0-9]{1,13}) - ")
_VERL_TIME = re.compile(r" - timing_s/(step|testing|save_checkpoint):([0-9.e+-]{1,40})(?= - |\s|$)")
_NANOTRON = re.compile(
    r"iteration: ([0-9]{1,13}) / ([0-9]{1,13}) \|.{1,200}?\belapsed_time_per_iteration_ms: ([0-9.]{1,12})([KM]?) \|"
)
_SCALE = {"": 1e-3, "K": 1.0, "M": 1e3}  # milliseconds in seconds
_STEP = re.compile(
    r"(?:^|[\s\[({|,])(?:global[ _])?(?:step|iter|iteration)s?[ :=#\[(]{1,4}"
    r"([0-9]{1,13})(?:\s?/\s?([0-9]{1,13}))?(?![0-9.%])",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(?:(it|iter|step)s?(?:/s|/sec| per second)|(m?s)/(?:it|iter|step)s?)(?![a-z/])",
    re.IGNORECASE,
)
_TOOK = re.compile(
    r"\b(?:dt|(?:step|iter|iteration|batch)[_ ]?time|time(?:[_ /]per[_ ])?(?:step|iter)?|took)\s?[:=]?\s?"
    r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(ms|s|sec|secs|seconds|msec)\b",
    re.IGNORECASE,
)
_TIMED = ("/s", "s/", "dt", "time", "took", "Time")
_NO_STEP = re.compile(r"\b(?:sav(?:e|ed|ing)|checkpoint|eval|evaluat|validat|load(?:ed|ing))", re.IGNORECASE)
_BAR = re.compile(
    r"(?:^|[\s|])([0-9]{1,13})/([0-9]{1,13}) "
    r"\[((?:[0-9]{1,5} days?, )?[0-9:]{4,12})<[0-9:?, days]{1,24}, {1,4}"
    r"[0-9.?]{1,12} ?(?:s/(?:it|iter|step|batch|ba)|(?:it|iter|step|batch|ba)s?/s)[\],]"
)
_LAP = re.compile(r"epoch ([0-9]{1,6})", re.IGNORECASE)
_OTHER_BARS = re.compile(
    r"map|filter|token|load|generat|download|group|convert|sav|eval|valid|test|predict|prefill|fetch|check|sanity|pack|writ",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Form:
    """A format whose line is a word and a regular expression with the groups of `reading`."""

    source: str
    word: str
    pattern: re.Pattern[str]
    per: str = "iteration"
    alone: bool = False

    def __call__(self, line: str) -> Reading | None:
        """The reading of a line; commas are between thousands."""
        found = self.pattern.search(line) if self.word in line else None
        parts = {name: value and value.replace(",", "") for name, value in found.groupdict().items()} if found else {}
        return reading(self.source, parts, per=self.per, alone=self.alone) if parts else None


_FORMS = (
    # NeMo 1 and Lightning: the values behind the progress bar, where it says the time of a step.
    Form(
        "nemo-bar",
        "train_step_timing in s=",
        re.compile(
            r"\bglobal_step=(?P<iteration>[0-9]{1,13})(?:\.0)?,.{0,400}?\btrain_step_timing in s=(?P<s>[0-9.]{1,20})"
        ),
    ),
    # MaxText: each step by itself.
    Form(
        "maxtext",
        "completed step: ",
        re.compile(r"completed step: (?P<iteration>[0-9]{1,13}), seconds: (?P<s>[0-9.]{1,20}), "),
    ),
    # fairseq: the updates and the time since the start, in whole seconds.
    Form(
        "fairseq",
        "train_inner | ",
        re.compile(
            r"\btrain_inner \| .{1,1500}?\bnum_updates=(?P<iteration>[0-9]{1,13}),"
            r".{1,600}?\bwall=(?P<elapsed>[0-9]{1,9})\b"
        ),
    ),
    # torchtitan: tokens a second and GPU, mean over the log interval; it prints no time of a step.
    Form(
        "torchtitan",
        "tps:",
        re.compile(
            r"step:\s{1,8}(?P<iteration>[0-9]{1,13})\s{1,4}.{1,200}?\btps:\s{1,4}(?P<per_s>[0-9,.]{1,20})"
            r"(?:.{1,200}?\bmfu: {1,4}(?P<mfu>[0-9.]{1,8})%)?"
        ),
        per="token",
    ),
    # DeepSpeed's pipeline engine: mean over steps_per_print.
    Form(
        "deepspeed-pipeline",
        "iter time (s): ",
        re.compile(
            r"steps: (?P<iteration>[0-9]{1,13}) loss: [^:]{1,40}(?::[^:]{1,40}){0,8}"
            r"iter time \(s\): (?P<s>[0-9.]{1,20}) samples/sec: "
        ),
    ),
    # DeepSpeed's throughput timer: the last step only, without the wait for data.
    Form(
        "deepspeed",
        "CurrSamplesPerSec=",
        re.compile(
            r"global_step=(?P<iteration>[0-9]{1,13}), RunningAvgSamplesPerSec=[^,]{1,40},"
            r" CurrSamplesPerSec=(?P<per_s>[0-9.eE+-]{1,40}),"
        ),
        per="sample",
        alone=True,
    ),
)


def megatron(line: str) -> Reading | None:
    """Megatron-LM and Megatron-DeepSpeed: mean over the log interval, without evaluation and saving."""
    if "elapsed time per iteration (" not in line:
        return None
    found = _MEGATRON.search(line)
    if found is None:
        return None
    fields = _fields(line[found.end() :], all_whole=False)
    ms, s = (  # Primus writes two numbers, `6233.4/6240.1`: of this interval, and the mean of the run
        positive(fields.get(f"elapsed time per iteration ({unit})", "").partition("/")[0]) for unit in ("ms", "s")
    )
    seconds = ms / 1000 if ms is not None else s
    if seconds is None:
        return None
    return Reading(
        "megatron",
        int(found[1]),
        total=int(found[2]),
        seconds=seconds,
        batch=whole(fields.get("global batch size")),
        sequence=whole(fields.get("actual seqlen")),
        tokens=whole(fields.get("consumed tokens")),
        tflops=positive(fields.get("throughput per GPU (TFLOP/s/GPU)", "").partition("/")[0]),
    )


def nemo(line: str) -> Reading | None:
    """NeMo 2 (ProgressPrinter): mean over the log interval; iterations count from 0."""
    if "train_step_timing in s:" not in line:
        return None
    found = _NEMO.search(line)
    if found is None:
        return None
    fields = _fields(line[found.end() :], all_whole=True)
    step, seconds = whole(fields.get("global_step")), positive(fields.get("train_step_timing in s"))
    if step is None or seconds is None:
        return None
    return Reading("nemo", step, seconds=seconds, batch=whole(fields.get("global_batch_size")))


def mmengine(line: str) -> Reading | None:
    """MMEngine, XTuner and OpenMMLab's others: mean over the log interval, with the wait for data."""
    if "(train)" not in line:
        return None
    found = _MMENGINE.search(line)
    took = _MMENGINE_TIME.search(line, found.end()) if found else None
    seconds = positive(took[1]) if took else None
    if found is None or seconds is None:
        return None
    step, of = int(found["step"]), int(found["of"])
    if found["epoch"] is None:
        return Reading("mmengine", step, total=of, seconds=seconds)
    return Reading("mmengine", (int(found["epoch"]) - 1) * of + step, seconds=seconds)


def verl(line: str) -> Reading | None:
    """verl: the time of a step, without its evaluation and checkpoint."""
    if "timing_s/step:" not in line:
        return None
    found = _VERL.search(line)
    parts = {name: positive(value) for name, value in _VERL_TIME.findall(line)}
    whole_s = parts.get("step")
    if found is None or whole_s is None:
        return None
    seconds = whole_s - (parts.get("testing") or 0) - (parts.get("save_checkpoint") or 0)
    return Reading("verl", int(found[1]), seconds=seconds) if seconds > 0 else None


def nanotron(line: str) -> Reading | None:
    """nanotron: mean over the log interval, in three digits and a letter (`3.01K`)."""
    if "elapsed_time_per_iteration_ms: " not in line:
        return None
    found = _NANOTRON.search(line)
    value = positive(found[3]) if found else None
    if found is None or value is None:
        return None
    return Reading("nanotron", int(found[1]), total=int(found[2]), seconds=value * _SCALE[found[4]])


def llamafactory(line: str) -> Reading | None:
    """LLaMA-Factory's trainer_log.jsonl. Its `throughput` is a mean since the start, useless for changes."""
    if '"current_steps"' not in line or not line.lstrip().startswith("{"):
        return None
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or "eval_loss" in said:
        return None
    step, elapsed = whole(said.get("current_steps")), elapsed_s(said.get("elapsed_time"))
    if step is None or elapsed is None:
        return None
    total, tokens = whole(said.get("total_steps")) or 0, whole(said.get("total_tokens"))
    return Reading("llama-factory", step, total=total, elapsed_s=elapsed, tokens=tokens)


def tqdm(line: str) -> Reading | None:
    """A progress bar of the HF Trainer, Lightning and others: `12/100 [01:23<10:00, 3.45s/it]`.

    Bars whose name shows that they do something else (Map, Evaluating, Loading checkpoint shards) are left out.
    """
    if "<" not in line or "/" not in line:
        return None
    line = line[-1000:]
    found = None
    for found in _BAR.finditer(line):  # noqa: B007 - bars that hide behind others in one line: the last one counts
        pass
    elapsed = elapsed_s(found[3]) if found else None
    if found is None or elapsed is None or int(found[2]) == 0:
        return None
    name = _name_of_bar(line[: found.start()])
    if _OTHER_BARS.search(name):
        return None
    step, total, lap = int(found[1]), int(found[2]), _LAP.match(name)
    bar = f"{name.rstrip('0123456789/ ')} of {total}"
    if lap is None:
        return Reading("tqdm", step, total=total, elapsed_s=elapsed, bar=bar)
    return Reading("tqdm", int(lap[1]) * total + step, elapsed_s=elapsed, bar=bar)  # a bar for each epoch


def steps(line: str) -> Reading | None:
    """Any line with the number of a step and `1.3 it/s`, `2.1 s/step`, `dt: 245.1ms` or `step_time=3.1s`."""
    if "%|" in line or not any(word in line for word in _TIMED):
        return None
    found = _STEP.search(line, 0, 1000)
    if found is None or _NO_STEP.search(line, 0, 1000):
        return None
    rate, took = _RATE.search(line, 0, 1000), _TOOK.search(line, 0, 1000)
    if rate:
        value = positive(rate[1])
        seconds = None if value is None else 1 / value if rate[2] else value / (1000 if rate[3].lower() == "ms" else 1)
    elif took:
        value = positive(took[1])
        seconds = None if value is None else value / (1000 if took[2].lower().startswith("m") else 1)
    else:
        return None
    total = int(found[2] or 0)
    return Reading("steps", int(found[1]), total=total, seconds=seconds) if seconds and int(found[1]) else None


def _name_of_bar(before: str) -> str:
    """The text before ` 12%|####  |`: `Epoch 1`, `Map`, or nothing."""
    percent = before.rfind("%|")
    name, colon, _ = before[max(0, percent - 70) : percent].rpartition(":") if percent >= 0 else ("", "", "")
    name = name.rpartition("]")[2].rpartition(":")[2].strip() if colon else ""
    return name if name[:1].isalpha() else ""


_BY_NAME = {form.source: form for form in _FORMS}
FORMATS: dict[str, Callable[[str], Reading | None]] = {
    "megatron": megatron,
    "nemo": nemo,
    "nemo-bar": _BY_NAME["nemo-bar"],
    "mmengine": mmengine,
    "verl": verl,
    "maxtext": _BY_NAME["maxtext"],
    "nanotron": nanotron,
    "fairseq": _BY_NAME["fairseq"],
    "torchtitan": _BY_NAME["torchtitan"],
    "deepspeed-pipeline": _BY_NAME["deepspeed-pipeline"],
    "llama-factory": llamafactory,
    "json": metrics,
    "deepspeed": _BY_NAME["deepspeed"],
    "tqdm": tqdm,
    "steps": steps,
}


def _fields(text: str, *, all_whole: bool) -> dict[str, str]:
    """`name: value | name: value |` by name; the text after the last bar may be cut: it counts if `all_whole`."""
    parts = text.split("|", 100)
    if not all_whole:
        parts.pop()
    pairs = (part.partition(":") for part in parts)
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}
