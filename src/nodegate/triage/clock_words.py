"""What is to be said of clocks: which were moved, which zones were guessed, and where the order is doubtful."""

# ruff: noqa: RUF001 - Chinese punctuation
from collections.abc import Iterator

from nodegate.knowledge.words import Text
from nodegate.triage.clock import zone_name
from nodegate.triage.wording import lasting
from nodegate.triage.zones import Clocks


def of_zones(clocks: Clocks) -> Iterator[Text]:
    """Which zones were guessed."""
    for log, zone_s in clocks.guessed.items():
        name, zone = _name(log), zone_name(zone_s)
        yield Text(
            f"the clock of {name} names no zone and was read as {zone}: so its errors and the job's agree",
            f"{name} 的时钟未注明时区，按 {zone} 解读：此时其错误与作业的错误同时",
        )


def of_clocks(clocks: Clocks) -> Iterator[Text]:
    """Which clocks are hours away from the others, and how that is known."""
    for log, by_s in clocks.skew.ahead.items():
        name, far = _name(log), lasting(by_s)
        how = "their first and last lines" if log in clocks.skew.by_length else "lines that both have"
        how_zh = "首末两行" if log in clocks.skew.by_length else "双方都有的行"
        yield Text(
            f"the clock of {name} is {far.en} {'ahead of' if by_s > 0 else 'behind'} the others', by {how}:"
            " its times were moved",
            f"{name} 的时钟比其他日志{'快' if by_s > 0 else '慢'} {far.zh}（依据{how_zh}），其时间已相应校正",
        )
    for log, by_s in clocks.skew.unknown.items():
        name, far = _name(log), lasting(by_s)
        yield Text(
            f"{name} {'begins' if by_s > 0 else 'ends'} {far.en} {'after' if by_s > 0 else 'before'} the other logs"
            f" {'end' if by_s > 0 else 'begin'} and shares no line with them: if its clock is wrong, the order is too;"
            f" give --tz {name}=+HH:MM if you know it",
            f"{name} 与其他日志相隔 {far.zh}，且没有共同的行：若其时钟有误，先后顺序也不可信；"
            f"如已知其时区，请用 --tz {name}=+HH:MM 指定",
        )
    for log in clocks.skew.mixed:
        name = _name(log)
        yield Text(
            f"{name} has workers whose clocks are hours apart and is too large, or has too many of them, to be taken"
            " apart: which error came first is doubtful; give one log for each worker",
            f"{name} 中各 worker 的时钟相差数小时，文件过大或 worker 过多、未能拆分：哪个错误在先并不可靠；"
            "请为每个 worker 各提供一份日志",
        )


def _name(log: str) -> str:
    return log.rsplit("/", 1)[-1]
