"""Attempts as releases before 0.3 wrote them: a list of runs, each with its plan and notes in `labels` of text."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence


def attempt_from_labels(runs: object) -> dict[str, object]:
    """An attempt in today's plain form. What was kept as a run that never ran becomes a field of the attempt.

    Raises:
        ValueError: it is no list of runs.
    """
    if not isinstance(runs, list) or not all(isinstance(ran, dict) and "what" in ran for ran in runs):
        raise ValueError("no list of runs")
    attempt: dict[str, object] = {}
    kept: list[object] = []
    missing: list[object] = []
    for ran in runs:
        said = ran.get("labels")
        label = {str(name): str(each) for name, each in said.items()} if isinstance(said, dict) else {}
        why = {name: ran[name] for name in ("cannot", "next_step", "lacks", "whose") if name in ran}
        attempt |= {name: label[name] for name in ("node", "hostname") if name in label}
        if ran["what"] == "plan" and "rails" in label:
            attempt |= {"rails": label["rails"].split(), "partners": _count(label.get("partners", ""))}
        elif ran["what"] == "alone":
            attempt["alone"] = why.get("cannot") or label.get("why", "")
        elif "device" in label and "peer" not in label:
            missing.append({"device": label["device"], **why, "by_rule": "left_out" in label})
        elif ran["what"] == "":
            attempt |= why
        else:
            kept.append({**{name: each for name, each in ran.items() if name != "labels"}, **_of_run(label)})
    return {**attempt, "runs": kept, "missing": missing}


def _of_run(label: Mapping[str, str]) -> dict[str, object]:
    """The plan and the notes of a run: each label where it stands today."""
    found: defaultdict[str, dict[str, object]] = defaultdict(dict)
    for place, read, names in _PLACES:
        for old, _, new in (name.partition(":") for name in names.split()):
            if old in label:
                found[place][new or old] = read(label[old])
    plan = found["plan"] | {"link": found["of_link"] if "peer" in label else None}
    plan |= {"launch": found["of_launch"] if "group" in label else None}
    link = found["link"] | {end: found[end] for end in ("server", "client")}
    return {"plan": plan, "link": link | {"peer_failed": label.get("peer_best") == "none"}, "launch": found["launch"]}


def _names(text: str) -> list[str]:
    """Of many nodes the first ones are there, and how many more there are."""
    return text.split(" and ", maxsplit=1)[0].split()


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 24 else 0


def _counts(text: str) -> list[int]:
    return [_count(word) for word in text.split()]


def _amount(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


# Which labels a record is made of, and how each is read; after a colon its name today, where it has another one.
_PLACES: Sequence[tuple[str, Callable[[str], object], str]] = (
    ("plan", str, "mode origin version"),
    ("plan", _count, "gpus size_bytes"),
    ("plan", _amount, "limit_s"),
    ("of_link", str, "role device peer peer_device round memory path"),
    ("of_link", bool, "of_another_rail"),
    ("of_launch", str, "group kind head settings"),
    ("of_launch", _count, "count gpus_of_node turns builds"),
    ("of_launch", _names, "nodes good"),
    ("of_launch", bool, "asked:asks_transports nvlink:one_domain"),
    ("link", str, "program lost"),
    ("link", _amount, "peer_best peer_best_way"),
    ("link", bool, "peer_passed"),
    ("server", str, "server_cpus:cpus server_near:near server_unbound:unbound server_class:traffic_class"),
    ("server", _counts, "server_counted:counted"),
    ("client", str, "client_cpus:cpus client_near:near client_unbound:unbound client_class:traffic_class"),
    ("client", _counts, "client_counted:counted"),
    ("launch", str, "searched slower"),
    ("launch", _names, "blamed paths left_out"),
    ("launch", _count, "racks time_us"),
    ("launch", bool, "concerned"),
)
