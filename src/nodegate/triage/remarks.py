"""What is to be said of a log itself: it was cut off, it has no zone, it could not be read. Each sentence is made here.

What the operating system says of a file ("Input/output error") is quoted in both languages as it was said.
"""

# ruff: noqa: RUF001 - Chinese punctuation
from __future__ import annotations

from dataclasses import dataclass, field

from nodegate.knowledge.words import Text

NUL_BYTES = Text("contains NUL bytes", "含有 NUL 字节")
GZIP_CORRUPT = Text(
    "its gzip data is corrupt; the part before that was read", "gzip 数据损坏，只读取了损坏处之前的部分"
)
GZIP_FOLLOWED = Text("its gzip data is followed by other data, which was ignored", "gzip 数据之后还有其他数据，已忽略")
GZIP_TRUNCATED = Text(
    "the gzip file is truncated; its complete part was read", "gzip 文件不完整，只读取了其中完整的部分"
)
ZSTD_CORRUPT = Text(
    "its zstd data is corrupt or truncated; the part before that was read",
    "zstd 数据损坏或不完整，只读取了损坏处之前的部分",
)
PACKED_CORRUPT = Text(
    "what it has packed is corrupt or protected; the part before that was read",
    "其压缩数据损坏或加密，只读取了此前的部分",
)
PACKED_FOLLOWED = Text(
    "its packed data is followed by other data, which was ignored", "压缩数据之后还有其他数据，已忽略"
)
PACKED_TRUNCATED = Text("is cut off; its complete part was read", "文件不完整，只读取了其中完整的部分")
TOO_LARGE = Text(
    "was not read to its end: unpacked it is too large for what it is packed", "未读到末尾：解压后的大小超出限制"
)
TOO_MANY = Text("was not read to its end: it has too many members", "未读到末尾：其中的文件过多")
NESTED = Text("holds an archive or a file that is not text, which was not read", "其中有归档或非文本文件，未读取")
SPARSE = Text("holds a sparse file, which was not read", "其中有稀疏文件，未读取")
ZIP_OF_A_PIPE = Text("is a zip archive from a pipe: give the file", "是来自管道的 zip 归档，请给出文件")
NOT_DECODED = Text("is mostly NUL bytes: nodegate cannot decode it", "大部分是 NUL 字节，无法解码为文本")
LONG_LINE = Text("has a line of more than 1 MiB, which was read in parts", "有一行超过 1 MiB，已分段读取")
ZONE_KNOWN = Text(
    "names the zone of its times, so --tz does not apply to it", "其时间已注明时区，因此 --tz 对它不起作用"
)
BY_NAME = Text("by its name it is not a log", "从文件名看不是日志")
NO_FILE = Text("it is not a regular file", "不是普通文件")
NO_TEXT = Text("it is not text", "不是文本")
DUMP_TOO_LARGE = Text(
    "is a flight-recorder dump of more than 32 MiB, which was not read", "是超过 32 MiB 的 flight recorder 转储，未读取"
)
DUMP_DAMAGED = Text(
    "is a flight-recorder dump that is damaged or has what PyTorch does not write: it was not read",
    "是 flight recorder 转储，但已损坏或含有 PyTorch 不会写入的内容，未读取",
)
DUMP_WITHOUT_RANK = Text(
    "is a flight-recorder dump whose name does not end in a rank: it was not read",
    "是 flight recorder 转储，但文件名末尾没有 rank 编号，未读取",
)
RAS_DAMAGED = Text(
    "is a report of ncclras that is damaged or larger than 16 MiB: it was not read",
    "是 ncclras 的报告，但已损坏或超过 16 MiB，未读取",
)
NO_TARGET = Text("it is a link to a file that is not there", "是链接，其目标文件不存在")


def broke_off(error: str) -> Text:
    """A log that could be read in part."""
    return Text(f"could not be read to its end: {error}", f"未能读到末尾：{error}")


def without_kernel_log(reason: str) -> Text:
    """A node of a run folder. The reason is that of the run, whose report has it in English."""
    return Text(f"has no kernel log: {reason}", "没有内核日志，原因见该次运行的报告")


@dataclass
class Remarks:
    """What was unusual about a log, each thing once. `lost`: why a part of it was not read."""

    said: dict[Text, None] = field(default_factory=dict)
    lost: Text | None = None

    def say(self, what: Text) -> None:
        """Keep it, unless it was said before."""
        self.said.setdefault(what)

    def lose(self, why: Text) -> None:
        """A part of the log was not read."""
        self.say(why)
        self.lost = self.lost or why

    def add(self, other: Remarks) -> None:
        """What was said of the file that this log is in."""
        self.said.update(other.said)
        self.lost = self.lost or other.lost


@dataclass(frozen=True)
class Note:
    """A remark of the answer: what is said, and of which logs or files; of the whole answer if none is named."""

    said: Text
    logs: tuple[str, ...] = ()

    @property
    def text(self) -> Text:
        """The sentence."""
        if not self.logs:
            return self.said
        first, more = self.logs[0], len(self.logs) - 1
        en, zh = (f" and {more} more", f" 等 {more + 1} 个日志") if more else ("", "")
        return Text(f"{first}{en}: {self.said.en}", f"{first}{zh}：{self.said.zh}")
