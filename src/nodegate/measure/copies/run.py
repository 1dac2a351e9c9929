"""Memory and copies of GPUs: to and from the host, inside each GPU, and between them; the data compared afterwards.

nodegate's own program needs only the driver on the node. If nvbandwidth is installed and the run is a delivery, it
runs too: a program by others that should come to the same answer.
"""

from nodegate.measure.copies.result import OTHER, OWN, parse
from nodegate.measure.durations import Durations
from nodegate.measure.measurement import Measurement, Target, no_gpus, on_each_node, suspects_alone
from nodegate.measure.own_program import run_another, run_own
from nodegate.node_side.load import copies as program
from nodegate.node_side.load import copying
from nodegate.records.program_run import ProgramRun

CASES = ("host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_to_device_memcpy_write_ce")
OTHER_LIMIT_S = 300.0

_ALL_PAIRS_FROM_S = 20.0  # with this many seconds of copies for each GPU there is time for every pair of GPUs
_PAIRS_FROM_S = 8.0  # below it there is no time for pairs
_PATTERNS_WITHIN_S = 60.0  # all memory, by patterns: 5 to 10 s on good GPUs, whose speed grows with their size
_PATTERNS_S = 10.0
_USUAL_GPUS, _MOST_GPUS = 8, 16
_START_S = 15.0
_END_S = 30.0


def copies_of(target: Target) -> tuple[ProgramRun, ...]:
    """Copy on all GPUs of a node with nodegate's program, then with nvbandwidth if installed and the run is long."""
    options = options_for(target.durations)
    own = run_own(
        target,
        OWN,
        options=options._asdict(),
        purpose="copies to, from and between the GPUs and compares what arrived; writes nothing to disk.",
        timeout_s=program.limit_s(options, len(target.facts.known_gpus) or _MOST_GPUS) + _END_S,
    )
    if target.durations.copies_s < _ALL_PAIRS_FROM_S or own.exit_code != 0 or own.stuck:
        return (own,)
    in_nvmls_order = ("env", "CUDA_DEVICE_ORDER=PCI_BUS_ID")
    modes = {"": ("-j", "-t", *CASES)}
    return (own, *run_another(target, OTHER, modes, before=in_nvmls_order, timeout_s=OTHER_LIMIT_S))


def options_for(durations: Durations) -> copying.Options:
    """The options of the program: all pairs of GPUs in a long run, a ring of them in a shorter one."""
    seconds = durations.copies_s
    pairs = "all" if seconds >= _ALL_PAIRS_FROM_S else "ring" if seconds >= _PAIRS_FROM_S else "none"
    whole = pairs == "all"
    return copying.Options(
        seconds=seconds, peers=pairs, pattern_s=_PATTERNS_WITHIN_S if whole else 0.0, both_ways=whole
    )


def takes_s(durations: Durations) -> float:
    """About how long it takes on a node of eight GPUs, without nvbandwidth."""
    whole = options_for(durations).both_ways
    in_turn = (2 * copying.HOST_SHARE + (copying.BOTH_SHARE if whole else 0.0)) * _USUAL_GPUS
    inside = copying.DEVICE_SHARE + copying.KERNELS * copying.KERNEL_SHARE
    patterns_s = _PATTERNS_S if whole else 0.0
    return durations.copies_s * (in_turn + inside + 2 * copying.HOST_SHARE + copying.PEER_SHARE) + patterns_s + _START_S


COPIES = Measurement(
    name="gpu_copies",
    stage="gpu",
    applies=no_gpus,
    rests_on=("gpu.lost",),
    measure=on_each_node(copies_of),
    again=suspects_alone(on_each_node(copies_of)),
    alone=True,
    parse=parse,
    takes_s=takes_s,
)
