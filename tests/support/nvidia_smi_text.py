"""`nvidia-smi -q` as text, as most recordings have it: its names become those of the XML, which the suite reads."""

import re

from nodegate.tools import nvidia_smi
from nodegate.tools.nvidia_smi_fields import Shown

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
