"""What the checks of processes, power, heat, clocks and ECC say, word for word, and what they must not call a fault."""

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


# Device memory: 600 remapped rows never pass, MIG and old boards may
def without_ecc(machine):
    """A gaming card: neither ECC nor row remapping."""
    for key in ("ecc_mode", "ecc", "sram_threshold_exceeded", "remapped_rows", "remap_histogram"):
        every_gpu(key, UNSUPPORTED)(machine)


@changes
def before_ampere(machine, *, single=0, double=0, pending=False):
    """Retired pages instead of remapped rows; the faulty one is GPU 2."""
    for key in ("remapped_rows", "remap_histogram", "sram_threshold_exceeded"):
        every_gpu(key, UNSUPPORTED)(machine)
    every_gpu("retired_pages", [0, 0])(machine)
    every_gpu("retired_pending", False)(machine)
    machine.set_gpu(2, "retired_pages", [single, double])
    machine.set_gpu(2, "retired_pending", pending)


ANY_ECC = {"gpu.ecc": None}
OFF = every_gpu("ecc_mode", [0, 0])
MILLIONS = gpu(4, "ecc.volatile_uncorrected", 19_999_999)
MIG = both(every_gpu("mig_mode", [1, 1]), every_gpu("ecc.volatile_uncorrected", UNSUPPORTED))
NO_FLAG = every_gpu("sram_threshold_exceeded", unread("missing", "function not found"))
NO_SRAM_COUNT = every_gpu("ecc.aggregate_sram_uncorrected", UNSUPPORTED)
CASES += of("ecc.enabled")(
    Case("off on one", FAIL, gpu(1, "ecc_mode", [0, 0])),
    Case("a change waits for a reset", WARN, gpu(1, "ecc_mode", [1, 0])),
    Case("a platform with ECC whose GPU does not tell", ERROR, gpu(1, "ecc_mode", UNSUPPORTED)),
    Case("a gaming card, of which nothing says that it should have ECC", SKIP, without_ecc, limits=ANY_ECC | UNNAMED),
    Case("a gaming card with ECC off, of which nothing says that it should be on", PASS, OFF, limits=ANY_ECC),
)

CASES += of("ecc.volatile")(
    Case("one", FAIL, gpu(4, "ecc.volatile_uncorrected", 1)),
    Case("fewer than the 20,000,000 that another suite lets pass", FAIL, MILLIONS),
    Case("corrected errors are the work of ECC", PASS, every_gpu("ecc.volatile_corrected", 4_000)),
    Case("ECC on and no counter", ERROR, gpu(4, "ecc.volatile_uncorrected", UNSUPPORTED)),
    Case("MIG on: the whole GPU has no counter", SKIP, MIG),
    Case("a gaming card", SKIP, without_ecc, limits=UNNAMED),
)
CASES += of("ecc.lifetime")(
    Case("some, long ago", WARN, gpu(4, "ecc.aggregate_uncorrected", 3)),
    Case("very many corrected", WARN, gpu(4, "ecc.aggregate_corrected", 10_000_000)),
    Case("the corrected ones could not be read", ERROR, gpu(4, "ecc.aggregate_corrected", FAILED)),
    Case("the counter could not be read", ERROR, gpu(4, "ecc.aggregate_uncorrected", FAILED)),
)

CASES += of("ecc.sram_threshold")(
    Case("flag up", FAIL, gpu(4, "sram_threshold_exceeded", True)),
    Case("a driver without the flag", SKIP, NO_FLAG, limits=UNNAMED),
    Case("the flag could not be read", ERROR, gpu(4, "sram_threshold_exceeded", FAILED)),
)
CASES += of("ecc.sram")(
    Case("as many as are allowed", PASS, gpu(4, "ecc.aggregate_sram_uncorrected", 4)),
    Case("one more", FAIL, gpu(4, "ecc.aggregate_sram_uncorrected", 5)),
    Case("a board before Turing does not count SRAM by itself", SKIP, NO_SRAM_COUNT, limits=UNNAMED),
    Case("the SRAM counter could not be read", ERROR, gpu(4, "ecc.aggregate_sram_uncorrected", FAILED)),
)

CASES += of("ecc.remap_pending")(
    Case("a remap waits for a reset", FAIL, gpu(5, "remapped_rows", [0, 1, 1, 0])),
    Case("a remap failed", FAIL, gpu(5, "remapped_rows", [0, 12, 0, 1])),
    Case("a card without row remapping", SKIP, without_ecc, limits=UNNAMED),
    Case("it could not be read", ERROR, gpu(5, "remapped_rows", FAILED)),
)
CASES += of("ecc.remapped_rows")(
    Case("511 rows", PASS, gpu(5, "remapped_rows", [0, 511, 0, 0])),
    Case("512 rows", FAIL, gpu(5, "remapped_rows", [0, 512, 0, 0])),
    Case("600 rows for uncorrectable errors, none for correctable ones", FAIL, gpu(5, "remapped_rows", [0, 600, 0, 0])),
    Case("600 rows for correctable errors are no fault", PASS, gpu(5, "remapped_rows", [600, 0, 0, 0])),
    Case("no limit", NOT_JUDGED, limits={"gpu.remapped_rows_uncorrectable_max": None}),
)
CASES += of("ecc.remapped_rows_new")(Case("a board with history", WARN, gpu(5, "remapped_rows", [1, 2, 0, 0])))
CASES += of("ecc.spare_rows")(
    Case("banks with few left are no fault yet", PASS, gpu(5, "remap_histogram", [2550, 4, 4, 2, 0])),
    Case("a bank with none left", FAIL, gpu(5, "remap_histogram", [2559, 0, 0, 0, 1])),
    Case("the histogram is not whole", ERROR, gpu(5, "remap_histogram", [2559, 0])),
)

CASES += of("ecc.retired_pages")(
    Case("none", PASS, before_ampere()),
    Case("one waits for a reset", FAIL, before_ampere(pending=True)),
    Case("61 of both kinds", PASS, before_ampere(single=56, double=5)),
    Case("63 of both kinds", FAIL, before_ampere(single=60, double=3)),
    Case("16 for double bit errors", WARN, before_ampere(double=16)),
    Case("whether one waits is not told", ERROR, before_ampere(pending=FAILED)),
)


test_case = asserting(CASES)
