"""Parts of sentences in both languages: how long something lasted, a quoted line, a list of nodes."""

# ruff: noqa: RUF001 - Chinese punctuation
from nodegate.knowledge.words import Text

SAME_MOMENT_S = 0.05  # what is printed as 0.0 s


def lasting(seconds: float) -> Text:
    """0.3 s, 9 s, 10 min, 10 min 9 s, 3 h 20 min."""
    seconds = abs(seconds)
    if seconds < 10:
        number = f"{seconds:.1f}".removesuffix(".0")
        return Text(f"{number} s", f"{number} 秒")
    whole = round(seconds)
    if whole < 60:
        return Text(f"{whole} s", f"{whole} 秒")
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return Text(f"{minutes} min {rest} s", f"{minutes} 分 {rest} 秒") if rest else _full(minutes, "min", "分钟")
    hours, rest = divmod(whole // 60, 60)
    return Text(f"{hours} h {rest} min", f"{hours} 小时 {rest} 分") if rest else _full(hours, "h", "小时")


def _full(count: int, en: str, zh: str) -> Text:
    return Text(f"{count} {en}", f"{count} {zh}")


def later(seconds: float) -> Text:
    """9 s after the error ("after it"), 0.3 s before it, at the same moment. In Chinese it begins the sentence."""
    if abs(seconds) < SAME_MOMENT_S:
        return Text("at the same moment", "与该错误同时，")
    far = lasting(seconds)
    if seconds > 0:
        return Text(f"{far.en} after it", f"该错误 {far.zh}后")
    return Text(f"{far.en} before it", f"该错误 {far.zh}前")


def cut(text: str, most: int) -> str:
    """A line as it was printed, with a mark where it was cut."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def cut_middle(text: str, most: int) -> str:
    """A line without its middle: what matters is at its start, or behind many labels at its end."""
    if len(text) <= most:
        return text
    head = most * 3 // 5
    return f"{text[:head]}…{text[head + 1 - most :]}"
