"""What the checks say that only some contracts ask for, word for word."""

from fleet.changes import changes
from support.burning import BurnCase, every_window, refused
from support.cases import ERROR, FAIL, NOT_JUDGED, PASS, SKIP, asserting, of, unread
from support.judging import Case, plant

DMA_BUF = {"contract.gpudirect_dma_buf": True}
UNSET = {"contract.nccl_unset": "NCCL_ALGO NCCL_PROTO"}


def load(index, **values):
    return lambda found: every_window(found, index, **values)


@changes
def unsampled(found, index, quantity):
    samples = found["gpus"][index]["samples"]
    samples["unread"] = {quantity: unread("not supported", "NVML")}
    for window in samples["windows"]:
        window.pop(quantity, None)


def longer(found):
    for phase in found["phases"]:
        phase["seconds"] *= 2


CASES = of("contract.event_reasons")(
    BurnCase("the power cap, which is allowed", PASS),
    BurnCase("the power cap, where nothing is allowed", FAIL, limits={"contract.event_reasons_allowed": None}),
    BurnCase("heat for a fifth of the time", FAIL, load(3, reason_samples={"4": 5, "32": 1})),
    BurnCase("healthy: idle between two batches", PASS, load(3, reason_samples={"4": 3, "1": 2})),
    BurnCase("no burn", ERROR, refused),
    BurnCase("a GPU that does not report them", ERROR, unsampled(3, "event_reasons")),
    BurnCase("no limit", NOT_JUDGED, limits={"contract.event_reasons_percent": None}),
)
CASES += of("contract.temperature_spread")(
    BurnCase("equally warm", PASS),
    BurnCase("healthy: five degrees", PASS, load(3, temperature_c=[60, 67, 68])),
    BurnCase("eight degrees", FAIL, load(3, temperature_c=[66, 70, 71])),
    BurnCase("one GPU that was not read", ERROR, unsampled(3, "temperature_c")),
)
CASES += of("contract.temperature")(
    BurnCase("cool", PASS),
    BurnCase("hot", FAIL, load(3, temperature_c=[80, 84, 86])),
    BurnCase("no burn", ERROR, refused),
)
CASES += of("contract.burn_time")(
    BurnCase("a minute, where half of one is asked for", PASS),
    BurnCase("too short", SKIP, lambda found: [each.update(seconds=each["seconds"] / 2) for each in found["phases"]]),
    BurnCase("healthy: the second burn was long enough", PASS, again=(longer,)),
    BurnCase("no burn", ERROR, refused),
)


def proprietary(machine):
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025"
    machine.set("driver", "version", version)


def nccl_conf(*lines):
    return plant.set("environment", "nccl_conf", "\n".join(lines))


VERSION_UNREAD = plant.set("driver", "version", unread("denied", "/proc/driver/nvidia/version"))
CASES += of("contract.gpudirect")(
    Case("the open kernel module", PASS, limits=DMA_BUF),
    Case("peermem alone", FAIL, proprietary, limits=DMA_BUF),
    Case("peermem on an old kernel", FAIL, plant.set("system", "kernel_release", "5.10.0-34-amd64"), limits=DMA_BUF),
    Case("the type of the module was not read", ERROR, VERSION_UNREAD, limits=DMA_BUF),
)
CASES += of("contract.nccl_unset")(
    Case("nothing set", PASS, limits=UNSET),
    Case("healthy: another setting", PASS, nccl_conf("NCCL_DEBUG=INFO"), limits=UNSET),
    Case("an algorithm for every job", FAIL, nccl_conf("NCCL_ALGO=Ring"), limits=UNSET),
    Case("not read", ERROR, plant.set("environment", "nccl_conf", unread("denied", "/etc/nccl.conf")), limits=UNSET),
)


test_case = asserting(CASES)
