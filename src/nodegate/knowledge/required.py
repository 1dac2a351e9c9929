"""Strings, one of which is in every match of a pattern: found in the pattern itself, for a quick first look.

`re` parses the pattern. Of what has to be there one after the other the cheapest part is taken, of alternatives every
one. What may be absent (an optional group, a look-ahead, a class of characters) is never asked for.
"""

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import re._constants as op
    import re._parser as parser
else:  # pragma: no cover - the same modules by their former names
    import sre_constants as op
    import sre_parse as parser

import re
from collections.abc import Iterable
from itertools import takewhile

IGNORES_CASE = 2  # re.IGNORECASE: then no string of the pattern is sure to be there as it is written
_LONG_ENOUGH = 10  # characters from which a longer string is not rarer
_SHORTEST = 3  # bytes below which a string is in nearly every line; two Chinese characters are six
# What healthy logs are full of: a string that stands here is the last choice. It decides about speed, nothing else.
_HEALTHY = """
 [2026-05-27 07:58:10.261551] iteration 100/ 500000 | consumed samples: 25600 | elapsed time per iteration (ms): 3000.1
 | learning rate: 1.5E-04 | global batch size: 512 | lm loss: 7.1E+00 | loss scale: 1.0 | grad norm: 1.2 | number of
 skipped iterations: 0 | number of nan iterations: 0 | {'loss': 1.2, 'grad_norm': 0.5, 'epoch': 0.12} global_step=17
 gpu07:4827:6900 [0] NCCL INFO Channel 01/0 : 3[3] -> 4[4] [send] via NET/IB/0/GDRDMA NCCL INFO Connected all rings
 NET/Socket : Using [0]eth0 ncclCommInitRank comm 0x5 rank 1 nranks 8 cudaDev 0 nvmlDev 0 busId 19000 Init COMPLETE
 - dataset - WARNING - shard 12 has 3 short documents, packed; NVRM: loading NVIDIA UNIX x86_64 Kernel Module RANK: 0
 [pod/job-worker-0/pytorch] [rank0]: 10%| 100/1000 [05:10<46:30, 3.10s/it] mlx5_core 0000:4b:00.0 eth5: Link up error:
 operation Operation received Received Connection to ceph: temperature Corruption I/O EDAC [INFO] DEBUG Exit exit file
 步骤 10 损失 2.0 节点 主机 机器 任务 作业 训练 进程 加载 保存 检查点 完成 耗时 学习率 GPU 显存 显卡
 systemd[1]: Started Session 3 of User root. NVIDIA nvidia CUDA cuda device Device Python python memory [Rank 0] Rank
"""


def required(pattern: str | re.Pattern[str]) -> frozenset[str]:
    """Strings, one of which is in every match.

    Raises:
        ValueError: the pattern can match a text without any string that is worth a search.
    """
    parsed = parser.parse(pattern if isinstance(pattern, str) else pattern.pattern)
    found = None if parsed.state.flags & IGNORES_CASE else _of_sequence(parsed.data)
    if not found:
        raise ValueError(f"no string has to be in a match of {pattern!r}")
    return frozenset(found)


def shortest(found: Iterable[str]) -> tuple[str, ...]:
    """Without the strings that contain another one: the other one finds them too."""
    kept: list[str] = []
    for string in sorted(set(found), key=lambda each: (len(each), each)):
        if not any(shorter in string for shorter in kept):
            kept.append(string)
    return tuple(sorted(kept))


def _of_sequence(parts: Iterable[tuple[Any, Any]]) -> set[str] | None:
    """The cheapest of what has to be in the parts of a sequence; None if nothing has to."""
    choices: list[set[str]] = []
    run = ""
    for kind, value in _flat(parts):
        if kind is op.LITERAL:
            run += chr(value)
            continue
        if kind is op.AT:  # an anchor takes no character
            continue
        choices.append({run})
        if kind is op.BRANCH:
            choices.append({run + _start_of(branch) for branch in value[1]})
        run = ""
        if inner := _of_part(kind, value):
            choices.append(inner)
    choices.append({run})
    usable = [choice for choice in choices if all(len(string.encode()) >= _SHORTEST for string in choice)]
    return min(usable, key=_cost) if usable else None


def _flat(parts: Iterable[tuple[Any, Any]]) -> Iterable[tuple[Any, Any]]:
    """The parts, with plain groups opened, so that a string goes on over their edges."""
    for kind, value in parts:
        if kind is op.SUBPATTERN and not value[1] & IGNORES_CASE:
            yield from _flat(value[3])
        else:
            yield kind, value


def _start_of(parts: Iterable[tuple[Any, Any]]) -> str:
    """The string with which a sequence begins; empty where it begins with anything else."""
    return "".join(chr(value) for _, value in takewhile(lambda part: part[0] is op.LITERAL, _flat(parts)))


def _of_part(kind: Any, value: Any) -> set[str] | None:
    if kind is op.BRANCH:
        inner = [_of_sequence(branch) for branch in value[1]]
        return None if None in inner else set[str]().union(*filter(None, inner))
    if kind in (op.MAX_REPEAT, op.MIN_REPEAT) and value[0] >= 1:
        return _of_sequence(value[2])
    return None


def _cost(choice: set[str]) -> float:
    """How much healthy text a search for these strings would stop at, and how long it takes; only to compare."""
    return sum(
        10 ** (-min(len(string.encode()), _LONG_ENOUGH) / 2) + (10 if string in _HEALTHY else 0) for string in choice
    )
