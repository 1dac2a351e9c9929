"""The notes of an answer, which change no verdict, in English and in Chinese."""

# ruff: noqa: RUF001 - Chinese punctuation
from nodegate.knowledge.words import Text
from nodegate.watch.pattern import Pauses, Period

ITSELF = Text(
    "compared with its own pace only: a job that is slow from its first iteration looks like this too;"
    " to compare with an earlier run: --like EARLIER.log or --usual TIME",
    "只与自身的速度比较：从第一次迭代起就慢的作业看起来也是这样；与更早的运行比较：--like EARLIER.log 或 --usual TIME",
)
NO_TIMES = Text(
    "the lines have no time: silences between them cannot be detected", "各行没有时间：无法发现它们之间的无输出时段"
)
DIED = Text("the log ends with an error; run nodegate triage LOG", "日志以错误结束；请运行 nodegate triage LOG")
# What the training does where no line comes.
START = Text("the start of training", "训练启动")
END = Text("the end of training", "训练结束")
RESTART = Text("a new start", "重新启动")
PAUSES = {"checkpoint": Text("a checkpoint", "保存检查点"), "evaluation": Text("an evaluation", "评估")}


def restarted(before: int, after: int) -> Text:
    """The training was started again and went on from an earlier iteration."""
    return Text(
        f"restarted after iteration {before}, continued from {after}", f"在第 {before} 次迭代后重启，从 {after} 继续"
    )


def settings(kinds: int) -> Text:
    """Points that cannot be compared with each other."""
    return Text(
        f"batch, sequence length or ranks changed: {kinds} settings, each judged separately",
        f"批量、序列长度或 rank 数有变化：共 {kinds} 种设置，分别判断",
    )


def explained(seconds: float, time: str, by: Text) -> Text:
    """A silence with a reason."""
    return Text(f"{seconds:.0f} s without a line at {time}: {by.en}", f"{time} 起 {seconds:.0f} 秒无输出：{by.zh}")


def irregular(pauses: Pauses) -> Text:
    """What pauses of equal length at no period mean."""
    grew, grew_zh = "", ""
    if pauses.at_last < 0.7 * pauses.at_first:
        first, last = f"{pauses.at_first:.0f}", f"{pauses.at_last:.0f}"
        grew = f"; more and more often: each {first} iterations at first, each {last} at last"
        grew_zh = f"；越来越频繁：起初每 {first} 次迭代一次，最后每 {last} 次一次"
    span, part = f"{pauses.first}-{pauses.last}", f"{pauses.part * 100:.1f} %"
    return Text(
        f"{pauses.count} single pauses of about {pauses.seconds:.1f} s at no period (iterations {span}), {part} of the"
        f" time{grew}: check garbage collection first: each rank collects when it likes and all wait (gc.collect at one"
        " step on all ranks), then data loading",
        f"{pauses.count} 次约 {pauses.seconds:.1f} 秒的单独停顿，没有周期（迭代 {span}），占时间的 {part}{grew_zh}："
        "先查垃圾回收：各 rank 各自回收，其他 rank 都在等待（让所有 rank 在同一步调用 gc.collect），再查数据加载",
    )


def periodic(period: Period) -> Text:
    """What periodic spikes mean."""
    times, each, part = f"{period.times:.1f}", period.iterations, f"{period.part * 100:.1f} %"
    what = f"one slow step ({times} times the usual) every {each} iterations, {part} of the time: "
    what_zh = f"每 {each} 次迭代有一个慢步（为平常的 {times} 倍），占时间的 {part}："
    if period.pauses > 0.8 * period.spikes:
        return Text(f"{what}after checkpoints or evaluations", f"{what_zh}在检查点或评估之后")
    return Text(
        f"{what}not at checkpoints; check garbage collection (gc.collect at one step on all ranks), logging,"
        " data loading",
        f"{what_zh}不在检查点处；查垃圾回收（让所有 rank 在同一步调用 gc.collect）、日志和数据加载",
    )
