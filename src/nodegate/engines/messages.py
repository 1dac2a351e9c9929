"""What programs that start another one in a machine or container of this host say where they cannot."""

from nodegate.transport.command import Said

_STEP = "start it, or correct its name in nodegate_command"
MESSAGES = (
    Said(r"(?i)no such container|no container with name|no machine '|host is down|is not running", "refused", _STEP),
    Said(r"(?i)permission denied|access denied|interactive authentication required", "authentication", "run as root"),
    Said(r"(?i)cannot connect to|failed to connect to bus|connection refused", "refused", "start the service it needs"),
)
