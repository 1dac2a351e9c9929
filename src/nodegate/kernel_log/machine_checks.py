"""Machine checks and memory errors: the part that the kernel names, how many errors it counted, and of what sort."""

import re

from nodegate.kernel_log.incidents import Incident, incidents, tell_one
from nodegate.kernel_log.window import LogWindow
from nodegate.probe.kernel_log import KernelLog
from nodegate.records import part
from nodegate.verdicts import Verdicts

_FIRMWARE = re.compile(r"\{(?P<record>\d{1,6})\}\[Hardware Error\]: ")
# "{1}[Hardware Error]:   DIMM location: P1_NODE0_CHANNEL3_DIMM0", or "not present. DMI handle: 0x0023"
_LOCATION = re.compile(r"\{(?P<record>\d{1,6})\}\[Hardware Error\]: {1,8}DIMM location: (?P<place>[\w .,#:-]{1,80})")


def tell(log: KernelLog, window: LogWindow, verdicts: Verdicts) -> None:
    """A finding for each part and sort of error."""
    places = {found["record"]: found["place"].strip() for line in log.lines if (found := _LOCATION.search(line.text))}
    for incident in incidents(log, "hardware_error", window):
        count, record = _errors(incident), _FIRMWARE.search(incident.lines[0].text)
        when = f"{count} errors, reported {incident.when}" if count != len(incident.lines) else ""
        module = places.get(record["record"], "") if record else ""
        whose = part.from_kernel("memory module", module) if module else None
        tell_one(incident, window, verdicts, when=when, whose=whose, errors=count)


def _errors(incident: Incident) -> int:
    """How many errors the lines report: EDAC writes a number of its own, "EDAC MC0: 12 CE ..."."""
    matches = [incident.rule.pattern.search(line.text) for line in incident.lines]
    return sum(int((match.groupdict().get("count") if match else None) or 1) for match in matches)
