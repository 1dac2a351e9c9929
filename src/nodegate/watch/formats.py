"""The iteration lines of the frameworks: each function reads one line, or returns None.

If a log has lines of several formats, the first of FORMATS is used: it has the most information. A class has an
object for each log: it remembers lines.
"""

import json
import re
from collections.abc import Callable

from nodegate.watch.forms import FORMS
from nodegate.watch.metric_lines import metrics
from nodegate.watch.reading import Reading, elapsed_s, positive, whole
from nodegate.watch.trainer_lines import TrainerLines

_MEGATRON = re.compile(r"iteration\s{1,20}([0-9]{1,13})/\s{0,20}([0-9]{1,13}) \|")
_VERL = re.compile(r"(?:^|[\s)])step:([0-9]{1,13}) - ")
_VERL_TIME = re.compile(r" - timing_s/(step|testing|save_checkpoint):([0-9.e+-]{1,40})(?= - |\s|$)")
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


def megatron(line: str) -> Reading | None:
    """Megatron-LM and Megatron-DeepSpeed: mean over the log interval, without evaluation and saving."""
    if "elapsed time per iteration (" not in line:
        return None
    found = _MEGATRON.search(line)
    if found is None:
        return None
    pairs = (part.partition(":") for part in line[found.end() :].split("|", 100)[:-1])  # after the last it may be cut
    fields = {name.strip(): value.strip() for name, colon, value in pairs if colon}
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
    before, _, _ = line[: found.start()].rpartition("%|")  # ` 12%|####  |` behind `Epoch 1`, `Map`, or nothing
    name, colon, _ = before[-70:].rpartition(":")
    name = name.rpartition("]")[2].rpartition(":")[2].strip() if colon else ""
    name = name if name[:1].isalpha() else ""
    if _OTHER_BARS.search(name):
        return None
    step, total, lap = int(found[1]), int(found[2]), _LAP.search(name)
    bar = f"{name.rstrip('0123456789/ ')} of {total}"
    if lap is None:
        return Reading("tqdm", step, total=total, elapsed_s=elapsed, bar=bar)
    return Reading("tqdm", step, elapsed_s=elapsed, bar=bar, lap=int(lap[1]))  # a bar for each epoch


_KERAS_BAR = re.compile(
    r"(?:^|\s)(?P<n>[0-9]{1,13})/(?P<of>[0-9]{1,13})\s{1,4}(?:\[[=>.]{1,60}\] -|[━╸╺ ]{1,60})\s{1,4}"
    r"(?:ETA: )?(?P<eta>[0-9:]{1,12})s?(?: -)? {1,4}(?P<time>[0-9]{1,9})(?P<unit>m?s)/(?:step|sample|batch)"
)
_KERAS_LEAST_S = 20.0  # between two means: their errors are those of whole milliseconds, times the steps
_KERAS_NEGATIVES = 2


class KerasBars:
    """Keras' bars: their time is the mean since the epoch began, so a step's own is the difference of two by steps.

    A program that writes the last step's own there is known by such a difference that is negative.
    """

    def __init__(self) -> None:
        self._anchor = self._before = (0, 0.0)  # steps, and the seconds of all of them
        self._negatives = 0
        self._lap, self._of = 1, 0

    def __call__(self, line: str) -> Reading | None:
        """The reading of a bar; None for other lines and while too little time has passed."""
        found = _KERAS_BAR.search(line[:400]) if "/step" in line or "/sample" in line or "/batch" in line else None
        steps, of = (int(found["n"]), int(found["of"])) if found else (0, 0)
        mean = _keras_mean(found, steps, of - steps) if found else None
        if mean is None or not 0 < steps < of:
            return None
        self._of = self._of or of
        if of != self._of:  # an evaluation
            return Reading("keras", steps, seconds=mean, bar=f" of {of}")
        spent_s = mean * steps
        if steps < self._before[0]:
            self._anchor = self._before = (0, 0.0)
            self._lap += 1
        self._negatives += spent_s < self._before[1]
        self._before = (steps, spent_s)
        if self._negatives < _KERAS_NEGATIVES:
            since, since_s = self._anchor
            if spent_s - since_s < _KERAS_LEAST_S:
                return None
            mean, self._anchor = (spent_s - since_s) / (steps - since), self._before
        return Reading("keras", steps, seconds=mean, bar=f" of {of}", lap=self._lap)


def _keras_mean(found: re.Match[str], steps: int, left: int) -> float | None:
    """Seconds of a step: by the time that is left where it says more than whole seconds or milliseconds."""
    value = positive(found["time"])
    if value is None or found["unit"] == "ms":
        return None if value is None else value / 1000
    eta_s = elapsed_s(found["eta"]) if ":" in found["eta"] else positive(found["eta"])
    return eta_s / left if eta_s and left * 3 > steps else None


Reader = Callable[[str], Reading | None] | type[TrainerLines | KerasBars]
_READERS: dict[str, Reader] = {
    "megatron": megatron,
    "verl": verl,
    "llama-factory": llamafactory,
    "json": metrics,
    **{form.source: form for form in FORMS},
    "keras": KerasBars,
    "tqdm": tqdm,
    "steps": TrainerLines,
}
_WITH_MOST = (
    *("megatron", "nemo", "nemo-bar", "mmengine", "verl", "maxtext", "nanotron", "fairseq", "torchtitan"),
    *("deepspeed-pipeline", "llama-factory", "json", "deepspeed"),
)
FORMATS = {name: _READERS[name] for name in dict.fromkeys((*_WITH_MOST, *_READERS))}


def reader(form: Reader) -> Callable[[str], Reading | None]:
    """What reads the lines of one log."""
    return form() if isinstance(form, type) else form
