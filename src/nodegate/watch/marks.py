"""Lines that are not iterations but explain one: starts, checkpoints, evaluations, ends, settings, the slowest rank."""

import re

_MARKS = {
    "start": (
        "[before the start of training step]",
        "***** Running training *****",
        "initializing torch distributed",
        "successfully loaded checkpoint",
        "Restoring states from the checkpoint",
        "Resuming training from",
        "Continuing training from checkpoint",
    ),
    "checkpoint": (
        "saving checkpoint",
        "saved checkpoint",
        "Saving model checkpoint",
        "Saving the full model weights",
        "save-checkpoint",
        "Scheduled async checkpoint save",
        "Async checkpoint save for step",
        "Saving model and optimizer",
        "is about to be saved!",
        "Saving the checkpoint",
        "Finished saving the checkpoint",
    ),
    "evaluation": (
        "validation loss at iteration",
        "***** Running Evaluation *****",
        "***** Running evaluation *****",
        "Running validation at step",
        "Evaluating on ",
        "Evaluating iter ",
        "'eval_loss'",
        '"eval_loss"',
        "'eval_runtime'",
        " - Epoch(val) ",
        " - Iter(val) ",
    ),
    "finished": (
        "[after training is done]",
        "'train_runtime'",
        '"train_runtime"',
        "exiting program at iteration",
        "`Trainer.fit` stopped:",
        "Training completed",
    ),
    "died": (
        "Traceback (most recent call last)",
        "ChildFailedError",
        "srun: error:",
        "slurmstepd: error:",
        "Job step aborted",
        "Killing subprocess",
        "Watchdog caught collective operation timeout",
        "CUDA error:",
        "Out of memory: Killed process",
    ),
}
_WORDS = tuple((word, name) for name, words in _MARKS.items() for word in words)
_SETTING = re.compile(
    r"(?:^|[\s\]])(world_size|seq_length|global_batch_size|train_batch_size) \.{2,60} ([0-9]{1,9})\s{0,8}$"
)
_WORLD = re.compile(r"using world size: ([0-9]{1,9}),")
_BATCH = re.compile(r"Total train batch size \([^)]{1,80}\) = ([0-9]{1,3}(?:,[0-9]{3}){0,3}|[0-9]{1,9})\b")
_SLOWEST = re.compile(r"MxRtt/Rnk: ([0-9.]{1,20})ms/([0-9]{1,7})\b")
_NAMES = {"world_size": "world", "seq_length": "sequence", "global_batch_size": "batch", "train_batch_size": "batch"}


def mark(line: str) -> str:
    """`start`, `checkpoint`, `evaluation`, `finished`, `died`, or nothing."""
    return next((name for word, name in _WORDS if word in line), "")


def setting(line: str) -> tuple[str, int] | None:
    """One of `world` (ranks), `sequence` (tokens) and `batch` (samples) in a line of the start-up text."""
    if " .." in line:
        found = _SETTING.search(line)
        return (_NAMES[found[1]], int(found[2])) if found else None
    for name, pattern, word in (("world", _WORLD, "using world size"), ("batch", _BATCH, "Total train batch size")):
        if word in line and (found := pattern.search(line)):
            return name, int(found[1].replace(",", ""))
    return None


def slowest_rank(line: str) -> int | None:
    """The rank that Megatron's straggler detector found slowest."""
    found = _SLOWEST.search(line) if "MxRtt/Rnk" in line else None
    return int(found[2]) if found else None
