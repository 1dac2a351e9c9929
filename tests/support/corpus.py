"""Real outputs with their truth, where this machine has them: a folder outside the project."""

import os
from pathlib import Path

import pytest

# Recordings that no check speaks to, with the reason.
_DCGMI = "the suite starts no diagnosis of DCGM and reads none: it has its own load, counters and kernel log"
NOT_JUDGED = {
    "dcgm/awscheat_r3_text.txt": _DCGMI,
    "dcgm/dcgm_per_gpu.json": _DCGMI,
    "dcgm/gcm_diag_fail.json": _DCGMI,
    "dcgm/gcm_diag_pass.json": _DCGMI,
    "dcgm/gcm_nvlink_err.json": _DCGMI,
    "dcgm/gcm_nvlink_status_down.txt": _DCGMI,
    "dcgm/stas_row_remap_fail.txt": _DCGMI,
    "dcgm/stas_thermal_fail.txt": _DCGMI,
    "smi/exporter_h100_dmon_load.txt": "load and clocks of a moment: healthy or not cannot be told from them",
    "smi/exporter_h100_querygpu_csv.txt": "the probe asks NVML; no parser for --query-gpu, which says no more",
    "smi/insights_smi_L_unparsable.txt": "the probe asks NVML; no parser for nvidia-smi -L, which says no more",
    "smi/exporter_h100_topo.txt": "the probe reads the PCIe tree from sysfs; no parser for topo -m",
    "rdma/azhpc_ethtool_eth1.txt": "no check on the speed of a plain Ethernet device: its right speed is not known",
    "rdma/eks_ethtool_S_ens5.txt": "the probe does not read driver statistics (ethtool -S); flaps come from the kernel",
    "rdma/insights_ethtool_S.txt": "the probe does not read driver statistics: no check on drops of a driver's queue",
    "rdma/netdata_ethtool_m_ddm.txt": "the probe does not read optical modules (ethtool -m)",
    "rdma/netdata_ethtool_m_nofiber.txt": "optical modules are not read: a dark port is found as one that is down",
    "rdma/ocidr_show_gids.txt": "no check on the GID table: which index is right depends on the site's RoCE set-up",
    "rdma/superb_ibstat_topo.txt": "names and GUIDs of hosts for a topology: no health in it",
}
_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "corpus"


def corpus_folder():
    """The folder that NODEGATE_CORPUS names, else `shared/corpus` beside the checkout."""
    return Path(os.environ.get("NODEGATE_CORPUS") or _BESIDE)


def corpus(path):
    """The text of one recording ("smi/example.txt"); the test is skipped where it is not there."""
    file = corpus_folder() / path
    if not file.is_file():
        pytest.skip(f"no recording {path} here: set NODEGATE_CORPUS to the folder of real outputs")
    return file.read_text(encoding="utf-8", errors="replace")
