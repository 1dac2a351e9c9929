"""What fails again, in words for people in English and Chinese, and as JSON for programs."""

# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from nodegate.knowledge.words import Text
from nodegate.past.faults import DAY_S
from nodegate.past.lemons import BATCH, BOARD, NODE, RACK, RMA, SERVICE, SOAK, SWAP, WATCH
from nodegate.text import day_of, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodegate.past.lemons import Lemon, Told, Unit

SCHEMA = "nodegate.lemons/1"
MOST_NODES = 8
_WATCH = Text("no fault for 14 days: watch it", "已 14 天没有故障：继续观察")
_DO = {
    (BOARD, SWAP): Text(
        "swap the board with a good one of another node and see which one the fault follows",
        "与另一节点的完好板卡对换，看故障跟随哪一方",
    ),
    (BOARD, RMA): Text("the fault came along when the board moved: RMA", "板卡换位后故障随之出现：申请 RMA"),
    (NODE, SOAK): Text(
        "several of its parts fail: burn it for hours outside production, then look at power, cooling and baseboard",
        "多个部件先后故障：移出生产做数小时老化测试，再检查供电、散热和基板",
    ),
    (NODE, SERVICE): Text(
        "the fault stayed in the slot when the board changed: service slot, cable and baseboard",
        "更换板卡后故障仍在原槽位：检修槽位、线缆和基板",
    ),
    (RACK, SERVICE): Text(
        "look at what its nodes share: power, cooling, switch", "检查这些节点共用的供电、散热和交换机"
    ),
    (BATCH, SERVICE): Text("a batch: ask the vendor for what its nodes share", "同一批次：就其共同点询问供应商"),
}
_RESET = Text("a reset does not help any more: service it", "复位已无济于事：应检修")
_HEADS = {
    "named": Text("{count} beyond chance from {since} to {until}", "{since} 至 {until}：{count} 项超出偶然"),
    "none": Text(
        "nothing fails again beyond chance from {since} to {until}", "{since} 至 {until}：没有超出偶然的重复故障"
    ),
    "grounds": Text(
        "faults on {count} days where {expected} were expected: {kinds}; last {last}",
        "{count} 天出现故障，预期 {expected} 天：{kinds}；最近一次 {last}",
    ),
    "group": Text(
        "{hit} of its {size} nodes failed, on {count} days where {expected} were expected (2 of a node at most): "
        "{kinds}; last {last}",
        "{size} 个节点中 {hit} 个故障，计 {count} 天，预期 {expected} 天（每节点至多计 2 天）：{kinds}；最近一次 {last}",
    ),
    "kind": Text("{kind} came again 3 times in 14 days", "{kind} 在 14 天内出现 3 次"),
    "any": Text("4 faults came and went in a week", "一周内 4 次故障出现又消失"),
    "fleet": Text(
        "fleet: {machines} nodes, {node_days} node-days, {faults} days with a fault; a node has one in {mtbf} days, "
        "it is gone after {repair} h (median); healthy in {healthy} of looks",
        "整体：{machines} 个节点，{node_days} 节点天，{faults} 个故障天；单节点平均 {mtbf} 天一次故障，"
        "{repair} 小时后消失（中位数）；{healthy} 的检查结果健康",
    ),
    "at once": Text(
        "not counted: {count} faults that many nodes had at once", "未计入：{count} 次多节点同时出现的故障"
    ),
    "few": Text(
        "not compared, fewer than 3 nodes of their platform: {nodes}", "未比较（该平台少于 3 个节点）：{nodes}"
    ),
}


def lines(told: Told, language: str = "en") -> Iterator[str]:
    """The answer: who, why and what to do; then parts that a reset does not help, and the fleet as a whole."""
    span = {"since": day_of(told.since_s), "until": day_of(told.until_s)}
    yield _say("named" if told.named else "none", language, count=len(told.named), **span)
    for each in told.named:
        yield f"  {_name(each.unit)}: {_in(grounds(each), language)}"
        yield f"    {_in(to_do(each), language)}"
    also = [
        (key, why) for key, why in told.recurring.items() if not any(key[0] == each.unit.key for each in told.named)
    ]
    for (key, node, slot), why in also:
        where = " ".join(part for part in (node, slot) if part)
        yield f"  {where} ({key}): {_in(recurs(why), language)} - {_in(_RESET, language)}"
    yield from _fleet(told, language)


def _fleet(told: Told, language: str) -> Iterator[str]:
    numbers = told.figures
    if numbers.at_once:
        yield _say("at once", language, count=numbers.at_once)
    yield _say(
        "fleet",
        language,
        machines=numbers.machines,
        node_days=numbers.node_days,
        faults=numbers.faults,
        mtbf="-" if numbers.mtbf_days is None else f"{numbers.mtbf_days:.0f}",
        repair="-" if numbers.repair_hours is None else f"{numbers.repair_hours:.0f}",
        healthy="-" if numbers.healthy_share is None else f"{100 * numbers.healthy_share:.1f} %",
    )
    if told.not_compared:
        more = len(told.not_compared) - MOST_NODES
        listed = ", ".join(told.not_compared[:MOST_NODES]) + (f" +{more}" if more > 0 else "")
        yield _say("few", language, nodes=listed)


def grounds(lemon: Lemon) -> Text:
    """Why it is named, in both languages."""
    unit = lemon.unit
    known = {
        "count": unit.count,
        "expected": f"{lemon.expected:.1f}",
        "kinds": ", ".join(f"{kind} {count}" for kind, count in _kinds(unit).items()),
        "last": day_of(unit.faults[-1].at_s),
        "hit": len({each.machine for each in unit.faults}),
        "size": len(unit.members),
    }
    said = _HEADS["group" if unit.is_group else "grounds"]
    return Text(said.en.format(**known), said.zh.format(**known))


def to_do(lemon: Lemon) -> Text:
    """What to do, in both languages; a recurring fault is no matter for a reset."""
    said = _WATCH if lemon.advice == WATCH else _DO[lemon.unit.what, lemon.advice]
    if not lemon.recurs:
        return said
    why = recurs(lemon.recurs)
    return Text(f"{said.en}; {why.en}: {_RESET.en}", f"{said.zh}；{why.zh}：{_RESET.zh}")


def recurs(why: str) -> Text:
    """How it comes again."""
    said = _HEADS["any" if why == "any" else "kind"]
    return Text(said.en.format(kind=why), said.zh.format(kind=why))


def _kinds(unit: Unit) -> Counter[str]:
    found = Counter(kind for kind, _, _ in {(each.kind, each.machine, each.day) for each in unit.faults})
    return Counter(dict(sorted(found.items(), key=lambda each: (-each[1], each[0]))))


def _name(unit: Unit) -> str:
    where = " ".join(part for part in (unit.node, unit.slot) if part)
    return f"{where} ({unit.key})" if where else unit.key


def _say(what: str, language: str, **values: object) -> str:
    return _in(_HEADS[what], language).format(**values)


def _in(said: Text, language: str) -> str:
    return said.zh if language == "zh" else said.en


def as_json(told: Told) -> str:
    """The whole answer as one object; sentences are English, times are seconds since the epoch."""
    value = {
        "schema": SCHEMA,
        "since_epoch_s": told.since_s,
        "until_epoch_s": told.until_s,
        "days": round((told.until_s - told.since_s) / DAY_S, 2),
        "fleet": {name: getattr(told.figures, name) for name in told.figures.__dataclass_fields__},
        "lemons": [_lemon(each) for each in told.named],
        "reset_does_not_help": [
            {"part": key, "node": visible(node), "slot": slot, "why": recurs(why).en}
            for (key, node, slot), why in told.recurring.items()
        ],
        "not_compared": [visible(node) for node in told.not_compared],
    }
    return json.dumps(value, ensure_ascii=False, indent=1)


def _lemon(each: Lemon) -> dict[str, object]:
    unit = each.unit
    return {
        "what": unit.what,
        "part": visible(unit.key),
        "node": visible(unit.node),
        "slot": visible(unit.slot),
        "nodes": sorted({fault.node for fault in unit.faults}),
        "days_with_a_fault": unit.count,
        "expected": round(each.expected, 4),
        "chance": each.chance,
        "days_looked_at": unit.exposure[0],
        "mtbf_days": round(unit.exposure[0] / unit.count, 2),
        "kinds": _kinds(unit),
        "first_epoch_s": unit.faults[0].at_s,
        "last_epoch_s": unit.faults[-1].at_s,
        "advice": each.advice,
        "reset_helps": not each.recurs,
        "do": to_do(each).en,
    }
