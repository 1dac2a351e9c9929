"""NVLink fabric: the fabric manager runs, fits the driver, and every GPU is a healthy member."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nodegate.api import Limit, Unknown, Verdict, Why, absence, part
from nodegate.kernel_log.fleet import MIN_NODES
from nodegate.records.finding import OWN_WORD, VIRTUAL
from nodegate.subjects import fabric_log
from nodegate.subjects.fabric import (
    FABRIC_STATES,
    FABRIC_SUMMARIES,
    FABRIC_SUMMARY_VERDICTS,
    IMEX,
    NO_SUMMARY,
    NO_SWITCHES,
    UNIT,
    decode,
    demand_domain,
    demand_fabric,
    domain_of,
    has_domain,
    health_mask,
    judge_connections,
    known_word,
    members,
    own_member,
    place,
    state_of,
)
from nodegate.subjects.gpu import answering, named, usual
from nodegate.subjects.reported import expected
from nodegate.tools import fabric_manager

if TYPE_CHECKING:
    from nodegate.api import Baseline, Driver, Fleet, Gpus, Host, Node, Pci, Profile, Services, Verdicts

pytestmark = pytest.mark.tier("bootcheck")

_SERVICE = part.service(UNIT)
_IMEX = "nvidia-imex-ctl -N on the node; read /var/log/nvidia-imex.log; nodes_config.cfg must be that of its rack"
_RESTART = "systemctl restart nvidia-fabricmanager; if it stops again, read /var/log/fabricmanager.log"


def test_nvswitches(pci: Pci, host: Host, baseline: Baseline, verdicts: Verdicts) -> None:
    """PCIe lists as many NVSwitches as the platform has, and each responds. (F13)

    The fabric manager refuses to start when one is missing ("don't match with any supported system topology"). A
    virtual machine may be given none of them: its host's fabric manager serves it.
    """
    if host.is_virtual and not pci.nvswitches:
        verdicts.by_design(NO_SWITCHES, witness=VIRTUAL)
    limit = baseline.number("fabric.nvswitch_count")
    if limit.value == 0 and not pci.nvswitches:
        verdicts.by_design("this platform has no NVSwitch on its PCIe bus", witness=limit.source)
    action = "power-cycle the node; if it stays, replace the GPU baseboard"
    verdicts.equal(
        part=part.NODE,
        quantity="NVSwitches on PCIe",
        observed=len(pci.nvswitches),
        expected=limit,
        action=action,
        code="missing",
    )
    for switch in pci.nvswitches:
        verdicts.holds(
            part=part.nvswitch(address=switch.address),
            quantity="its PCIe configuration space",
            observed=switch.answers,
            good="responds on PCIe",
            bad="does not respond on PCIe",
            action=action,
            code="not responding",
        )


def test_manager(pci: Pci, host: Host, services: Services, baseline: Baseline, verdicts: Verdicts) -> None:
    """The service nvidia-fabricmanager is active wherever there are NVSwitches, and did not have to be restarted. (F12)

    Without it CUDA does not start on these GPUs (error 802), or NCCL hangs at init. A service that does not run
    and one that systemd says nothing of are different things: the second is `error`.
    """
    demand_fabric(pci, host, baseline, verdicts)
    if isinstance(services.units, Unknown):
        reason = f"could not read the state of {UNIT}: {services.units}"
        verdicts.cannot(reason, next_step="run systemctl status on the node")
    unit = services.units.get(UNIT)
    if unit is None:
        verdicts.cannot(f"systemd reported nothing of {UNIT}", next_step="look at the evidence file")
    if unit.load_state == "not-found":
        action = "install the nvidia-fabricmanager package of the driver's own version"
        verdicts.found(Verdict.FAIL, part=_SERVICE, text="not installed", action=action, code="not installed")
        return
    verdicts.holds(
        part=_SERVICE,
        quantity="whether it runs",
        observed=unit.active_state == "active" and unit.sub_state == "running",
        good="running",
        bad=f"not running: {unit.active_state} ({unit.sub_state}, result {unit.result})",
        action=_RESTART,
        code="not running",
    )
    verdicts.at_most(
        part=_SERVICE,
        quantity="automatic restarts",
        observed=unit.restarts,
        limit=Limit(0, "restarts", "none for a healthy service"),
        action="read /var/log/fabricmanager.log for why it ended",
        otherwise=Verdict.WARN,
        code="restarted",
    )


def test_version(  # noqa: PLR0917 - arguments are facts
    pci: Pci, host: Host, services: Services, driver: Driver, baseline: Baseline, verdicts: Verdicts
) -> None:
    """The fabric manager is of exactly the driver's version. (F12, F32)

    It refuses to run with another driver, at the latest after the next reboot.
    """
    demand_fabric(pci, host, baseline, verdicts)
    verdicts.equal(
        part=_SERVICE,
        quantity="version",
        observed=services.fabric_manager_version,
        expected=driver.version,
        source="the driver's version",
        action="install both from one release and hold the packages (apt-mark hold, dnf versionlock)",
    )


def test_manager_log(  # noqa: PLR0917 - arguments are facts
    pci: Pci, services: Services, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts
) -> None:
    """The fabric manager's log holds no error since the service was started. (F12, F13)

    NVSwitch errors, a topology that does not match, NVLinks that did not train and NVLS groups that could not be set up
    are reported here, some of them nowhere else. What came before the service's present start, or before this boot, is
    reported as settled; a fatal NVSwitch error is not settled by a restart alone. The log has no time zone, so an error
    of the last 12 h before the boot counts unless the log shows the start. Source: messages as gpud's log matcher has
    them.
    """
    demand_fabric(pci, host, baseline, verdicts)
    log = services.fabric_manager_log
    if isinstance(log, Unknown):
        action = "check whether nvidia-fabricmanager runs, and LOG_FILE_NAME in fabricmanager.cfg"
        verdicts.unknown(part=_SERVICE, quantity="its log", reason=log, action=action)
        return
    boot_s = host.uptime_s if isinstance(host.uptime_s, Unknown) else host.clock_epoch_s - host.uptime_s
    fabric_log.judge_entries(fabric_manager.parse_log(log), boot_s, profile, verdicts)


def test_state(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Every GPU has completed its registration with the fabric, without an error. (F12)

    A GPU that did not ("not started", "in progress", or completed with an error) hangs NCCL or fails CUDA start.
    Each GPU is asked: one of eight is enough to hang a job.
    """
    for gpu, fabric in members(answering(gpus, verdicts), verdicts, demanded="fabric" in expected(gpus, baseline)):
        state = named(fabric.state, FABRIC_STATES)
        verdicts.equal(
            part=gpu.part, quantity="fabric state", observed=state, expected="completed", action=_RESTART, code="state"
        )
        if state == "completed":
            verdicts.equal(
                part=gpu.part,
                quantity="fabric status",
                observed=fabric.status,
                expected=0,
                action="reset the GPU after the fabric manager runs; nvmlReturn_t in nvml.h names the status",
                code="status",
            )


def test_health(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """No GPU reports a degraded, misconfigured or unhealthy fabric. (F12, F13)

    The driver's own mask says what is wrong: bandwidth, routes, access timeouts, configuration, partition. A route
    recovery in progress warns, for it ends. Drivers before 550 do not report the mask.
    """
    action = "restart nvidia-fabricmanager and reset the GPUs; if it stays, read the kernel log for SXid lines"
    for gpu, fabric in members(answering(gpus, verdicts), verdicts, demanded="fabric" in expected(gpus, baseline)):
        mask = health_mask(fabric)
        if isinstance(mask, Unknown):
            if named(fabric.state, FABRIC_STATES) != "completed":  # until then no field is reported
                verdicts.left_out(part=gpu.part, quantity="fabric health", text="not joined yet: see fabric.state")
                continue
            absent = absence("fabric_health", gpu, gpus, baseline)
            verdicts.unknown(part=gpu.part, quantity="fabric health", reason=mask, absent=absent)
            continue
        health = decode(mask)
        for bad in health.wrong:
            verdicts.found(bad.verdict, part=gpu.part, text=f"fabric {bad.text}", action=action, code=bad.field)
        if not health.wrong:
            text = f"fabric health mask {mask:#x}: {health.reported} fields reported, none bad"
            verdicts.passed(part=gpu.part, text=text)


def test_summary(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The fabric's own summary of every GPU is healthy. (F12, F13)

    Reported by driver 580 and later; `limited capacity` works with less bandwidth than was bought.
    """
    action = "see fabric.health for what is wrong"
    for gpu, fabric in members(answering(gpus, verdicts), verdicts, demanded="fabric" in expected(gpus, baseline)):
        summary = fabric.health_summary
        if isinstance(summary, Unknown):
            absent = absence("fabric_summary", gpu, gpus, baseline)
            verdicts.unknown(part=gpu.part, quantity="fabric summary", reason=summary, absent=absent)
            continue
        text = f"fabric {named(summary, FABRIC_SUMMARIES)}"
        if summary == NO_SUMMARY:
            verdicts.lacking(part=gpu.part, text=text)
            continue
        verdict = FABRIC_SUMMARY_VERDICTS.get(summary, Verdict.ERROR)
        code = FABRIC_SUMMARIES.get(summary, "")
        verdicts.found(verdict, part=gpu.part, text=text, action=action, code=code)


def test_one_cluster(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """All GPUs of the node are in one NVLink cluster and one clique of it. (F12, F13)

    Only GPUs of one clique reach each other over NVLink: with one in another, NCCL goes over PCIe or fails.
    """
    found = list(members(answering(gpus, verdicts), verdicts, demanded="fabric" in expected(gpus, baseline)))
    usually = usual(place(fabric) for _, fabric in found)
    for gpu, fabric in found:
        verdicts.equal(
            part=gpu.part,
            quantity="fabric cluster",
            observed=place(fabric),
            expected=usually,
            action="look at the partitions of the fabric manager; restart it and reset the GPU",
        )


@pytest.mark.tier("nightly")
def test_one_domain(gpus: Gpus, node: Node, fleet: Fleet, verdicts: Verdicts) -> None:
    """The node is in the NVLink domain of the other nodes of its rack. (F12, F13)

    A tray whose cables go elsewhere, or whose switches were set up apart, is healthy by itself and joins no job over
    NVLink. Three nodes or more in another domain only warn: a rack may hold two. Source: NVML, cluster UUID.
    """
    own, alike = domain_of(answering(gpus, verdicts)), fleet.domains(node.name)
    usually, count = alike.most_common(1)[0] if alike else ("", 0)
    if not own and not usually and not has_domain(gpus):
        verdicts.by_design("no GPU is in an NVLink domain of several nodes", witness=OWN_WORD)
    if own is None or count < MIN_NODES or 2 * count <= alike.total():
        verdicts.not_done(f"fewer than {MIN_NODES} nodes of its rack are known to be in one NVLink domain")
    tray, others = part.host("tray"), f"of the other nodes of rack {node.rack}"
    if own == usually:
        verdicts.passed(part=tray, text=f"in one NVLink domain with {count - 1} {others}")
        return
    place = f"in an NVLink domain with {alike[own] - 1} {others}" if own else "in no NVLink domain of several nodes"
    verdicts.found(
        Verdict.WARN if alike[own] >= MIN_NODES else Verdict.FAIL,
        part=tray,
        text=f"{place}, and {count} are in another",
        action="look at the NVLink cables of the tray, and at the partitions of the switches' fabric manager",
        quantity="NVLink domain",
        observed=own or "none",
    )


def test_imex(gpus: Gpus, services: Services, verdicts: Verdicts) -> None:
    """Where the NVLink domain spans several nodes, the IMEX service runs. (F12)

    Without it programs cannot reach the memory of GPUs in other trays and fall back to the network. It warns, for
    Kubernetes starts it with a job. Source: NVIDIA IMEX service guide; NVML, cluster UUID of the fabric information.
    """
    demand_domain(gpus, answering(gpus, verdicts), verdicts)
    verdicts.equal(
        part=part.service(IMEX),
        quantity="service state",
        observed=state_of(services, IMEX),
        expected="active",
        action="systemctl enable --now nvidia-imex, unless the scheduler starts it with each job",
        otherwise=Verdict.WARN,
    )


def test_imex_domain(gpus: Gpus, services: Services, host: Host, verdicts: Verdicts) -> None:
    """Where IMEX runs for an NVLink domain of several nodes, the domain is up and this node connected to all. (F12)

    Else programs fall back to the network or abort. What it says of other nodes is made up where they are down, so only
    its own connections count; where most of them work, the other node is to be looked at. Source: NVIDIA IMEX guide.
    """
    demand_domain(gpus, answering(gpus, verdicts), verdicts)
    if state_of(services, IMEX) in ("inactive", "not installed"):
        verdicts.not_demanded("IMEX does not run on the host: see fabric.imex")
    domain, service = services.imex, part.service(IMEX)
    if isinstance(domain, Unknown):
        if domain.why is Why.NOT_DONE:
            verdicts.not_done("the probe that recorded this did not ask for the IMEX domain")
        verdicts.unknown(part=service, quantity="its domain", reason=domain, action=_IMEX)
        return
    own = own_member(domain, host.hostname)
    if isinstance(own, Unknown):
        verdicts.unknown(part=service, quantity="this node in its domain", reason=own, action=_IMEX)
        return
    status = known_word(domain.status, ("UP", "DEGRADED", "DOWN"))
    verdicts.equal(part=service, quantity="domain", observed=status, expected=("UP", "DEGRADED"), action=_IMEX)
    verdicts.equal(part=service, quantity="state of this node", observed=own.status, expected="READY", action=_IMEX)
    verdicts.equal(
        part=service,
        quantity="version",
        observed=own.version,
        expected=gpus.driver_version,
        source="the driver",
        action="install nvidia-imex of the driver's version",
    )
    judge_connections(own, service, _IMEX, verdicts)
