"""The requests for one job: what names its GPUs, which moments, and what the server sums up itself.

All of them follow from the command line alone, so that they can be printed for those who may not reach the server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from nodegate.job.prometheus import Query
from nodegate.job.tables import rows

NODE_LABELS = ("node", "nodename", "kubernetes_node", "Hostname", "hostname", "instance")
POD_LABELS = (("exported_pod", "exported_namespace"), ("pod_name", "pod_namespace"), ("pod", "namespace"))
JOB_LABELS = ("hpc_job", "slurmjobid", "jobid", "slurm_job_id")
GPU = ("util", "engine", "sm", "tensor", "dram", "power", "clock", "memory")
MOST_NAMED = 200  # nodes in a selector; of a larger job all GPUs of the server are asked, which is cheaper for it
STEP_S = 60  # two collections of dcgm-exporter, and one scrape of the slowest usual kind
MOST_STEPS = 60
MOST_STEPS_LARGE = 12
RATE_S = 180  # three scrapes of the slowest usual kind
PAST = "6h"  # how far back the greatest power of a GPU is looked for
TAG = "nodegate_quantity"


@dataclass(frozen=True)
class Metric:
    """A line of the table: one name of a quantity, and what makes it this unit (a factor, or a counter's rate)."""

    quantity: str
    unit: str
    metric: str
    factor: str
    exporter: str
    remark: str

    def over(self, selector: str, window: str) -> str:
        """The mean over a window, in the unit of the table."""
        series = f"{self.metric}{{{selector}}}" if selector else self.metric
        if self.factor == "rate":
            return f"rate({series}[{max(RATE_S, int(window[:-1]))}s])"
        mean = f"avg_over_time({series}[{window}])"
        return mean if self.factor == "1" else f"{self.factor} * {mean}"


@cache
def table() -> tuple[Metric, ...]:
    """The table of metrics."""
    return tuple(Metric(**row) for row in rows("metrics.csv"))


@dataclass(frozen=True)
class Job:
    """What names the job: nodes, a pattern of pods, or the number of a Slurm job; and the window, UTC seconds."""

    end: int
    since_s: int
    nodes: tuple[str, ...] = ()
    pods: str = ""
    namespace: str = ""
    slurm_job: str = ""

    @property
    def large(self) -> bool:
        """Whether all GPUs of the server are asked instead of the nodes by name."""
        return len(self.nodes) > MOST_NAMED

    @property
    def step_s(self) -> int:
        """Seconds between two moments of the answers."""
        most = MOST_STEPS_LARGE if self.large else MOST_STEPS
        return max(STEP_S, -(-self.since_s // most))

    @property
    def steps(self) -> int:
        """How many moments a window has."""
        return self.since_s // self.step_s

    def selectors(self) -> list[str]:
        """Selectors of the job's series, of which no two fit the same series: each label that may name it."""
        if self.nodes:
            names = "|".join(re.escape(name).replace(chr(92) + "-", "-") for name in self.nodes)
            hosts = f"(?:{names})(?:[.:].*)?"
            return [""] if self.large else _first_of([[_match(label, hosts)] for label in NODE_LABELS])
        if self.slurm_job:
            return _first_of([[_match(label, re.escape(self.slurm_job))] for label in JOB_LABELS])
        spaces = [f'{space}="{_quoted(self.namespace)}"' for _, space in POD_LABELS] if self.namespace else [""] * 3
        return _first_of([[_match(pod, self.pods), *filter(None, [space])]
                          for (pod, _), space in zip(POD_LABELS, spaces, strict=True)])  # fmt: skip


def _first_of(choices: list[list[str]]) -> list[str]:
    """Selectors that exclude what an earlier one has taken, by its first matcher."""
    taken: list[str] = []
    found = []
    for choice in choices:
        found.append(",".join([*taken, *choice]))
        taken.append(choice[0].replace("=~", "!~", 1))
    return found


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _match(label: str, pattern: str) -> str:
    return f'{label}=~"{_quoted(pattern)}"'


def queries(job: Job) -> list[Query]:
    """All requests for a job, at most twelve with the one for the server's time."""
    start = job.end - (job.steps - 1) * job.step_s
    window = {"start": str(start), "end": str(job.end), "step": str(job.step_s)}
    terms = {quantity: [row.over(selector, f"{job.step_s}s")
                        for row in table() if row.quantity == quantity for selector in job.selectors()]
             for quantity in GPU} | {"nodes": _nodes(job)}  # fmt: skip
    found = [Query(name, " or ".join(each), window) for name, each in terms.items()]
    return [*found, _free(job), _names(job)]


def _free(job: Job) -> Query:
    """Free memory now, and the greatest power of the hours before, by GPU."""
    terms = [_tagged(row.quantity, f"{row.factor} * last_over_time({row.metric}{{{selector}}}[{job.since_s}s])")
             for row in table() if row.quantity in ("free", "total") for selector in job.selectors()]  # fmt: skip
    if not job.large:
        terms += [_tagged("past_power", f"max_over_time({row.metric}{{{selector}}}[{PAST}])")
                  for row in table() if row.quantity == "power" for selector in job.selectors()]  # fmt: skip
    return Query("free", " or ".join(terms), {"time": str(job.end)})


def _tagged(quantity: str, expression: str) -> str:
    return f'label_replace({expression}, "{TAG}", "{quantity}", "", "")'


def _nodes(job: Job) -> list[str]:
    """What the hosts say, all nodes of the server: those outside the job are the fleet beside it."""
    window = f"{job.step_s}s"
    terms = [_tagged(row.quantity, f"sum by (instance) ({row.over('', window)})")
             for row in table() if row.exporter == "node_exporter"]  # fmt: skip
    if not job.large:  # a host has a series for each core and mode
        selector = 'mode=~"idle|iowait"' + (f",{_match('instance', '.+')}")
        cores = f"avg by (instance, mode) (rate(node_cpu_seconds_total{{{selector}}}[{max(RATE_S, job.step_s)}s]))"
        terms.append(_tagged("cpu", cores))
    terms.append(_tagged("targets", f"count(count_over_time(up[{window}]))"))
    terms += [_tagged(f"gpus_{row.exporter}", f"count(count_over_time({row.metric}[{window}]))")
              for row in table() if row.quantity == "power"]  # fmt: skip
    return terms


def _names(job: Job) -> Query:
    """Which node a pod, an address or a uuid is, and who shares a GPU."""
    window = f"{job.since_s}s"
    terms = [_tagged("uname", f"last_over_time(node_uname_info[{window}])")]
    if job.pods:
        space = f',namespace="{_quoted(job.namespace)}"' if job.namespace else ""
        terms.append(_tagged("pod", f"last_over_time(kube_pod_info{{{_match('pod', job.pods)}{space}}}[{window}])"))
    terms += [_tagged("gpu", f"last_over_time(nvidia_smi_gpu_info{{{selector}}}[{window}])")
              for selector in job.selectors()]  # fmt: skip
    apps = "last_over_time(nvidia_smi_compute_app_info[3m])"
    terms.append(_tagged("processes", f"count by (uuid) (count by (uuid, pid) ({apps})) > 1"))
    slowdown = "avg_over_time(nvidia_smi_clocks_event_reasons_hw_slowdown[5m])"
    terms.append(_tagged("slowdown", f"max by (uuid) ({slowdown}) > 0.5"))
    holders = "count by (UUID, exported_pod, hpc_job) (count_over_time({}[2m] {}))"
    selector = 'DCGM_FI_DEV_POWER_USAGE{GPU_I_ID="",exported_pod!=""}'
    both = [f"(count by (UUID) ({holders.format(selector, offset)}) > 1)" for offset in ("", "offset 4m")]
    terms.append(_tagged("holders", " and ".join(both)))
    return Query("names", " or ".join(terms), {"time": str(job.end)})
