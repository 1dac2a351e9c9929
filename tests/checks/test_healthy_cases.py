"""What each check of facts says of a healthy node, word for word: an HGX H100 of which the inventory says nothing."""

from support.cases import NOT_JUDGED, PASS, SKIP, asserting
from support.judging import Case

from nodegate import suite
from nodegate.measure.registry import is_active

# What has no limit there, nobody asked for, or takes more nodes.
NO_LIMIT = ("contract.gpudirect", "contract.nccl_unset", "drift.same_as_fleet", "gsp.fleet", "host.memory_size")
NOT_HERE = dict.fromkeys(NO_LIMIT, NOT_JUDGED) | dict.fromkeys(
    (
        *("ecc.retired_pages", "fabric.imex", "fabric.imex_domain", "fabric.one_domain", "fabric.summary"),
        *("gpu.recovery_action", "host.mounts", "host.ports", "lemons.fails_again", "nvlink.bit_errors"),
        *("ordered.parts", "ordered.serials", "ordered.settings", "ordered.versions", "platform.serial"),
        *("rdma.gid_index", "rdma.gids", "rdma.mtu", "software.required", "upkeep.written"),
    ),
    SKIP,
)
CASES = tuple(
    Case("healthy", NOT_HERE.get(check.id, PASS), check=check.id)
    for check in suite.checks()
    if not is_active(check.asks_for)
)


test_case = asserting(CASES)
