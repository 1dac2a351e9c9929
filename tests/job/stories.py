"""Made stories of jobs as a Prometheus would hold them, with the truth about each: text for promtool.

It imports nothing of what it tests and shares no number with it. Levels and severity are drawn anew for each story.
A story has a time window of its own, so that all of them fit into one server.
"""

import datetime as dt
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EPOCH = 1_790_000_000 // 7200 * 7200  # the first story begins near here
APART_S = 2 * 7200
LEAD_S = 15 * 60  # of data before the window
WINDOW_S = 30 * 60
COLLECT_S = 30
MODELS = {"NVIDIA H100 80GB HBM3": (700, 1980, 81_559), "NVIDIA A100-SXM4-80GB": (400, 1410, 81_920),
          "NVIDIA H200": (700, 1980, 143_771)}  # fmt: skip
STYLES = ("bare", "exported", "honoured", "slurm")
DEFAULT = ("util", "engine", "tensor", "dram", "power", "clock", "memory", "free", "energy", "xid")
DCGM = {"util": "DCGM_FI_DEV_GPU_UTIL", "engine": "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "sm": "DCGM_FI_PROF_SM_ACTIVE",
        "tensor": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "dram": "DCGM_FI_PROF_DRAM_ACTIVE",
        "power": "DCGM_FI_DEV_POWER_USAGE", "clock": "DCGM_FI_DEV_SM_CLOCK", "memory": "DCGM_FI_DEV_FB_USED",
        "free": "DCGM_FI_DEV_FB_FREE", "energy": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "xid": "DCGM_FI_DEV_XID_ERRORS"}  # fmt: skip
SMI = {"util": ("nvidia_smi_utilization_gpu_ratio", 0.01), "power": ("nvidia_smi_power_draw_watts", 1),
       "clock": ("nvidia_smi_clocks_current_sm_clock_hz", 1e6), "memory": ("nvidia_smi_memory_used_bytes", 1 << 20),
       "total": ("nvidia_smi_memory_total_bytes", 1 << 20)}  # fmt: skip
PROFILING = ("engine", "sm", "tensor", "dram")


@dataclass
class Story:
    """One job, the options that name it, and what is true of it. `where` has (node, gpu or None)."""

    number: int
    kind: str
    truth: str
    style: str
    counters: str  # default, full, smi
    nodes: list[str]
    model: str
    rng: np.random.Generator
    scrape_s: int
    end: int
    gpus: int = 8
    where: list[tuple[str, int | None]] = field(default_factory=list)
    began: float | None = None
    extra: list[str] = field(default_factory=list)  # further lines of samples
    values: dict[str, Array] = field(default_factory=dict)
    host: dict[str, Array] = field(default_factory=dict)
    alive: Array = field(default_factory=lambda: np.ones(0))  # [gpu, time] whether a series exists
    labelled: Array = field(default_factory=lambda: np.ones(0))  # [gpu, time] whether it carries the job's labels
    relabelled: dict[int, float] = field(default_factory=dict)  # node: since when its series have another version label
    order: dict[int, float] = field(default_factory=dict)  # node: when its GPUs came back in another order
    replicas: int = 1
    mig: bool = False
    asked: list[str] = field(default_factory=list)

    @property
    def times(self):
        """The moments at which the exporters collect, relative to the end of the window."""
        return np.arange(-LEAD_S - WINDOW_S, 1, COLLECT_S, dtype=float)

    @property
    def name(self):
        """The name in a report of the tests."""
        return f"{self.number:02d}-{self.kind}-{self.style}-{self.counters}-{len(self.nodes)}n"

    @property
    def options(self):
        """What names the job on the command line."""
        at = dt.datetime.fromtimestamp(self.end, dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        if self.asked:
            return [*self.asked, "--at", at]
        if self.style == "slurm":
            return ["--slurm-job", str(4000 + self.number), "--at", at]
        if self.style in ("exported", "honoured"):
            return ["--pods", f"{self.job}-worker-.*", "--namespace", "train", "--at", at]
        return ["--nodes", ",".join(self.nodes), "--at", at]

    @property
    def job(self):
        """The name of the job's pods."""
        return f"llm-{self.number}"

    def after(self, moment):
        """How much of each interval of the exporter lies after a moment, 0 to 1."""
        return np.clip((self.times - moment) / COLLECT_S, 0, 1)

    def mix(self, rows, weight, state):
        """Bring some GPUs into another state, as far as the weight says."""
        for quantity, level in state.items():
            old = self.values[quantity][rows]
            self.values[quantity][rows] = old * (1 - weight) + np.broadcast_to(level, self.shape)[rows] * weight

    @property
    def shape(self):
        """GPUs, moments."""
        return len(self.nodes) * self.gpus, len(self.times)

    def noise(self, share):
        """Around 1."""
        return 1 + share * self.rng.standard_normal(self.shape)

    def apart(self, share):
        """Around 1, for each GPU."""
        return 1 + share * self.rng.standard_normal((self.shape[0], 1))

    def drawn(self, low, high):
        """A level for the whole story."""
        return float(self.rng.uniform(low, high))

    def onset(self, low=-24, high=-8):
        """When it begins; a fifth of them before the window. Also sets the truth."""
        early = self.rng.random() < 0.2
        moment = -WINDOW_S - self.drawn(240, 600) if early else 60 * self.drawn(low, high)
        self.began = None if early else self.end + moment
        return moment

    def victim(self):
        """One GPU of the job."""
        return int(self.rng.integers(self.shape[0]))

    def place(self, row):
        """Node and index of a GPU."""
        return self.nodes[row // self.gpus], row % self.gpus

    def rows_of(self, node):
        """The GPUs of a node."""
        return list(range(node * self.gpus, (node + 1) * self.gpus))


def working(story):
    """All GPUs train: the levels of this model and job."""
    limit, clock, total = MODELS[story.model]
    level, tensor, dram = story.drawn(0.62, 0.93), story.drawn(0.28, 0.6), story.drawn(0.25, 0.6)
    wave = 1 + story.drawn(0.01, 0.04) * np.sin(story.times / story.drawn(20, 90) + story.drawn(0, 6))
    values = story.values
    values["util"] = np.clip(np.round(99 + story.rng.standard_normal(story.shape)), 0, 100)
    values["engine"] = np.clip(story.drawn(0.955, 0.985) * story.noise(0.006), 0, 1)
    values["sm"] = np.clip(story.drawn(0.7, 0.88) * wave * story.noise(0.02), 0, 1)
    values["tensor"], values["dram"] = tensor * wave * story.noise(0.03), dram * wave * story.noise(0.03)
    values["power"] = limit * level * wave * story.noise(0.025) * story.apart(0.02)
    capped = level > 0.88
    low = story.drawn(0.82, 0.92) if capped else 1.0
    values["clock"] = np.minimum(clock, np.round(clock * low * story.noise(0.015 if capped else 0.0) / 15) * 15)
    held = total * story.drawn(0.5, 0.93)
    values["memory"] = np.round(held * story.apart(0.004) * np.ones(story.shape))
    story.alive, story.labelled = np.ones(story.shape), np.ones(story.shape)


def waiting(story):
    """The busy-wait of a collective: busy by the driver's word, and nothing is computed."""
    limit, clock, _ = MODELS[story.model]
    watts = limit * story.drawn(0.16, 0.36) * story.apart(0.03)
    nought = np.abs(0.0004 * story.rng.standard_normal(story.shape))
    return {
        "util": np.full(story.shape, 100.0),
        "engine": np.clip(story.noise(0.0008) - 0.001, 0, 1),
        "sm": story.drawn(0.01, 0.08) * story.noise(0.01),
        "tensor": np.where(story.rng.random(story.shape) < 0.5, 0, nought),
        "dram": story.drawn(0.001, 0.015) * story.noise(0.05),
        "power": watts * story.noise(0.004),
        "clock": np.full(story.shape, float(clock)),
    }


def idle(story, *, empty=False):
    """Nothing runs on the GPU."""
    limit, clock, _ = MODELS[story.model]
    low = float(clock) if story.rng.random() < 0.5 else 345.0
    state = {each: np.zeros(story.shape) for each in ("util", *PROFILING)}
    state |= {"power": limit * story.drawn(0.1, 0.16) * story.noise(0.004), "clock": np.full(story.shape, low)}
    return state | ({"memory": np.full(story.shape, 4.0)} if empty else {})


def slowed(story, share):
    """The GPU works for this share of the time and waits in collectives for the rest."""
    wait, now = waiting(story), story.values
    names = ("sm", "tensor", "dram", "power")
    return {each: now[each] * share + wait[each] * (1 - share) for each in names} | {"engine": wait["engine"]}


def others(story, rows):
    """All GPUs but these."""
    left = set(rows)
    return [row for row in range(story.shape[0]) if row not in left]


# --- the hosts ---------------------------------------------------------------------------------------------------


def hosts(story, fleet=0):
    """What node_exporter says of the job's nodes, and of `fleet` further ones."""
    shape = (len(story.nodes) + fleet, len(story.times))

    def noise(share):
        return 1 + share * story.rng.standard_normal(shape)

    total = float(2 << 40)
    busy = story.drawn(0.08, 0.25)
    story.host = {
        "idle": np.clip((1 - busy) * noise(0.02), 0, 1),
        "iowait": 0.004 * np.abs(noise(0.4)),
        "available": total * story.drawn(0.4, 0.8) * noise(0.01),
        "total": np.full(shape, total),
        "sent": 5e10 * story.drawn(0.08, 0.3) * np.abs(noise(0.1)),
        "rate": np.full(shape, 5e10),
        "cnp_handled": story.drawn(5, 60) * np.abs(noise(0.3)),
        "cnp_sent": story.drawn(5, 60) * np.abs(noise(0.3)),
        "slow_restart": story.drawn(0.1, 2) * np.abs(noise(0.3)),
    }


HOST = {
    "available": "node_memory_MemAvailable_bytes", "total": "node_memory_MemTotal_bytes",
    "rate": "node_infiniband_rate_bytes_per_second", "sent": "node_infiniband_port_data_transmitted_bytes_total",
    "cnp_handled": "node_infiniband_rp_cnp_packets_handled_total",
    "cnp_sent": "node_infiniband_np_cnp_packets_sent_total",
    "slow_restart": "node_infiniband_roce_slow_restart_cnps_total",
}  # fmt: skip
GAUGES = ("available", "total", "rate")


# --- writing -----------------------------------------------------------------------------------------------------


def _labels(pairs):
    return "{" + ",".join(f'{name}="{value}"' for name, value in pairs.items()) + "}"


def _scrapes(story, node):
    """Times of the scrapes of a node, and which collection each of them shows."""
    phase, lag = (node * 7919 + story.number * 31) % story.scrape_s, (node * 104_729) % COLLECT_S
    moments = np.arange(-LEAD_S - WINDOW_S + phase, 1, story.scrape_s, dtype=float)
    shown = np.clip(((moments - lag - story.times[0]) // COLLECT_S).astype(int), 0, len(story.times) - 1)
    return moments, shown


def uuid_of(story, row):
    """The identity of a GPU."""
    return f"{story.number:08x}-{row:04x}-4a11-9c3d-{row * 7919 % 0xFFFFFF:012x}"


def _gpu_labels(story, row, moment, replica):
    node, gpu = divmod(row, story.gpus)
    name, uuid = story.nodes[node], uuid_of(story, row)
    copy = {"prometheus_replica": f"prometheus-{replica}"} if story.replicas > 1 else {}
    if story.counters == "smi":
        return {"instance": f"{name}:9835", "job": "nvidia", "uuid": uuid, **copy}
    if moment >= story.order.get(node, np.inf):
        gpu = story.gpus - 1 - gpu
    labels = {"gpu": str(gpu), "UUID": f"GPU-{uuid}", "device": f"nvidia{gpu}", "modelName": story.model}
    if story.mig:
        labels = {**labels, "gpu": str(gpu // 2), "GPU_I_PROFILE": "3g.40gb", "GPU_I_ID": str(gpu % 2 + 1),
                  "UUID": f"GPU-{uuid[:-1]}{gpu // 2}"}  # fmt: skip
    if moment >= story.relabelled.get(node, np.inf):
        labels["DCGM_FI_DRIVER_VERSION"] = "580.95.05"
    labelled = story.labelled[row][int(np.clip((moment - story.times[0]) // COLLECT_S, 0, len(story.times) - 1))] > 0.5
    if story.style == "bare":
        return {**labels, "Hostname": name, "instance": f"{name}:9400", "job": "dcgm", **copy}
    if story.style == "slurm":
        mine = {"hpc_job": str(4000 + story.number)} if labelled else {}
        address = f"10.1.{node // 250}.{node % 250}:9400"
        return {**labels, "hostname": f"{name}.cluster.example", "node": name, "instance": address, **mine, **copy}
    pod = {"pod": f"{story.job}-worker-{node}", "namespace": "train", "container": "pytorch"} if labelled else {}
    scraped = {"instance": f"10.2.{node // 250}.{node % 250}:9400", "job": "dcgm-exporter", "service": "dcgm-exporter"}
    exporter = {"pod": f"dcgm-exporter-{node:05x}", "namespace": "gpu-operator", "container": "exporter"}
    if story.style == "exported":
        pod = {f"exported_{label}": value for label, value in pod.items()}
        return {**labels, "Hostname": name, **scraped, **exporter, **pod, **copy}
    return {**labels, "hostname": name, **scraped, **(exporter | pod), **copy}


def _gpu_lines(story, quantity):
    name, scale = SMI[quantity] if story.counters == "smi" else (DCGM[quantity], 1)
    values = story.values[quantity]
    for row in range(story.shape[0]):
        moments, shown = _scrapes(story, row // story.gpus)
        alive = story.alive[row][shown] > 0.5
        changes = np.diff(story.labelled[row][shown], prepend=-1) != 0
        for since in (story.order.get(row // story.gpus), story.relabelled.get(row // story.gpus)):
            changes |= np.diff(moments >= (np.inf if since is None else since), prepend=False)
        digits = 0 if quantity in ("util", "clock", "memory", "free", "total", "xid") else 6
        texts = np.char.mod(f"%.{max(digits, 2 if scale < 1 else 0)}f", values[row][shown] * scale)
        stamps = story.end + moments
        for replica in range(story.replicas):
            head = ""
            for index in np.flatnonzero(alive | changes):
                if changes[index] or not head:
                    head = name + _labels(_gpu_labels(story, row, moments[index], replica))
                if alive[index]:
                    yield f"{head} {texts[index]} {stamps[index]:.3f}"


def _host_lines(story):
    in_pods = story.style in ("exported", "honoured")
    names = [*story.nodes, *(f"other{story.number}-{each}" for each in range(1000))][: len(story.host["idle"])]
    instances = [f"10.2.{i // 250}.{i % 250}:9100" if in_pods else f"{name}:9100" for i, name in enumerate(names)]

    def lines(metric, per_node):
        for node, instance in enumerate(instances):
            moments, shown = _scrapes(story, node)
            mine = node < len(story.nodes) and story.kind == "worker-lost"
            alive = story.alive[node * story.gpus][shown] > 0.5 if mine else shown >= 0
            for labels, series in per_node(node, shown):
                head = metric + _labels({"instance": instance, "job": "node", **labels})
                for moment, value, lives in zip(moments, series, alive, strict=True):
                    if lives:
                        yield f"{head} {value:.6g} {story.end + moment:.3f}"

    uname = "node_uname_info"
    yield uname, lines(uname, lambda node, shown: [({"nodename": names[node]}, np.ones(len(shown)))])
    for quantity, metric in HOST.items():
        port = {"device": "mlx5_0", "port": "1"} if "infiniband" in metric else {}
        rising = quantity not in GAUGES
        level = story.host[quantity]
        series = 9e8 + np.cumsum(level, axis=1) * COLLECT_S if rising else level
        yield metric, lines(metric, lambda node, shown, s=series, p=port: [(p, s[node][shown])])  # type: ignore[misc]

    def cpu(node, shown):
        shares = {mode: story.host[mode][node] for mode in ("idle", "iowait")}
        shares["user"] = np.clip(1 - shares["idle"] - shares["iowait"], 0, 1)
        return [({"cpu": str(core), "mode": mode}, (1e5 + np.cumsum(share) * COLLECT_S)[shown])
                for core in range(2) for mode, share in shares.items()]  # fmt: skip

    yield "node_cpu_seconds_total", lines("node_cpu_seconds_total", cpu)


def _pod_lines(story):
    for node, name in enumerate(story.nodes):
        moments, shown = _scrapes(story, node)
        pod = f"{story.job}-worker-{node}"
        labels = {"namespace": "train", "pod": pod, "node": name, "host_ip": f"10.2.{node // 250}.{node % 250}",
                  "created_by_kind": "PyTorchJob", "created_by_name": story.job}  # fmt: skip
        for moment, index in zip(moments, shown, strict=True):
            if story.labelled[node * story.gpus][index] > 0.5 and story.alive[node * story.gpus][index] > 0.5:
                yield f"kube_pod_info{_labels(labels)} 1 {story.end + moment:.3f}"


def write(story, path):
    """The story as OpenMetrics text, for `promtool tsdb create-blocks-from openmetrics`."""
    story.values["free"] = np.maximum(MODELS[story.model][2] - story.values["memory"] - 600, 0)
    story.values.setdefault("energy", 1e9 + np.cumsum(story.values["power"], axis=1) * COLLECT_S * 1000)
    story.values.setdefault("xid", np.zeros(story.shape))
    story.values["total"] = np.full(story.shape, float(MODELS[story.model][2]))
    wanted = list(SMI) if story.counters == "smi" else [*DEFAULT, *(["sm"] if story.counters == "full" else [])]
    wanted = [each for each in wanted if not (story.mig and each == "util")]
    with path.open("w", encoding="utf-8") as out:

        def family(name, lines):
            out.write(f"# TYPE {name} unknown\n")
            out.writelines(f"{line}\n" for line in lines)

        for quantity in wanted:
            family(SMI[quantity][0] if story.counters == "smi" else DCGM[quantity], _gpu_lines(story, quantity))
        if story.counters == "smi":
            family("nvidia_smi_gpu_info", _info_lines(story))
        for name, lines in _host_lines(story) if story.host else ():
            family(name, lines)
        if story.style in ("exported", "honoured"):
            family("kube_pod_info", _pod_lines(story))
        families: dict[str, list[str]] = {}
        for line in story.extra:
            families.setdefault(line.partition("{")[0], []).append(line)
        for name, given in families.items():
            family(name, given)
        out.write("# EOF\n")


def _info_lines(story):
    for row in range(story.shape[0]):
        moments, shown = _scrapes(story, row // story.gpus)
        labels = _gpu_labels(story, row, 0, 0) | {"index": str(row % story.gpus), "name": story.model}
        for moment, index in zip(moments, shown, strict=True):
            if story.alive[row][index] > 0.5:
                yield f"nvidia_smi_gpu_info{_labels(labels)} 1 {story.end + moment:.3f}"
