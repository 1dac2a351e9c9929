"""Boards: the GPUs of a node are of one kind, which is the platform's, and each is there once."""

from operator import attrgetter

import pytest

from nodegate.api import Baseline, Gpus, Pci, Profile, Unknown, Verdict, Verdicts, Why, absence, gibibytes, part
from nodegate.subjects.gpu import answering, has_number, id_on_bus, usual

pytestmark = pytest.mark.tier("bootcheck")

_WRONG_BOARD = "check which board is in this slot; replace it with the model that this platform requires"
_COPY = "run nvidia-smi -L; if two GPUs still share a serial number, call the vendor"


def test_model(gpus: Gpus, pci: Pci, verdicts: Verdicts) -> None:
    """All GPUs of the node are of one model, on PCIe and by NVML's name, and both see the same one. (F33)

    A job runs at the pace of the weakest board, and NCCL's plans are made for equal ones. The platform is recognised
    by the majority: a board of another model is the odd one. Source: lspci of good nodes; DCGM compares names too.
    """
    answers = answering(gpus, verdicts)
    model, name = usual(device.pci_id for device in pci.gpus), usual(gpu.name for gpu in answers)
    for device in pci.gpus:
        verdicts.equal(
            part=part.gpu(address=device.address),
            quantity="model on PCIe",
            observed=device.pci_id,
            expected=model,
            action=_WRONG_BOARD,
            code="model",
        )
    for gpu in answers:
        verdicts.equal(
            part=gpu.part, quantity="model by NVML", observed=gpu.name, expected=name, action=_WRONG_BOARD, code="model"
        )
        if isinstance(gpu.address, Unknown):
            verdicts.unknown(part=gpu.part, quantity="PCI address", reason=gpu.address)
        if on_bus := id_on_bus(gpu, pci):
            verdicts.equal(
                part=gpu.part,
                quantity="PCI id by NVML",
                observed=gpu.pci_id,
                expected=on_bus,
                source="PCIe at the same address",
                action="reboot; if they still differ, call the vendor",
                code="other id",
            )


def test_revision(gpus: Gpus, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """All GPUs of the node have one part number and one VBIOS. (F33)

    Another part number is another board, another VBIOS an update that stopped half way: clocks, power and fault
    handling differ. Rejected at delivery; later a warning, since a board that was replaced may work well with its own.
    """
    answers = answering(gpus, verdicts)
    otherwise = Verdict.FAIL if profile is Profile.DELIVERY else Verdict.WARN
    for quantity, read, action in (
        ("part number", attrgetter("part_number"), _WRONG_BOARD),
        ("VBIOS", attrgetter("vbios"), "update it to the version of the other GPUs"),
    ):
        usually = usual(read(gpu) for gpu in answers)
        for gpu in answers:
            if usually is None:
                absent = absence(quantity.replace(" ", "_").lower(), gpu, gpus, baseline)
                verdicts.unknown(part=gpu.part, quantity=quantity, reason=read(gpu), absent=absent)
                continue
            verdicts.equal(
                part=gpu.part,
                quantity=quantity,
                observed=read(gpu),
                expected=usually,
                action=action,
                otherwise=otherwise,
                code=quantity,
            )


def test_memory(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Every GPU has the memory of its model. (F33, F03)

    A smaller board ends a job with "out of memory" on one rank alone. Where no platform gives the size, it is that of
    most GPUs of the node.
    """
    answers = answering(gpus, verdicts)
    usually = usual((gibibytes(gpu.memory_total_bytes) for gpu in answers), "GiB")
    limit = baseline.find_number("gpu.memory_min_gib") or usually
    for gpu in answers:
        verdicts.at_least(
            part=gpu.part,
            quantity="device memory",
            observed=gibibytes(gpu.memory_total_bytes),
            limit=limit,
            action=_WRONG_BOARD,
        )


def test_listed(gpus: Gpus, verdicts: Verdicts) -> None:
    """NVML counts as many GPUs as it lists. (F02)

    Where the two differ one of them is wrong, and nothing is known of the GPUs between.
    """
    if gpus.source != "nvml":
        verdicts.not_done("the GPUs are listed by nvidia-smi, not by NVML")
    verdicts.equal(
        part=part.NODE,
        quantity="GPUs that NVML counts",
        observed=gpus.count,
        expected=len(gpus.devices),
        source="the GPUs that it lists",
        action="run nvidia-smi -L; reload the driver and measure again",
    )


def test_identity(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Each GPU has a UUID and a serial number of its own. (F33)

    One board that is listed twice hides that another is missing. GPUs on one board carry its serial number together
    (`gpu.per_board`); consumer cards have none.
    """
    answers = answering(gpus, verdicts)
    most = int(baseline.number("gpu.per_board").value)
    for gpu in answers:
        for name, read, allowed in (("UUID", attrgetter("uuid"), 1), ("serial number", attrgetter("serial"), most)):
            number = read(gpu)
            if name == "UUID" and not isinstance(number, Unknown) and not has_number(number):
                number = Unknown(Why.FAILED, "NVML gives an empty one")
            if isinstance(number, Unknown):
                absent = Verdict.ERROR if name == "UUID" else absence("serial_number", gpu, gpus, baseline)
                verdicts.unknown(part=gpu.part, quantity=name, reason=number, absent=absent)
                continue
            if not has_number(number):
                verdicts.lacking(part=gpu.part, text=f"has no {name}", quantity=name)
                continue
            same = [f"GPU {each.index}" for each in answers if read(each) == number]
            if len(same) > allowed:
                text = f"{', '.join(same)} have one {name}, {number}"
                verdicts.found(Verdict.FAIL, part=gpu.part, text=text, action=_COPY, code=name)
            else:
                verdicts.passed(part=gpu.part, text=f"has a {name}", quantity=name)
