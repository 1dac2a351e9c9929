"""Dumps of PyTorch's flight recorder."""

import pickle

BEGAN_NS = 1_786_376_165_000_000_000  # 2026-08-10 15:36:05


def pickled(dump):
    """The bytes of a dump, in the protocol that torch writes."""
    return pickle.dumps(dump, protocol=2)


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
