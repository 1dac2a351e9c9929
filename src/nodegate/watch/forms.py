"""The table of lines that a regular expression reads whole; trainer_lines.py reads those of any other trainer.

A row stands here where the words of a line do not tell what its numbers are: a time since the start that is called
`train_time`, an interval in brackets, a counter of samples, a scale letter.
"""

import re
from dataclasses import dataclass

from nodegate.watch.reading import Reading, reading


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


FORMS = (
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
    # MMEngine, XTuner and OpenMMLab's others: mean over the log interval, with the wait for data.
    Form(
        "mmengine",
        "(train)",
        re.compile(
            r"- mmengine - INFO - (?:Epoch\(train\) {1,4}\[(?P<epoch>[0-9]{1,6})\]|Iter\(train\) )"
            r"\[ {0,8}(?P<iteration>[0-9]{1,13})/(?P<total>[0-9]{1,13})\] .{0,400}? time: (?P<s>[0-9.]{1,20})(?=\s|$)"
        ),
    ),
    # nanotron: mean over the log interval, in three digits and a letter (`3.01K`).
    Form(
        "nanotron",
        "elapsed_time_per_iteration_ms: ",
        re.compile(
            r"iteration: (?P<iteration>[0-9]{1,13}) / (?P<total>[0-9]{1,13}) \|.{1,200}?"
            r"\belapsed_time_per_iteration_ms: (?P<ms>[0-9.]{1,12}[KM]?) \|"
        ),
    ),
    # TensorFlow's hooks: the time since the line before.
    Form(
        "tf-estimator",
        "step = ",
        re.compile(r"\bstep = (?P<iteration>[0-9]{1,13}) \((?P<lap>[0-9.]{1,12}) sec\)"),
    ),
    # HugeCTR: the time of so many iterations.
    Form(
        "hugectr",
        " iters): ",
        re.compile(
            r"Iter: (?P<iteration>[0-9]{1,13}) Time\((?P<iterations>[0-9]{1,9}) iters\): (?P<lap>[0-9.]{1,20})s"
        ),
    ),
    # ESPnet: mean over the log interval; `iter_time` is the wait for data.
    Form(
        "espnet",
        "epoch:train:",
        re.compile(
            r"\b(?P<epoch>[0-9]{1,6})epoch:train:[0-9]{1,13}-(?P<iteration>[0-9]{1,13})batch"
            r".{1,1500}?\btrain_time=(?P<s>[0-9.e+-]{1,20})"
        ),
    ),
    # OpenCLIP and open_lm count samples, and write how many a second there are.
    Form(
        "open-clip",
        "Batch (t): ",
        re.compile(
            r"Train Epoch: (?P<epoch>[0-9]{1,6}) \[ {0,12}(?P<iteration>[0-9]{1,13})/(?P<total>[0-9]{1,13}) "
            r".{1,200}?Batch \(t\): [0-9.]{1,12}, (?P<per_s>[0-9.e+]{1,20})/s"
        ),
        per="sample",
    ),
    # tqdm in a log (tqdm_loggable, as Levanter writes it): the counter in three digits and a letter.
    Form(
        "tqdm-loggable",
        "Progress on:",
        re.compile(
            r"Progress on:train (?P<iteration>[0-9.]{1,12}k?)(?:it|step)/[0-9.]{1,12}[kM]?(?:it|step) "
            r"rate:(?:(?P<s>[0-9.]{1,12})s/(?:it|step)|(?P<per_s>[0-9.]{1,12})(?:it|step)/s)"
        ),
    ),
    # modded-nanogpt and its forks: the time since the start.
    Form(
        "modded-nanogpt",
        " step_avg:",
        re.compile(
            r"\bstep:(?P<iteration>[0-9]{1,13})/(?P<total>[0-9]{1,13}) "
            r".{0,200}?train_time:(?P<elapsed_ms>[0-9]{1,15})ms"
        ),
    ),
    # Darknet: the number of the batch, its loss, the mean loss, the rate, its time.
    Form(
        "darknet",
        " avg",
        re.compile(
            r"^\s{0,4}(?P<iteration>[0-9]{1,13}): [0-9.]{1,20}, [0-9.]{1,20} avg(?: loss)?, [0-9.]{1,20} rate, "
            r"(?P<s>[0-9.]{1,20}) seconds,"
        ),
        alone=True,
    ),
    # OpenNMT: tokens of source and target a second, and the time since the start.
    Form(
        "opennmt",
        " tok/s;",
        re.compile(
            r"\bStep {1,6}(?P<iteration>[0-9]{1,13})/ {0,12}(?P<total>[0-9]{1,13});.{1,300}? tok/s; {1,6}"
            r"(?P<elapsed>[0-9]{1,9}) sec"
        ),
    ),
    # Marian: the time since the line before.
    Form(
        "marian",
        " : Up. ",
        re.compile(r" : Up\. (?P<iteration>[0-9]{1,13}) : .{1,200}? : Time (?P<lap>[0-9.]{1,12})s : "),
    ),
    # TensorFlow's benchmarks.
    Form(
        "tf-benchmarks",
        "images/sec: ",
        re.compile(r"^(?P<iteration>[0-9]{1,13})\s{1,8}images/sec: (?P<per_s>[0-9.]{1,20}) \+/-"),
        per="sample",
    ),
)
