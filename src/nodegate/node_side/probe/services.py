"""Section `services`: the systemd units that a GPU node needs, what the fabric manager says, and what IMEX says."""

from nodegate.node_side.probe import commands, files

UNITS = (
    *("nvidia-fabricmanager", "nvidia-persistenced", "nvidia-imex", "slurmd"),
    *("chronyd", "chrony", "ntp", "ntpd", "ntpsec", "systemd-timesyncd"),
)
PROPERTIES = "Id,LoadState,ActiveState,SubState,Result,NRestarts"


def read() -> object:
    """The data of the section."""
    units = [f"{name}.service" for name in UNITS]
    return {
        "show": commands.text(["systemctl", "show", "-p", PROPERTIES, *units], limit_s=4.0),
        "fabric_manager_version": commands.text(["nv-fabricmanager", "--version"], limit_s=4.0),
        "fabric_manager_log": files.text("/var/log/fabricmanager.log", from_end=True),
        "imex": commands.text(["nvidia-imex-ctl", "-N", "-j"], limit_s=4.0),  # -n would never end
    }
