"""Defects of other checkers' limits: files that do not load, units that are off, gates that hold nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.shipped import shipped

from nodegate.baseline import baseline_file
from nodegate.baseline.baseline import Baselines
from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.files.paths import suite_folder

if TYPE_CHECKING:
    from pathlib import Path

FILES = sorted(suite_folder("baselines").glob("*.yaml"))
ALL = [
    (file.stem, each)
    for file in FILES
    for entry in baseline_file.read(file).limits.values()
    for each in entry.variants or (entry,)
]
HELD_TO_A_PEAK = [(platform, entry) for platform, entry in ALL if entry.peak is not None and entry.value is not None]
SHIPPED = shipped()
# Boards with limits of their own; of the newest little is published yet.
OF_EIGHT = sorted(
    file.stem
    for file in FILES
    if file.stem.endswith("-8") and not baseline_file.read(file).like and "b300" not in file.stem
)
GATES_THAT_MATTER = {
    "gpu.count",
    "gpu.ecc",
    "nvlink.count",
    "fabric.required",
    "burn.bf16_tflops",
    "memory.host_to_device_gb_per_s",
    "memory.device_to_host_gb_per_s",
    "memory.peer_gb_per_s",
    "nccl.nvls",
    "nccl.all_reduce_gb_per_s",
    "nccl.all_reduce_ring_gb_per_s",
    "nccl.all_gather_gb_per_s",
    "nccl.reduce_scatter_gb_per_s",
    "nccl.alltoall_gb_per_s",
}


class TestAFileThatDoesNotLoad:
    """superbench's only H100 configuration names a YAML alias that is not defined: nobody had loaded it."""

    @pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
    def test_every_shipped_file_loads(self, file: Path) -> None:
        read = baseline_file.read(file)
        assert read.limits or read.like

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("platform: ours\nlimits:\n  gpu.count: *default_count\n", r"ours\.yaml:3: .*default_count"),
            ("platform: ours\nlimits:\n\tgpu.count: {}\n", r"ours\.yaml:3: .*indent with spaces"),
            ("platform: ours\nlimits:\n  gpu.count: {value: 8\n", r"ours\.yaml:[34]: this is not YAML"),
            ("platform: ours\nlimits:\n  gpu.count: {value: !!python/object:os.system x}\n", r"ours\.yaml:3: "),
            ("", r"ours\.yaml:1: a baseline file must be a mapping"),
        ],
    )
    def test_one_that_does_not_is_one_clear_error_with_file_and_line(
        self, tmp_path: Path, text: str, message: str
    ) -> None:
        file = tmp_path / "ours.yaml"
        file.write_text(text)
        with pytest.raises(UsageError, match=message) as problem:
            Baselines.read([file])
        assert len(str(problem.value).splitlines()) == 1


class TestAValueThatIsOffByAThousand:
    """DCGM holds an H200 to 2333 MB/s of memory bandwidth, where 3,500,000 are measured: it never fails."""

    def test_the_number_itself_is_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "h200.yaml"
        file.write_text(
            "platform: hgx-h200-8\nlimits:\n  memory.device_gb_per_s:\n"
            "    {value: 2.333, unit: GB/s, direction: at least, peak: 4800, source: nvvs/diag-skus.yaml.in}\n"
        )
        message = r"h200\.yaml:4: memory\.device_gb_per_s: 2\.333 GB/s is less than a fifth of its peak of 4800"
        with pytest.raises(UsageError, match=message):
            Baselines.read([file])

    @pytest.mark.parametrize("factor", [1000, 0.001, 8, 0.125])
    def test_no_shipped_value_could_be_so(self, factor: float) -> None:
        """A thousand: MB for GB. Eight: bits for bytes."""
        for platform, entry in HELD_TO_A_PEAK:
            text = (
                f"platform: p\nlimits:\n  {entry.key}:\n    {{value: {entry.value * factor:.6f}, peak: {entry.peak}, "  # type: ignore[operator]
            )
            loaded = strict_yaml.load(f'{text}unit: "{entry.unit}", direction: at least, source: slip}}\n', platform)
            with pytest.raises(UsageError, match=r":4: .*(less than a fifth of its peak|the peak is what nothing)"):
                baseline_file.parse(loaded)

    def test_every_rate_that_is_shipped_has_a_peak_to_be_held_to(self) -> None:
        rates = [each for each in ALL if each[1].key.startswith(("burn.", "memory.", "nccl."))]
        bare = [each for each in rates if each[1].key.endswith(("_tflops", "_gb_per_s")) and each[1].peak is None]
        assert bare == []


class TestAGateThatHoldsNothing:
    """NVSentinel passes an all_reduce of 100 GB/s where 480 are measured; oci-dr-hpc checks nothing on a B200."""

    @pytest.mark.parametrize("platform", OF_EIGHT)
    def test_every_board_with_eight_gpus_has_the_gates_that_matter(self, platform: str) -> None:
        assert GATES_THAT_MATTER - SHIPPED.platforms[platform].limits.keys() == set()

    def test_there_are_the_boards_that_matter(self) -> None:
        boards = {"a100-40gb", "a100-80gb", "a800", "h100", "h800", "h20", "h200", "b200"}
        assert set(OF_EIGHT) == {f"hgx-{board}-8" for board in boards}

    @pytest.mark.parametrize("platform", OF_EIGHT)
    def test_none_is_looser_than_a_tenth_below_the_typical_value(self, platform: str) -> None:
        held = [entry for name, entry in HELD_TO_A_PEAK if name == platform]
        assert len(held) > 9
        loose = [entry.key for entry in held if entry.limit.value < 0.9 * entry.value - 1e-9]  # type: ignore[operator]
        assert loose == []

    @pytest.mark.parametrize(
        ("platform", "loose"), [("hgx-h100-8", 150), ("hgx-h200-8", 100), ("hgx-b200-8", 440), ("hgx-a100-80gb-8", 185)]
    )
    def test_what_other_gates_let_pass_fails_here(self, platform: str, loose: float) -> None:
        entry = SHIPPED.platforms[platform].limits["nccl.all_reduce_gb_per_s"]
        assert all(loose < each.limit.value for each in entry.variants)  # type: ignore[operator]
