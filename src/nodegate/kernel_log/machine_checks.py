"""Machine checks and memory errors: the part that the kernel names, how many errors it counted, and of what sort."""

import re

from nodegate.kernel_log.incidents import MAX_QUOTED, Incident, incidents
from nodegate.kernel_log.window import LogWindow, times
from nodegate.probe.kernel_log import KernelLog
from nodegate.records import part
from nodegate.verdicts import Verdicts

_FIRMWARE = re.compile(r"\{(?P<record>\d{1,6})\}\[Hardware Error\]: ")
# "{1}[Hardware Error]:   DIMM location: P1_NODE0_CHANNEL3_DIMM0", or "not present. DMI handle: 0x0023"
_LOCATION = re.compile(r"\{(?P<record>\d{1,6})\}\[Hardware Error\]: {1,8}DIMM location: (?P<place>[\w .,#:-]{1,80})")


def tell(log: KernelLog, window: LogWindow, verdicts: Verdicts) -> None:
    """A finding for each part and sort of error."""
    places = {match["record"]: match["place"].strip() for match in map(_location, log.lines) if match}
    for incident in incidents(log, "hardware_error", window):
        verdict, remark = window.weigh(incident.rule, incident.last_s)
        count = errors(incident)
        when = times(len(incident.lines), incident.lines[0].epoch_s, incident.last_s)
        said = f"{count} errors, reported {when}" if count != len(incident.lines) else when
        record = _FIRMWARE.search(incident.lines[0].text)
        module = places.get(record["record"], "") if record else ""
        verdicts.found(
            verdict,
            part=part.from_kernel("memory module", module) if module else incident.part,
            text=f'{incident.rule.meaning}, {said}: "{incident.lines[0].text[:MAX_QUOTED]}"',
            note=remark,
            action=incident.rule.action,
            quantity="errors",
            observed=count,
            code=incident.rule.name,
        )


def errors(incident: Incident) -> int:
    """How many errors the lines report: EDAC writes a number of its own, "EDAC MC0: 12 CE ..."."""
    matches = [incident.rule.pattern.search(line.text) for line in incident.lines]
    return sum(int((match.groupdict().get("count") if match else None) or 1) for match in matches)


def _location(line: object) -> re.Match[str] | None:
    return _LOCATION.search(getattr(line, "text", ""))
