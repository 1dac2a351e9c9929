"""What programs that start another one elsewhere say where they cannot: by the program that a command begins with."""

from nodegate.transport.command import Said

_STEP = "start it, or correct its name in nodegate_command"
_OF_CONTAINERS = (
    Said(r"(?i)no such container|no container with name|no machine '|host is down|is not running", "refused", _STEP),
    Said(r"(?i)permission denied|access denied|interactive authentication required", "authentication", "run as root"),
    Said(r"(?i)cannot connect to|failed to connect to bus|connection refused", "refused", "start the service it needs"),
)
# Of srun and slurmd, written for Slurm 22.05 and later.
_OF_SRUN = (
    Said(
        r"Invalid job id|Job/step already completing|[Jj]ob has (?:ended|been cancelled)|Expired or invalid job",
        "dropped",
        "the job that holds the node has ended: look why with scontrol show job, then continue with --resume",
    ),
    Said(
        r"Socket timed out|Communication connection failure|Unable to contact slurmctld|Node failure|io error with",
        "timeout",
        "look at slurmd and the network of the node: scontrol show node, journalctl -u slurmd",
    ),
    Said(
        r"Requested node configuration is not available|Invalid node name|node .{1,64} not in this (?:job|allocation)",
        "unresolved",
        "correct the name: Slurm's own is in nodegate_slurm_name",
    ),
    Said(
        r"node not available|down, drained or reserved",
        "refused",
        "look why it is out with scontrol show node; root reaches it with ansible_connection: ssh",
    ),
    Said(
        r"Requested nodes are busy|step creation temporarily disabled|Immediate execution impossible",
        "refused",
        "another step has the node: set --overlap in nodegate_command",
    ),
    Said(
        r"(?i)Access/permission denied|Invalid (?:account|partition|user)|not permitted|Invalid credential",
        "authentication",
        "let this login run jobs there: sacctmgr show assoc, scontrol show partition, munge on both sides",
    ),
)
MESSAGES = {"srun": _OF_SRUN, **dict.fromkeys(("systemd-run", "podman", "docker"), _OF_CONTAINERS)}
