"""What a job on this node would inherit, what is running, what hooks noted.

Sections `limits`, `environment`, `clock`, `jobs`, `services` and `hooks`.
"""

import ctypes
import os
import re
import resource
import stat
from typing import Dict, List, Set, Union

from nodegate.node_side.probe import commands, driver, files, reading, system

_VARIABLE = re.compile(r"(NCCL_.*|CUDA_.*|UCX_.*|LD_PRELOAD|LD_LIBRARY_PATH)\Z")
# Settings of NCCL that name a file which must be there.
_FILE = re.compile(r"^NCCL_(?:TOPO_FILE|GRAPH_FILE|CONF_FILE|TUNER_CONFIG_FILE|\w+_PLUGIN)=(/.{1,299})$", re.MULTILINE)
MOST_NAMED_FILES = 32
VALUE_LIMIT = 300
MOST_OF_CGROUP = 2000  # characters: of cgroup v1 a dozen lines
MOST_GPU_USERS = 200
_DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
_REPLICA = re.compile(r'"(GPU-[0-9a-f-]{36})::[0-9]{1,4}"')  # a GPU that the device plugin gives out several times
_LIMITS = {"nofile": resource.RLIMIT_NOFILE, "nproc": resource.RLIMIT_NPROC, "memlock": resource.RLIMIT_MEMLOCK}
DEMANDS_HEAD = 400  # characters of a demands file: they hold its hash
_STA_NANO = 0x2000  # linux/timex.h: the offset is in nanoseconds
_TCP_LISTEN = "0A"
UNITS = (
    *("nvidia-fabricmanager", "nvidia-persistenced", "nvidia-imex", "slurmd"),
    *("chronyd", "chrony", "ntp", "ntpd", "ntpsec", "systemd-timesyncd"),
)
PROPERTIES = "Id,LoadState,ActiveState,SubState,Result,NRestarts"
SPOOL = "/var/lib/nodegate/spool.jsonl"
CONF = "/etc/nodegate/hooks.conf"
SPOOL_BYTES = 256 << 10
lent = False  # the job that the probe itself runs in is the run's own
_GATE = re.compile(r"^\s*(?:export\s+)?(?:gate|NODEGATE_GATE)\s*=\s*([\"']?)on\1\s*$", re.MULTILINE)


def read_limits() -> object:
    """The data of section `limits`; jobs inherit slurmd's."""
    # getrlimit has -1 for no limit
    own = {name: list(resource.getrlimit(kind)) for name, kind in _LIMITS.items()}
    daemons = [f"/proc/{one.pid}/limits" for one in system.listed() if one.comm == "slurmd"]
    return {
        "self": own,
        "slurmd": files.text(daemons[0]) if daemons else reading.unknown("missing", "no process slurmd"),
    }


def read_environment() -> object:
    """The data of section `environment`."""
    home = os.environ.get("HOME", "/")
    variables = _login_variables()
    conf = [files.text("/etc/nccl.conf"), files.text(home.rstrip("/") + "/.nccl.conf")]
    lines = [f"{name}={value}" for name, value in variables.items()] if isinstance(variables, dict) else []
    named = {match.group(1) for text in [*conf, *lines] if isinstance(text, str) for match in _FILE.finditer(text)}
    return {
        "variables": variables,
        "nccl_conf": conf[0],
        "user_nccl_conf": conf[1],
        "files": {path: files.is_there(path) for path in sorted(named)[:MOST_NAMED_FILES]},
        "demands": files.text("/etc/nodegate/demands.yaml", DEMANDS_HEAD),
    }


def _login_variables() -> object:
    """The environment of a new login: /etc/environment (PAM reads it), then the profile (a login shell reads it)."""
    try:
        shell = commands.run(["sh", "-l", "-c", "env -0"], limit_s=8.0, limit_bytes=1 << 18, unset=["LD_LIBRARY_PATH"])
    except reading.CannotRead as error:
        return error.reading
    lines = [line.strip() for line in files.plain("/etc/environment").splitlines()]
    pairs = [line[7:] if line.startswith("export ") else line for line in lines if not line.startswith("#")]
    found: Dict[str, str] = {}
    for pair in pairs + shell.stdout.split("\0"):
        name, equals, value = pair.partition("=")
        if equals and _VARIABLE.match(name):
            found[name] = value.strip("\"'")[:VALUE_LIMIT] if pair in pairs else value[:VALUE_LIMIT]
    return found


def read_clock() -> object:
    """The data of section `clock`."""
    return {
        "adjtimex": _adjtimex(),
        "timedatectl": commands.text(["timedatectl", "show"], limit_s=2.5),
        "chronyc": commands.text(["chronyc", "-n", "tracking"], limit_s=2.0),
    }


class _Timex(ctypes.Structure):
    """The head of struct timex (linux/timex.h), and room for the rest of it."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        *[(name, ctypes.c_long) for name in ("offset", "freq", "maxerror", "esterror")],
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    ]


def _adjtimex() -> object:
    """The kernel's data on its clock; `modes` 0 changes nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    timex = _Timex()
    if libc.adjtimex(ctypes.byref(timex)) < 0:
        error = ctypes.get_errno()
        return files.os_failure(OSError(error, os.strerror(error)), "adjtimex")
    return {
        "status": timex.status,
        "offset_us": timex.offset / 1000.0 if timex.status & _STA_NANO else timex.offset,
    }


def read_jobs() -> object:
    """The data of section `jobs`."""
    running = system.listed()
    above = system.above() if lent else ()
    own = _slurm_jobs([process for process in running if process.pid in above])
    return {
        "slurm": [job for job in _slurm_jobs(running) if job not in own],
        "gpu_users": _gpu_users(running),
        "listening_ports": _listening_ports(),
        # that Kubernetes gives to several pods (time-slicing, MPS), by UUID; without root and Kubernetes none
        "shared_gpus": sorted(set(_REPLICA.findall(files.plain(_DEVICE_PLUGINS, limit=1 << 20))))[:MOST_GPU_USERS],
    }


def _slurm_jobs(running: List[system.Process]) -> List[str]:
    """Job numbers from the titles of the step daemons: "slurmstepd: [1234.batch]"."""
    titles = [files.plain(f"/proc/{one.pid}/cmdline") for one in running if one.comm == "slurmstepd"]
    matches = [re.search(r"\[([0-9_]+)", title) for title in titles]
    return sorted({match.group(1) for match in matches if match})


def _gpu_users(running: List[system.Process]) -> object:
    """Processes with a GPU's device node open. Without root only the login's own are visible: none proves nothing."""
    if not driver.device_nodes():
        return []
    users, refused = [], 0
    for one in running:
        folder = f"/proc/{one.pid}/fd"
        try:
            held, uid = _holds_gpu(folder), os.stat(files.rooted(f"/proc/{one.pid}")).st_uid
        except PermissionError:
            refused += 1
            continue
        except OSError:  # it has ended
            continue
        if held:
            cgroup = files.plain(f"/proc/{one.pid}/cgroup")[:MOST_OF_CGROUP]
            users.append({"pid": one.pid, "comm": one.comm, "uid": uid, "cgroup": cgroup})
    if refused and not users:
        return reading.unknown("denied", f"the open files of {refused} processes need root")
    return users[:MOST_GPU_USERS]


def _holds_gpu(folder: str) -> bool:
    for name in os.listdir(files.rooted(folder)):
        try:
            target = os.readlink(files.rooted(f"{folder}/{name}"))
        except FileNotFoundError:
            continue
        if re.match(r"/dev/nvidia[0-9]+\Z", target):
            return True
    return False


def _listening_ports() -> object:
    ports: Set[int] = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        table = files.text(path, limit=8 << 20)
        if not isinstance(table, str):
            if path.endswith("tcp6"):
                continue  # IPv6 is switched off
            return table
        rows = [line.split() for line in table.splitlines()[1:]]
        ports.update(int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == _TCP_LISTEN)
    return sorted(ports)


def read_services() -> object:
    """The data of section `services`: systemd units, what the fabric manager says, and what IMEX says."""
    units = [f"{name}.service" for name in UNITS]
    return {
        "show": commands.text(["systemctl", "show", "-p", PROPERTIES, *units], limit_s=4.0),
        "fabric_manager_version": commands.text(["nv-fabricmanager", "--version"], limit_s=4.0),
        "fabric_manager_log": files.text("/var/log/fabricmanager.log", from_end=True),
        "imex": commands.text(["nvidia-imex-ctl", "-N", "-j"], limit_s=4.0),  # -n would never end
    }


def read_hooks() -> object:
    """The data of section `hooks`: the verdicts that Slurm's hooks noted, and whether they ask that it has passed."""
    conf = _of_root(CONF, files.TEXT_LIMIT)
    gate = bool(_GATE.search(conf.replace("\r", ""))) if isinstance(conf, str) else conf  # as deploy/slurm-hook.sh does
    return {"spool": _of_root(SPOOL, SPOOL_BYTES), "gate": gate}


def _of_root(path: str, limit: int) -> Union[str, reading.Reading]:
    """The end of a file that only root (or who reads it) can have written."""
    try:
        found = os.lstat(files.rooted(path))
    except OSError as error:
        return files.os_failure(error, path)
    if not stat.S_ISREG(found.st_mode):
        return reading.unknown("denied", f"{path} is not a regular file")
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return reading.unknown("denied", f"{path}: others than root can write it")
    return files.text(path, limit, from_end=True)
