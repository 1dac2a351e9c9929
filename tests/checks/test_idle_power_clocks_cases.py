"""What the checks of processes, power, heat and clocks say, word for word, and what they must not call a fault."""

from fleet.changes import changes
from support.cases import ERROR, FAIL, FAILED, NOT_JUDGED, PASS, SKIP, UNSUPPORTED, WARN, asserting, of, unread
from support.judging import UNNAMED, Case, both, every_gpu, fails, gpu, plant

from nodegate.profile import Profile

BOOTCHECK = Profile.BOOTCHECK
DROPPED = unread("failed", "NVML 26: deprecated", nvml=26)
ANY_POWER = {"gpu.power_limit_w": None}
DAEMONS = (
    *("/usr/bin/nvidia-persistenced", "nvidia-persiste", "/usr/bin/nv-hostengine", "nvidia-cuda-mps-server"),
    *("/usr/bin/nvidia-imex", "dcgm-exporter"),
)


@changes
def process(machine, index, name, kind="compute", memory=21_000 << 20):
    entry = {"pid": 4711, "kind": kind, "memory_bytes": memory, "name": name}
    machine.sections["nvml"]["gpus"][index]["processes"].append(entry)


@changes
def readings(machine, *indices, **values):
    for index in indices or range(8):
        for key, value in values.items():
            machine.set_gpu(index, key, value)


@changes
def swap(machine, total, free):
    head = machine.sections["system"]["meminfo"].partition("SwapTotal")[0]
    machine.set("system", "meminfo", f"{head}SwapTotal: {total} kB\nSwapFree: {free} kB")


@changes
def empty(machine, section):
    machine.sections[section] = {}


CONTAINER = both(empty("netdev"), plant.set("system", "pid_namespace", "pid:[4026533101]"))
DESKTOP = both(process(2, "/usr/bin/gnome-shell", "graphics", 173 << 20), gpu(2, "memory_used_bytes", 211 << 20))
LOW_DEFAULT = readings(7, power_limit_mw=650_000, power_limit_default_mw=650_000)
AT_600_W = every_gpu("power_limit_mw", 600_000)
SLOWDOWN_TOLD = readings(temperature_margin_c=UNSUPPORTED, temperature_slowdown_c=89, temperature_c=33)
NO_TEMPERATURE = readings(4, temperature_margin_c=UNSUPPORTED, temperature_slowdown_c=89, temperature_c=FAILED)
LOW_CLOCKS = readings(sm_clock_app_mhz=1095, sm_clock_app_default_mhz=1095)
NO_SETTINGS = readings(sm_clock_app_mhz=UNSUPPORTED, memory_clock_app_mhz=UNSUPPORTED)
ONE_OF_EIGHT = gpu(3, "memory_clock_app_mhz", UNSUPPORTED)
CASES = of("idle.swap")(
    Case("used a little", PASS, swap(8_388_604, 8_000_000)),
    Case("full", WARN, swap(8_388_604, 12)),
    Case("memory was not read", ERROR, plant.set("system", "meminfo", unread("denied", "EACCES"))),
)
CASES += of("node.listed")(
    Case("no disk", WARN, empty("disks")),
    Case("no network device", WARN, empty("netdev")),
    Case("a container, whose network is virtual", PASS, CONTAINER),
    Case("nothing of its jobs", ERROR, empty("jobs")),
    Case("a disk hangs", ERROR, fails("disks", "timeout", "10 s")),
)
CASES += of("idle.processes")(
    Case("a process is left", FAIL, process(2, "/usr/bin/python3")),
    Case("a process without a name and of unknown memory", FAIL, process(2, "", memory=UNSUPPORTED)),
    Case("a desktop", WARN, process(2, "/usr/lib/xorg/Xorg", "graphics", 40 << 20)),
    Case("the daemons of the node", PASS, both(*(process(*each) for each in enumerate(DAEMONS)))),
    Case("a client of MPS is a job", FAIL, process(4, "python3", "mps")),
    Case("a load of DCGM is no daemon", FAIL, process(4, "dcgmproftester12")),
    Case("the processes cannot be listed", ERROR, gpu(2, "processes", FAILED)),
)
CASES += of("idle.memory")(
    Case("memory in use with no process in sight", FAIL, gpu(5, "memory_used_bytes", 30 << 30)),
    Case("what MIG keeps for its instances", PASS, every_gpu("memory_used_bytes", 59 << 20)),
    Case("a desktop's memory belongs to its processes", PASS, DESKTOP),
    Case("memory in use is not told", ERROR, every_gpu("memory_used_bytes", UNSUPPORTED)),
)

CASES += of("power.limit")(
    Case("lowered", FAIL, gpu(7, "power_limit_mw", 500_000)),
    Case("the board's own default is below the platform's", FAIL, LOW_DEFAULT),
    Case("lowered on a platform without a limit of its own", FAIL, gpu(7, "power_limit_mw", 500_000), limits=ANY_POWER),
    Case("lowered on purpose by the site", PASS, AT_600_W, limits={"gpu.power_limit_w": 600}),
    Case("a card that tells no power", SKIP, every_gpu("power_limit_mw", UNSUPPORTED), limits=UNNAMED),
    Case("the limit could not be read", ERROR, gpu(7, "power_limit_mw", FAILED)),
)
CASES += of("power.enforced")(Case("held down from outside", FAIL, gpu(1, "power_limit_enforced_mw", 350_000)))
CASES += of("power.draw")(
    Case("the sensor reads nothing", WARN, gpu(1, "power_mw", 0), limits={"gpu.power_draw_min_w": 65}),
    Case("the sensor reads too much", WARN, gpu(1, "power_mw", 1_900_000)),
    Case("the sensor cannot be read", ERROR, gpu(1, "power_mw", FAILED)),
    Case("healthy: under load, at its limit and a little over it", PASS, gpu(1, "power_mw", 731_000)),
    Case("healthy: a board without a sensor", SKIP, every_gpu("power_mw", UNSUPPORTED)),
)
CASES += of("power.temperature")(
    Case("near the slowdown", WARN, gpu(4, "temperature_margin_c", 3)),
    Case("at the limit, as a hot GPU under full load is held", WARN, gpu(4, "temperature_margin_c", 0)),
    Case("past the limit", FAIL, gpu(4, "temperature_margin_c", -3)),
    Case("a board before Hopper says its slowdown temperature", PASS, SLOWDOWN_TOLD),
    Case("a card that tells neither", SKIP, every_gpu("temperature_margin_c", UNSUPPORTED), limits=UNNAMED),
    Case("the temperature could not be read", ERROR, NO_TEMPERATURE),
)

CASES += of("clocks.sm_max")(
    Case("below the model's", FAIL, gpu(3, "sm_clock_max_mhz", 1755)),
    Case("an idle GPU runs low, which is no fault", PASS, every_gpu("sm_clock_mhz", 210)),
    Case("not told", ERROR, gpu(3, "sm_clock_max_mhz", UNSUPPORTED)),
    Case("a platform without this limit", NOT_JUDGED, limits={"gpu.sm_clock_max_mhz": None}),
)
CASES += of("clocks.memory_max")(Case("below the model's", FAIL, gpu(3, "memory_clock_max_mhz", 1593)))
CASES += of("clocks.application")(
    Case("left low by a measurement", FAIL, gpu(3, "sm_clock_app_mhz", 1200)),
    Case("the board's default is itself below its highest clock (A100-40GB)", PASS, LOW_CLOCKS),
    Case("driver 595 dropped these settings", SKIP, readings(sm_clock_app_mhz=DROPPED, memory_clock_app_mhz=DROPPED)),
    Case("driver 595 dropped these settings, told as not supported", SKIP, NO_SETTINGS),
    Case("the memory's setting is not reported by one GPU of eight", ERROR, ONE_OF_EIGHT),
    Case("the setting could not be read", ERROR, gpu(3, "sm_clock_app_mhz", FAILED)),
)

CASES += of("clocks.event_reasons")(
    Case("under full load the power cap holds it, which is no fault", PASS, every_gpu("event_reasons", 0x4)),
    Case("application clocks are set, which is no fault here", PASS, every_gpu("event_reasons", 0x2)),
    Case("the power supply brakes", FAIL, gpu(6, "event_reasons", 0x88), profile=BOOTCHECK),
    Case("heat, by the hardware", FAIL, gpu(6, "event_reasons", 0x48), profile=BOOTCHECK),
    Case("heat, by the driver, at delivery", FAIL, gpu(6, "event_reasons", 0x24)),
    Case("heat, by the driver, before a job", WARN, gpu(6, "event_reasons", 0x24), profile=BOOTCHECK),
    Case("a reason that a later driver has", WARN, gpu(6, "event_reasons", 0x800)),
    Case("the board's own limit", WARN, gpu(6, "event_reasons", 0x200)),
    Case("the voltage limit for reliability", PASS, every_gpu("event_reasons", 0x400)),
    Case("not told", SKIP, every_gpu("event_reasons", UNSUPPORTED), limits=UNNAMED),
    Case("could not be read", ERROR, gpu(6, "event_reasons", FAILED)),
)
CASES += of("clocks.violations")(
    Case("was slowed by heat", WARN, gpu(6, "violation_ns.thermal", 12_500_000_000)),
    Case("the counters are not told", SKIP, every_gpu("violation_ns", UNSUPPORTED)),
)


test_case = asserting(CASES)
