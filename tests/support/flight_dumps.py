"""Dumps of PyTorch's flight recorder, written as torch/csrc/jit/serialization/pickler.cpp writes them (protocol 2)."""

import struct

BEGAN_NS = 1_786_376_165_000_000_000  # 2026-08-10 15:36:05


class _Pickler:
    """pushIValueImpl for what a dump holds; texts are kept by value, shared dictionaries by identity."""

    def __init__(self):
        self.out = bytearray(b"\x80\x02")
        self.memo: dict[object, int] = {}

    def push(self, value):
        key = value if isinstance(value, str) else id(value)
        if key in self.memo:
            number = self.memo[key]
            self.out += b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)
        elif isinstance(value, str):
            self.out += b"X" + struct.pack("<I", len(value.encode())) + value.encode()
            self.put(key)
        elif isinstance(value, dict):
            self.many(b"}", [each for row in value.items() for each in row], b"u")
            self.put(key)
        elif isinstance(value, list):
            self.many(b"]", value, b"e")
        elif isinstance(value, tuple):
            for each in value:
                self.push(each)
            self.out += b"\x86"
        else:
            self.out += _scalar(value)

    def many(self, empty, values, end):
        self.out += empty + b"("
        for each in values:
            self.push(each)
        self.out += end

    def put(self, key):
        number = self.memo[key] = len(self.memo)
        self.out += b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number)


def _scalar(value):
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    assert isinstance(value, int)
    if 0 <= value < 1 << 8:
        return b"K" + bytes([value])
    if 0 <= value < 1 << 16:
        return b"M" + struct.pack("<H", value)
    return b"J" + struct.pack("<i", value) if abs(value) < 1 << 31 else b"\x8a\x08" + struct.pack("<q", value)


def pickled(dump):
    """The bytes of a dump."""
    pickler = _Pickler()
    pickler.push(dump)
    return bytes(pickler.out) + b"."


def step(sequence, name="all_reduce", state="completed", **other):
    """An entry of a dump of version 2.4 and later."""
    created = BEGAN_NS + sequence * 1_000_000
    done = created + 900_000
    return {
        "frames": [{"name": "train", "filename": "train.py", "line": 41}],
        "record_id": sequence - 1,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "op_id": sequence,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": created,
        "input_sizes": [[8, 4096]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[8, 4096]],
        "output_dtypes": ["BFloat16"],
        "state": state,
        "time_discovered_started_ns": done if state != "scheduled" else None,
        "time_discovered_completed_ns": done if state == "completed" else None,
        "retired": state == "completed",
        "timeout_ms": 600_000,
        "is_p2p": False,
        **other,
    }


def pair(sequence, name, state="scheduled", **other):
    """A send or recv."""
    return step(sequence, name, state, **{"is_p2p": True, "p2p_seq_id": sequence, "collective_seq_id": 0, **other})


def dump(entries, groups, version="2.10"):
    """A dump with these entries; `groups` are the members of each group, the first of them the default one."""
    config = {
        name: {"name": name, "desc": "default_pg" if name == "0" else "undefined", "ranks": str(list(ranks))}
        for name, ranks in groups.items()
    }
    return {"version": version, "pg_config": config, "pg_status": {}, "entries": list(entries)}


def write_dumps(folder, by_rank, world, **groups):
    """One dump a rank."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {"0": range(world), **groups}
    for rank, entries in by_rank.items():
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickled(dump(entries, known)))
