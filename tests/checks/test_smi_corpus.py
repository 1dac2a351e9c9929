"""Real outputs of nvidia-smi judged as their truth says: faulty GPUs are found, and those that only look bad are not.

What was missed is a table at the end of the test output (tests/checks/conftest.py); it must be empty.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import pytest
from fleet.machine import Machine, facts_of
from support.corpus import corpus
from support.judging import SITE, baseline_of, judge_one

from nodegate import suite
from nodegate.errors import NotJudged
from nodegate.judge.judge import judge
from nodegate.node import Node
from nodegate.probe.driver import Driver, DriverGpu
from nodegate.probe.gpu import NvLink
from nodegate.probe.pci import AerCounters, Pci, PciDevice
from nodegate.profile import Profile
from nodegate.records.finding import Limit
from nodegate.records.verdict import Verdict
from nodegate.suite import check as check_named
from nodegate.tools import nvidia_smi
from nodegate.tools.nvidia_smi_fields import Shown
from nodegate.unknown import Known, Unknown, Why

SUBJECTS = ("gpu", "idle", "power", "clocks", "ecc", "gsp", "nvlink", "fabric", "pcie")
GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0}  # PCIe generation -> GT/s
NOT_SHOWN = Unknown(Why.MISSING, "nvidia-smi does not show it")
SLOT = PciDevice(
    **dict.fromkeys((field.name for field in fields(PciDevice)), NOT_SHOWN)
    | {"class_code": 0x060400, "vendor": 0x8086, "device": 0x352A, "width": 16, "width_max": 16}
    | {"driver": "pcieport", "parent": "", "answers": True, "aer": AerCounters(*[NOT_SHOWN] * 3)}
)


def facts_around(gpus, *, vm, gens=None):
    """Every fact that a GPU-side check may ask for."""
    machine = Machine.pcie_l40s()
    if vm:
        machine.set("system", "dmi.sys_vendor", "Amazon EC2")
        machine.set("system", "dmi.product_name", "g5.xlarge")
    machine.set("kernel_log", "lines", [])
    facts = facts_of(machine)
    around: dict[str, object] = {name: facts.get(name) for name in ("host", "services", "kernel_log", "jobs")}
    return around | {"gpus": gpus, "pci": Pci(_devices(gpus, gens)), "driver": _driver(gpus)}


def judge_smi(gpus, profile, *, platform="", vm=False, limits=None, gens=None):
    """What every GPU-side check of the profile says of these GPUs: check id -> record.

    `gens`: their PCIe generations as recorded; else each link is at the best of GPU and slot.
    """
    found = {"gpus": len(gpus.devices)} | ({"platform": platform} if platform else {})
    node = Node("gpu01", expected=found, origin="hosts.yaml:3")
    context = facts_around(gpus, vm=vm, gens=gens)
    context |= {"node": node, "profile": profile, "baseline": baseline_of(_Facts(context), node, limits)}

    def resolve(name):
        if name == "fleet":
            raise NotJudged("alone")
        return context[name]

    mine = [check for check in suite.checks() if check.id.partition(".")[0] in SUBJECTS]
    return {check.id: judge(check, resolve, node.name) for check in mine if profile.includes(check.tier)}


class _Facts:
    """What `baseline_of` asks of a node's facts."""

    def __init__(self, known):
        self._known = known

    def get(self, name):
        return self._known[name]


def _devices(gpus, gens):
    found = []
    for gpu in gpus.devices:
        now, slot_speed, own = _speeds(gpu, gens)
        vendor, number = ("10de", "0000") if isinstance(gpu.pci_id, Unknown) else gpu.pci_id.split(":")
        slot = replace(SLOT, address=f"00{gpu.index:02x}:ff:00.0", speed_gts=slot_speed, speed_max_gts=slot_speed)
        card = replace(
            SLOT,
            address=str(gpu.address),
            class_code=0x030200,
            vendor=0x10DE if vendor == "00de" else int(vendor, 16),  # masked in one recording
            device=int(number, 16),
            width=gpu.link_width,
            width_max=gpu.link_width_max,
            speed_gts=now,
            speed_max_gts=own,
            driver="nvidia",
            parent=slot.address,
        )
        found += [slot, card]
    return tuple(found)


def _speeds(gpu, gens):
    """GT/s now, of the slot, and of the GPU itself."""
    of_links: tuple[Known[int], ...] = (gpu.link_gen_max,) * 3 if gens is None else gens
    now, slot, best = (gen if isinstance(gen, Unknown) else GTS[gen] for gen in of_links)
    return now, slot, best


def _driver(gpus):
    entries = tuple(DriverGpu(str(gpu.address), gpu.uuid, gpu.gsp_firmware, excluded=False) for gpu in gpus.devices)
    return Driver(
        loaded=True,
        version=gpus.driver_version,
        open_kernel_module=NOT_SHOWN,
        gpus=entries,
        device_nodes={f"nvidia{gpu.index}": "ok" for gpu in gpus.devices},
    )


_GPU = re.compile(r"GPU ([0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])\s*")
# Where the XML has another name than the text in small letters, with _ for blanks.
_NAMES = (
    (r"gpu_uuid", "uuid"),
    (r"serial_number", "serial"),
    (r"inforom_version/image_version", "inforom_version/img_version"),
    (r"(platform_info/)?module_id", "gpu_module_id"),
    (r"fabric/cliqueid", "fabric/cliqueId"),
    (r"fabric/clusteruuid", "fabric/clusterUuid"),
    (r"pci/device_id", "pci/pci_device_id"),
    (r"pci/replays_since_reset", "pci/replay_counter"),
    (r"pci/gpu_link_info/pcie_generation/max", "pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
    (r"pci/gpu_link_info/link_width/(max|current)", r"pci/pci_gpu_link_info/link_widths/\1_link_width"),
    (r"(.*clocks)/(graphics|sm)", r"\1/\2_clock"),
    (r"(.*clocks)/memory", r"\1/mem_clock"),
    (r"(clocks_\w+_reasons)/idle", r"\1/gpu_idle"),
    (r"(clocks_\w+_reasons)/hw_slowdown/(.*)", r"\1/\2"),
    (r"(clocks_\w+_reason)s/display_clock_setting", r"\1s/display_clocks_setting"),
    (r"(clocks_\w+_reason)s/(.*)", r"\1s/\1_\2"),
    (r"utilization/gpu", "utilization/gpu_util"),
    (r"ecc_mode/(current|pending)", r"ecc_mode/\1_ecc"),
    (r"mig_mode/(current|pending)", r"mig_mode/\1_mig"),
    (r"(ecc_errors/.*)_sec-ded", r"\1_secded"),
    (r"retired_pages/single_bit_ecc", "retired_pages/multiple_single_bit_retirement/retired_count"),
    (r"retired_pages/double_bit_ecc", "retired_pages/double_bit_retirement/retired_count"),
    (r"retired_pages/pending_page_blacklist", "retired_pages/pending_blacklist"),
    (r"remapped_rows/correctable_error", "remapped_rows/remapped_row_corr"),
    (r"remapped_rows/uncorrectable_error", "remapped_rows/remapped_row_unc"),
    (r"remapped_rows/pending", "remapped_rows/remapped_row_pending"),
    (r"remapped_rows/remapping_failure_occurred", "remapped_rows/remapped_row_failure"),
    (r"remapped_rows/bank_.*/none", "remapped_rows/row_remapper_histogram/row_remapper_histogram_none"),
    (r"temperature/(gpu|memory)_current_temp", r"temperature/\1_temp"),
    (r"temperature/gpu_t\.limit_temp", "temperature/gpu_temp_tlimit"),
    (r"temperature/gpu_slowdown_temp", "temperature/gpu_temp_slow_threshold"),
    (r"(gpu_power_readings)/gpu_ceiling_power_limit/(.*)", r"\1/\2"),
    (r"(.*)/instantaneous_power_draw", r"\1/instant_power_draw"),
    (r"processes/process_id", "processes/process_info/pid"),
    (r"processes/(.*/)?name", "processes/process_info/process_name"),
    (r"processes/(.*/)?used_gpu_memory", "processes/process_info/used_memory"),
)


def parse_text(written):
    """The GPUs in the output of `nvidia-smi -q`, or of one `-d` part of it."""
    lines = written.splitlines()
    starts = [number for number, line in enumerate(lines) if _GPU.fullmatch(line)]
    cards = [
        (lines[start].removeprefix("GPU ").strip(), Shown(_leaves(lines[start + 1 : end])))
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    ]
    return nvidia_smi._gpus(Shown(_leaves(lines[: starts[0]])), cards, written)


def _leaves(lines):
    """Path and value of every line; an indented line belongs to the one above, with a value or without."""
    above: list[tuple[int, str]] = []
    for line in lines:
        name, _, value = line.partition(" : ")
        if not name.strip():
            continue
        depth = len(name) - len(name.lstrip())
        while above and above[-1][0] >= depth:
            above.pop()
        above.append((depth, name.strip().lower().replace(" ", "_")))
        yield _xml_name("/".join(part for _, part in above)), value.strip()


def _xml_name(path):
    for pattern, name in _NAMES:
        path = re.sub(f"^{pattern}$", name, path)
    return path


FINE = (Verdict.PASS, Verdict.SKIP, Verdict.NOT_JUDGED)
# nvidia-smi -q shows no NVLinks, and most recordings are of one GPU of a board in a virtual machine.
AS_RECORDED = {"nvlink.count": None, "fabric.required": False, "fabric.nvswitch_count": 0}

# Findings that are true of healthy GPUs: a site's setting, and a job that was at work when the recording was made.
NO_PERSISTENCE = "gpu.persistence warn"
IN_USE = ("idle.processes fail", "idle.memory fail")
DESKTOP = "idle.processes warn"
# A virtual machine with eight lanes is asked about once: see the test of pcie.gpu_width below.
WIRED_X8 = "pcie.link_width warn"
# What an excerpt does not show must be `error`: never a pass.
IN_NO_EXCERPT = ("ecc.volatile error", "ecc.lifetime error", "gpu.persistence error")
OF_LINKS = ("pcie.link_width error", "pcie.link_speed error")
NOT_IN_THE_EXCERPT = (*IN_NO_EXCERPT, *OF_LINKS, "pcie.bridge_width error", "idle.memory error")


@dataclass(frozen=True)
class Recording:
    """A recording of `nvidia-smi -q`, and every warning, error and failure that the checks must leave."""

    file: str
    says: tuple[str, ...] = ()
    platform: str = ""
    vm: bool = False
    limits: Mapping[str, object] = field(default_factory=dict)

    def __str__(self):
        return self.file


RECORDINGS = [
    # Healthy, with what is true of them
    Recording("azhpc_a100_460_q.txt", (NO_PERSISTENCE, "gsp.state pass"), platform="hgx-a100-40gb-8"),
    Recording("exporter_h100_idle_q.txt", platform="hgx-h100-8"),
    Recording("exporter_h100_load_q.txt", IN_USE, platform="hgx-h100-8"),
    Recording("exporter_h100mig_idle_q.txt", platform="hgx-h100-8"),
    Recording("exporter_h100mig_load_q.txt", IN_USE, platform="hgx-h100-8"),
    Recording("exporter_h200_idle_q.txt", platform="hgx-h200-8"),
    Recording("exporter_h200_load_q.txt", IN_USE, platform="hgx-h200-8"),
    Recording("exporter_h200mig_idle_q.txt", platform="hgx-h200-8"),
    Recording("exporter_h200mig_load_q.txt", IN_USE, platform="hgx-h200-8"),
    Recording("exporter_l40s_idle_q.txt", (NO_PERSISTENCE,), platform="l40s"),
    Recording("exporter_l40s_load_q.txt", (NO_PERSISTENCE, *IN_USE), platform="l40s"),
    Recording("exporter_rtx2080s_idle_q.txt", (NO_PERSISTENCE, DESKTOP)),
    Recording("exporter_rtx2080s_load_q.txt", (NO_PERSISTENCE, *IN_USE)),
    Recording("netdata_a100-sxm4-mig.xml", (NO_PERSISTENCE,), platform="hgx-a100-40gb-8"),
    Recording("netdata_rtx-4090-driver-535.xml", platform="rtx-4090"),
    Recording("netdata_tesla-p100.xml", (NO_PERSISTENCE, "ecc.retired_pages pass")),
    Recording("telegraf_a100-sxm4-v12.xml", (NO_PERSISTENCE,), platform="hgx-a100-80gb-8"),
    Recording("telegraf_rtx-3060-v12.xml"),
    Recording("telegraf_rtx-3080-v13.xml", (NO_PERSISTENCE, "idle.memory fail")),
    Recording("telegraf_a10g.xml", (NO_PERSISTENCE, DESKTOP, WIRED_X8), vm=True),
    Recording("telegraf_tesla-t4.xml", (NO_PERSISTENCE, *IN_USE, WIRED_X8), vm=True),
    # The same two once the site has said that eight lanes are what it bought
    Recording("telegraf_a10g.xml", (NO_PERSISTENCE, DESKTOP), vm=True, limits={"pcie.gpu_width": 8}),
    Recording("telegraf_tesla-t4.xml", (NO_PERSISTENCE, *IN_USE), vm=True, limits={"pcie.gpu_width": 8}),
    # Excerpts of healthy GPUs
    Recording("azurenhc_orig_retired_ecc.txt", NOT_IN_THE_EXCERPT),
    Recording("netdata_rtx-pro-6000-driver-580.xml", NOT_IN_THE_EXCERPT),
    Recording("telegraf_gtx-1070-ti.xml", (*IN_NO_EXCERPT, *OF_LINKS)),
    # Faulty
    Recording("telegraf_a10g.xml", (NO_PERSISTENCE, DESKTOP, "pcie.link_width fail")),  # on a machine of one's own
    Recording("azurenhc_bad_retired_ecc.txt", ("ecc.retired_pages fail", *NOT_IN_THE_EXCERPT)),
    Recording(
        "stas_remapped_rows_pending.txt",
        ("ecc.remap_pending fail", "ecc.remapped_rows_new warn", "ecc.volatile pass", *NOT_IN_THE_EXCERPT[2:]),
    ),
]


def gpus_of(file):
    text = corpus(f"smi/{file}")
    return nvidia_smi.parse_xml(text) if file.endswith(".xml") else parse_text(text)


def judged(recording, profile):
    limits = AS_RECORDED | dict(recording.limits)
    return judge_smi(gpus_of(recording.file), profile, platform=recording.platform, vm=recording.vm, limits=limits)


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_each_recording_is_judged_as_its_truth_says(recording, profile, request):
    records = judged(recording, profile)
    found = {f"{name} {record.verdict.value}" for name, record in records.items() if record.verdict not in FINE}
    says = recording.says
    if profile is Profile.TROUBLESHOOT and "idle.processes fail" in says:  # a job at work may be the one looked at
        says = ("idle.processes warn", *(said for said in says if said not in IN_USE))
    expected = {said for said in says if profile.includes(check_named(said.split()[0]).tier) and "pass" not in said}
    missed = [(recording.file, profile.value, "not found", said) for said in sorted(expected - found)]
    missed += [(recording.file, profile.value, "false", said) for said in sorted(found - expected)]
    request.node.user_properties.append(("corpus judged", recording.file))
    request.node.user_properties.extend(("corpus missed", " | ".join(row)) for row in missed)
    assert missed == []
    passing = {said.split()[0] for said in recording.says if "pass" in said} & records.keys()
    assert {records[name].verdict for name in passing} <= {Verdict.PASS}


def failed(record, code=""):
    """The indices of the GPUs that a record fails, for one reason only where `code` names it."""
    bad = [finding for finding in record.findings if finding.verdict is Verdict.FAIL]
    return {finding.part.index for finding in bad if finding.part.index is not None and code in ("", finding.code)}


# Which GPU it is


def test_gpus_whose_page_retirement_is_pending_or_whose_spare_pages_are_used_up_fail():
    record = judge_smi(gpus_of("azurenhc_bad_retired_ecc.txt"), Profile.BOOTCHECK)["ecc.retired_pages"]
    assert failed(record, "pending") == {1, 3, 5, 7}
    assert failed(record, "pages") == {0, 1, 5, 7}
    assert failed(record) == {0, 1, 3, 5, 7}


def test_the_gpu_whose_row_remap_waits_fails():
    record = judge_smi(gpus_of("stas_remapped_rows_pending.txt"), Profile.BOOTCHECK)["ecc.remap_pending"]
    assert failed(record) == {0}
    assert record.message.startswith("GPU 0 (0000:10:1c.0): a row remap is pending")


def test_a_corrupt_inforom_below_the_output_fails_its_gpu_although_nvidia_smi_exits_with_0():
    table = corpus("smi/azhpc_inforom_corrupt.txt")
    addresses = re.findall(r"\| (0000000\d:00:00\.0) Off", table)
    warnings = "\n".join(line for line in table.splitlines() if line.startswith("WARNING"))
    cards = "".join(f'<gpu id="{address}"><product_name>V100</product_name></gpu>' for address in addresses)
    written = f'<?xml version="1.0" ?>\n<nvidia_smi_log>{cards}</nvidia_smi_log>\n{warnings}\n'
    machine = Machine.hgx_h100()
    machine.section_fails("nvml", "missing", "no libnvidia-ml.so.1")
    machine.sections["nvidia_smi"] = {"q": written, "exit_code": 0}
    record = judge_one("gpu.inforom", machine)
    assert record.verdict is Verdict.FAIL
    assert record.message.startswith("GPU 7 (0008:00:00.0): InfoROM corrupt")
    assert failed(record) == {7}


def test_a_table_without_the_warning_corrupts_nothing():
    assert nvidia_smi.corrupted_inforoms(corpus("smi/exporter_h100_table_idle.txt")) == ()


# NVLinks, of `nvidia-smi nvlink --status`


def with_links(file):
    """Healthy GPUs of another sort with the NVLinks of the recording."""
    listed: dict[int, list[NvLink]] = {}
    for line in corpus(f"smi/{file}").splitlines():
        if match := re.match(r"GPU (\d+):", line):
            links = listed.setdefault(int(match[1]), [])
        elif match := re.match(r"\s+Link (\d+): (?:([\d.]+) GB/s|<inactive>)", line):
            speed = round(float(match[2]) * 1000) if match[2] else NOT_SHOWN
            links.append(NvLink(int(match[1]), bool(match[2]), speed, *[NOT_SHOWN] * 4))
    gpus = facts_of(Machine.hgx_h100()).gpus
    made = tuple(replace(gpu, nvlinks=tuple(listed[gpu.index])) for gpu in gpus.devices if gpu.index in listed)
    return replace(gpus, devices=made, count=len(made))


@pytest.mark.parametrize(
    ("file", "links", "down"),
    [
        ("azhpc_nvlink_inactive.txt", 6, {3: "3, 5", 4: "1", 5: "0, 4", 6: "1"}),
        ("gpud_nvlink_a100.txt", 12, {}),
        ("exporter_h100_nvlink_s.txt", 18, {}),
    ],
)
@pytest.mark.parametrize("counted", [True, False], ids=["by the platform", "by the GPU's own word"])
def test_inactive_nvlinks_fail_on_their_gpu(file, links, down, counted):
    limits = {"nvlink.count": Limit(links, "links", SITE) if counted else None, "nvlink.speed_mbps": None}
    for profile in Profile:
        records = judge_smi(with_links(file), profile, limits=limits)
        assert failed(records["nvlink.links"]) == set(down)
        assert records["nvlink.links"].verdict is (Verdict.FAIL if down else Verdict.PASS)
        assert records["nvlink.speed"].verdict is Verdict.PASS
        notes = {finding.part.index: finding.note for finding in records["nvlink.links"].findings if finding.note}
        assert notes == {index: f"down: NVLink {links_down}" for index, links_down in down.items()}


# Traps


def test_an_idle_gpu_at_2_5_gts_is_no_slow_link():
    for file, best in (("telegraf_a10g.xml", 4), ("telegraf_rtx-3060-v12.xml", 4), ("exporter_rtx2080s_idle_q.txt", 3)):
        record = judge_smi(gpus_of(file), Profile.DELIVERY, gens=(1, best, best))["pcie.link_speed"]
        assert record.verdict is Verdict.SKIP
        assert "2.5 GT/s; judged only while the GPU is busy" in record.message


def test_a_gen4_card_in_a_gen3_slot_warns_at_work_and_says_that_it_is_the_slot():
    gpus = gpus_of("netdata_rtx-4090-driver-535.xml")
    assert judge_smi(gpus, Profile.DELIVERY, gens=(1, 3, 4))["pcie.link_speed"].verdict is Verdict.SKIP
    at_work = replace(gpus, devices=tuple(replace(gpu, utilization_percent=90) for gpu in gpus.devices))
    record = judge_smi(at_work, Profile.DELIVERY, gens=(3, 3, 4))["pcie.link_speed"]
    assert record.verdict is Verdict.WARN
    assert "the slot supports no more" in record.message


def test_instances_of_mig_hide_counters_and_links_and_nothing_else():
    for file in ("netdata_a100-sxm4-mig.xml", "exporter_h100mig_idle_q.txt"):
        records = judge_smi(gpus_of(file), Profile.DELIVERY)
        assert records["gpu.mig"].verdict is Verdict.PASS
        assert records["nvlink.links"].message.count("MIG is on: its instances do not use NVLink")
