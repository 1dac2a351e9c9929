"""The table of lines that a regular expression reads whole; trainer_lines.py reads those of any other trainer.

A row stands here where the words of a line do not tell what its numbers are: a time since the start that is called
`train_time`, an interval in brackets, a counter of samples, a scale letter.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from nodegate.watch.reading import Reading, reading

_WHOLE, _NUMBER = "[0-9]{1,13}", "[0-9.e+-]{1,20}"
# What stands for a group of `reading` in a pattern: <s> for (?P<s>...).
_GROUPS = {
    **dict.fromkeys(("iteration", "total", "epoch", "iterations", "elapsed", "elapsed_ms", "batch"), _WHOLE),
    **dict.fromkeys(("s", "lap", "mfu"), _NUMBER),
    "per_s": "[0-9.,eE+-]{1,40}",
}
_GROUP = re.compile(r"(?<!\?P)<(\w{1,20})>")


@dataclass(frozen=True)
class Form:
    """A format whose line is a word and a regular expression with the groups of `reading`."""

    source: str
    word: str
    pattern: str
    per: str = "iteration"
    alone: bool = False

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(_GROUP.sub(lambda name: f"(?P{name[0]}{_GROUPS[name[1]]})", self.pattern))

    def __call__(self, line: str) -> Reading | None:
        """The reading of a line; commas are between thousands."""
        found = self._compiled.search(line) if self.word in line else None
        parts = {name: value and value.replace(",", "") for name, value in found.groupdict().items()} if found else {}
        return reading(self.source, parts, per=self.per, alone=self.alone) if parts else None


FORMS = (
    # NeMo 2 (ProgressPrinter): mean over the log interval; iterations count from 0.
    Form(
        *("nemo", "train_step_timing in s: "),
        r"Training epoch [0-9]{1,9}, iteration [0-9]{1,12}/[0-9]{1,12} \|(?:.{0,400}?\bglobal_batch_size: <batch> )?"
        r".{0,400}?\bglobal_step: <iteration> .{0,800}?\btrain_step_timing in s: <s>",
    ),
    # NeMo 1 and Lightning: the values behind the progress bar, where it says the time of a step.
    Form(
        *("nemo-bar", "train_step_timing in s="),
        r"\bglobal_step=<iteration>(?:\.0)?,.{0,400}?\btrain_step_timing in s=<s>",
    ),
    # MaxText: each step by itself.
    Form("maxtext", "completed step: ", r"completed step: <iteration>, seconds: <s>, "),
    # fairseq: the updates and the time since the start, in whole seconds.
    Form(
        *("fairseq", "train_inner | "),
        r"\btrain_inner \| .{1,1500}?\bnum_updates=<iteration>,.{1,600}?\bwall=<elapsed>\b",
    ),
    # torchtitan: tokens a second and GPU, mean over the log interval; it prints no time of a step.
    Form(
        *("torchtitan", "tps:"),
        r"step:\s{1,8}<iteration>\s{1,4}.{1,200}?\btps:\s{1,4}<per_s>(?:.{1,200}?\bmfu: {1,4}<mfu>%)?",
        per="token",
    ),
    # DeepSpeed's pipeline engine: mean over steps_per_print.
    Form(
        *("deepspeed-pipeline", "iter time (s): "),
        r"steps: <iteration> loss: [^:]{1,40}(?::[^:]{1,40}){0,8}iter time \(s\): <s> samples/sec: ",
    ),
    # DeepSpeed's throughput timer: the last step only, without the wait for data.
    Form(
        *("deepspeed", "CurrSamplesPerSec="),
        r"global_step=<iteration>, RunningAvgSamplesPerSec=[^,]{1,40}, CurrSamplesPerSec=<per_s>,",
        per="sample",
        alone=True,
    ),
    # MMEngine, XTuner and OpenMMLab's others: mean over the log interval, with the wait for data.
    Form(
        *("mmengine", "(train)"),
        r"- mmengine - INFO - (?:Epoch\(train\) {1,4}\[<epoch>\]|Iter\(train\) )"
        r"\[ {0,8}<iteration>/<total>\] .{0,400}? time: <s>(?=\s|$)",
    ),
    # nanotron: mean over the log interval, in three digits and a letter (`3.01K`).
    Form(
        *("nanotron", "elapsed_time_per_iteration_ms: "),
        r"iteration: <iteration> / <total> \|.{1,200}?\belapsed_time_per_iteration_ms: (?P<ms>[0-9.]{1,12}[KM]?) \|",
    ),
    # TensorFlow's hooks: the time since the line before.
    Form("tf-estimator", "step = ", r"\bstep = <iteration> \(<lap> sec\)"),
    # HugeCTR: the time of so many iterations.
    Form("hugectr", " iters): ", r"Iter: <iteration> Time\(<iterations> iters\): <lap>s"),
    # ESPnet: mean over the log interval; `iter_time` is the wait for data.
    Form(*("espnet", "epoch:train:"), r"\b<epoch>epoch:train:[0-9]{1,13}-<iteration>batch.{1,1500}?\btrain_time=<s>"),
    # OpenCLIP and open_lm count samples, and write how many a second there are.
    Form(
        *("open-clip", "Batch (t): "),
        r"Train Epoch: <epoch> \[ {0,12}<iteration>/<total> .{1,200}?Batch \(t\): [0-9.]{1,12}, <per_s>/s",
        per="sample",
    ),
    # tqdm in a log (tqdm_loggable, as Levanter writes it): the counter in three digits and a letter.
    Form(
        *("tqdm-loggable", "Progress on:"),
        r"Progress on:train (?P<iteration>[0-9.]{1,12}k?)(?:it|step)/[0-9.]{1,12}[kM]?(?:it|step) "
        r"rate:(?:<s>s/(?:it|step)|<per_s>(?:it|step)/s)",
    ),
    # modded-nanogpt and its forks: the time since the start.
    Form("modded-nanogpt", " step_avg:", r"\bstep:<iteration>/<total> .{0,200}?train_time:<elapsed_ms>ms"),
    # Darknet: the number of the batch, its loss, the mean loss, the rate, its time.
    Form(
        *("darknet", " avg"),
        r"^\s{0,4}<iteration>: [0-9.]{1,20}, [0-9.]{1,20} avg(?: loss)?, [0-9.]{1,20} rate, <s> seconds,",
        alone=True,
    ),
    # OpenNMT: tokens of source and target a second, and the time since the start.
    Form("opennmt", " tok/s;", r"\bStep {1,6}<iteration>/ {0,12}<total>;.{1,300}? tok/s; {1,6}<elapsed> sec"),
    # Marian: the time since the line before.
    Form("marian", " : Up. ", r" : Up\. <iteration> : .{1,200}? : Time <lap>s : "),
    # TensorFlow's benchmarks.
    Form("tf-benchmarks", "images/sec: ", r"^<iteration>\s{1,8}images/sec: <per_s> \+/-", per="sample"),
)
