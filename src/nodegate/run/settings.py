"""What the user asked for, from the command line, before anything is read or contacted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nodegate.history import DEFAULT
from nodegate.profile import Profile

if TYPE_CHECKING:
    from pathlib import Path

HostKeys = Literal["strict", "accept-new", "off"]


@dataclass(frozen=True)
class Settings:
    """The options of one run, in the user's own words."""

    inventory: tuple[str, ...] = ()
    nodes: str = ""  # --nodes: a pattern; empty: all
    profile: Profile | None = None  # --profile; None: as the earlier run, or delivery
    baselines: tuple[Path, ...] = ()
    run_dir: Path | None = None
    replay: Path | None = None
    resume: Path | None = None
    waivers: Path | None = None
    host_keys: HostKeys = "strict"
    known_hosts: Path | None = None
    ssh_config: Path | None = None
    nodes_at_once: int = 64
    load: bool | None = None  # --active, --passive; None: as the profile has it
    burn: str = ""  # --burn: a time; empty: as the earlier run, or as the profile has it
    hang_after: str = ""  # --hang-after: a time; empty: as the earlier run, or as the profile has it
    pairs: str = ""  # --pairs: few or all; empty: as the earlier run, or few
    tools: Path | None = None  # --tools; None: those of the run that is resumed, or none
    job_logs: tuple[str, ...] = ()  # --job-log: for profile troubleshoot
    history: Path = DEFAULT  # --history

    @property
    def passive(self) -> bool:
        """Whether the run leaves out what must be measured under load: before a job and after one, unless asked for."""
        quiet = self.profile in (Profile.BOOTCHECK, Profile.TROUBLESHOOT)
        return quiet if self.load is None else not self.load

    @property
    def active(self) -> bool:
        """Whether this is a run of ours at all; without it the plugin is inert."""
        return bool(self.inventory or self.replay or self.resume)
