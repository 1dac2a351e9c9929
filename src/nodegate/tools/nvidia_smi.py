"""nvidia-smi -q -x, read into the same facts as NVML: the fall-back.

Each GPU becomes one `Shown`, so that every field is looked up in one place (nvidia_smi_fields.py), whatever the
driver's layout.
"""

import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from nodegate.errors import CannotMeasure
from nodegate.probe import plausible
from nodegate.probe.gpu import Gpu, Gpus, lost_gpu
from nodegate.probe.readings import address_in
from nodegate.text import shown
from nodegate.tools.nvidia_smi_fields import Shown, gpu_of, versions_of
from nodegate.unknown import Unknown, Why, known, value_or

MAX_TEXT = 4 << 20  # characters: eight GPUs write about 250,000 in XML
MAX_DEPTH = 32
MAX_GPUS = 64
BY_HAND = "run nvidia-smi -q on the node by hand"

_ADDRESS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
_DOCTYPE = re.compile(r"<!DOCTYPE nvidia_smi_log SYSTEM \"[\w.]{1,80}\">")
_NO_HANDLE = re.compile(
    rf"Unable to determine the device handle for (?:the )?(?:(?i:GPU) ?[0-9]*:? ?)({_ADDRESS}): *(.{{1,200}})"
)
# If it does not know the address, it names the GPU by its index.
_NO_HANDLE_BY_INDEX = re.compile(
    r"Unable to determine the device handle for (?:the )?(?i:GPU) ?([0-9]{1,2}):(?! *[0-9A-Fa-f]{4,8}:) *(.{1,200})"
)
_CORRUPTED = re.compile(r"WARNING: infoROM is corrupted at gpu ([0-9A-Fa-f:.]{7,20})")


def parse_xml(written: str) -> Gpus:
    """`nvidia-smi -q -x`, every layout from driver 410 to 610.

    Raises:
        CannotMeasure: it is empty, cut off, or something else than nvidia-smi's XML.
    """
    start = written.find("<nvidia_smi_log")
    if start < 0 or len(written) > MAX_TEXT:
        gpus = _gpus(Shown([]), [], written)  # those that do not answer
        first = next((line.strip() for line in written[:MAX_TEXT].splitlines() if line.strip()), "")
        if not gpus.devices:
            raise _bad("names no GPU" if first else "is empty", first)
        return gpus
    head, document = _DOCTYPE.sub("", written[:start]), written[start:]
    end = document.rfind("</nvidia_smi_log>")
    if end < 0:
        raise _bad("is truncated", document.rstrip().rpartition("\n")[2])
    # nvidia-smi declares no entities; a declaration is not from it, and is not expanded here.
    if "<!" in head or "<!" in document:
        raise _bad("has a declaration that nvidia-smi does not write", document)
    try:
        root = ET.fromstring(document[: end + len("</nvidia_smi_log>")])  # noqa: S314 - no declarations: see above
    except ET.ParseError as why:
        line = why.position[0]
        raise _bad(f"is not XML ({why})", document.split("\n")[line - 1]) from None
    whole = Shown(_leaves(root))
    cards = [(card.get("id", ""), Shown(_leaves(card))) for card in root.findall("gpu")[:MAX_GPUS]]
    return _gpus(whole, cards, head + document[end:])


def corrupted_inforoms(written: str) -> tuple[str, ...]:
    """PCI addresses of the GPUs whose infoROM nvidia-smi calls corrupted, in any of its outputs; it exits with 0."""
    found = (match[1] for match in _CORRUPTED.finditer(written[:MAX_TEXT]))
    return tuple(known(address_in(each if re.match(_ADDRESS, each) else f"0000:{each}") for each in found))


def lost_handles(written: str) -> tuple[tuple[str, str], ...]:
    """(PCI address, reason) of the GPUs whose handle nvidia-smi could not get, in any of its outputs."""
    found = _NO_HANDLE.finditer(written[:MAX_TEXT])
    return tuple((value_or(address_in(match[1]), ""), shown(match[2].strip(), 200)) for match in found)


def _gpus(whole: Shown, cards: Sequence[tuple[str, Shown]], around: str) -> Gpus:
    """With every GPU in the order of its address, which is nvidia-smi's own; including lost ones at their place."""
    corrupted, lost = corrupted_inforoms(around), dict(lost_handles(around))
    by_address: list[tuple[str, Shown | None]] = [(value_or(address_in(name), name), card) for name, card in cards]
    by_address += [(address, None) for address in lost]
    made: list[Gpu] = []
    for index, (address, card) in enumerate(sorted(by_address, key=lambda pair: pair[0])):
        place = address_in(address)
        if card is None:
            made.append(lost_gpu(index, Unknown(Why.LOST, lost[address]), address=place))
        else:
            made.append(plausible.gpu(gpu_of(index, place, card, inforom_corrupted=address in corrupted)))
    unnamed = _NO_HANDLE_BY_INDEX.finditer(around[:MAX_TEXT])
    made += [lost_gpu(int(match[1]), Unknown(Why.LOST, shown(match[2].strip(), 200))) for match in unnamed]
    return Gpus(*versions_of(whole), devices=tuple(made), source="nvidia-smi")


def _bad(problem: str, line: str) -> CannotMeasure:
    quoted = f": {shown(line.strip(), 120)}" if line.strip() else ""
    return CannotMeasure(f"nvidia-smi's output {problem}{quoted}", next_step=BY_HAND)


def _leaves(element: ET.Element, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Path and text of every element; the GPUs below the whole are read one by one."""
    for child in element:
        place = f"{path}{child.tag}"
        yield place, (child.text or "").strip()
        if depth < MAX_DEPTH and child.tag not in ("gpu", "supported_clocks"):
            yield from _leaves(child, f"{place}/", depth + 1)
