"""The user's options from the command line, before anything is read or contacted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nodegate.errors import UsageError
from nodegate.files.bounded import read_whole
from nodegate.measure.durations import Durations, durations_of
from nodegate.past.record import DEFAULT
from nodegate.profile import Profile

if TYPE_CHECKING:
    from nodegate.job.prometheus import Access

HostKeys = Literal["strict", "accept-new", "off"]
_MOST_BYTES = 64 << 20  # of a file of ssh
QUIET = (Profile.BOOTCHECK, Profile.TROUBLESHOOT)  # these put load on the nodes only with --active


@dataclass(frozen=True)
class Settings:
    """The options of one run, as the user gave them."""

    inventory: tuple[str, ...] = ()
    nodes: str = ""  # --nodes: a pattern; empty: all
    profile: Profile | None = None  # --profile; None: as in the earlier run, or delivery
    baselines: tuple[Path, ...] = ()
    policy: str = ""  # --policy: a name or a file; empty: as in the run that is resumed, or the default
    site: Path | None = None  # --site; None: nodegate_site, or site.yaml beside the inventory
    checks: tuple[Path, ...] = ()  # the site's own check files
    run_dir: Path | None = None
    replay: Path | None = None
    resume: Path | None = None
    waivers: Path | None = None
    host_keys: HostKeys | None = None  # --host-keys; None: as the inventory and SSH configuration say, or strict
    known_hosts: Path | None = None
    ssh_config: Path | None = None
    nodes_at_once: int = 64
    load: bool | None = None  # --active, --passive; None: as in the profile
    burn: str = ""  # --burn: a time; empty: as in the earlier run, or as in the profile
    hang_after: str = ""  # --hang-after: a time; empty: as in the earlier run, or as in the profile
    pairs: str = ""  # --pairs: few or all; empty: as in the earlier run, or few
    tools: Path | None = None  # --tools; None: those of the run that is resumed, or none
    job_logs: tuple[str, ...] = ()  # --job-log: for profile troubleshoot
    metrics: Access | None = None  # --metrics: for profile troubleshoot
    record: Path = DEFAULT  # --record
    notices: tuple[str, ...] = ()  # --notice
    lang: str = ""  # --lang; empty: the first of the site file, or as in the earlier run, or English
    all_results: bool = False  # --all-results: the files that hold every healthy device too

    @property
    def passive(self) -> bool:
        """Whether the run skips what must be measured under load: before a job and after one, unless requested."""
        return self.profile in QUIET if self.load is None else not self.load

    def check(self) -> None:
        """Refuse what no run could use, before anything is read or contacted.

        Raises:
            UsageError: a number that is too small, a file that cannot be read, or a time that is none.
        """
        if self.nodes_at_once < 1:
            raise UsageError(
                f"--nodes-at-once {self.nodes_at_once}: at least one node at a time", hint="write 1 or more"
            )
        self._check_files()
        self.durations(self.profile or Profile.DELIVERY)

    def durations(self, profile: Profile) -> Durations:
        """How long each measurement of a run with this profile may take.

        Raises:
            UsageError: --burn or --hang-after is not a time.
        """
        return durations_of(profile, burn=self.burn, hang_after=self.hang_after, all_pairs=self.pairs == "all")

    def _check_files(self) -> None:
        if self.ssh_config is not None:
            _readable(self.ssh_config, "--openssh-config", "give a file like ~/.ssh/config, or leave the option out")
        if self.known_hosts is None:
            return
        if self.host_keys == "accept-new" and not self.known_hosts.exists():  # it is created when a key is accepted
            if not self.known_hosts.parent.is_dir():
                hint = "create that folder, or give another"
                raise UsageError("--known-hosts: its folder is missing", file=str(self.known_hosts), hint=hint)
            return
        hint = "give a file of host keys, or use --host-keys accept-new to create it"
        _readable(self.known_hosts, "--known-hosts", hint)

    @property
    def active(self) -> bool:
        """Whether this is a run of nodegate at all; otherwise the plugin is inert."""
        return bool(self.inventory or self.replay or self.resume)


def _readable(file: Path, option: str, hint: str) -> None:
    try:
        read_whole(file, _MOST_BYTES)  # and again for the nodes: a pipe could be read once
    except OSError as broken:
        raise UsageError(f"{option}: {broken.strerror}", file=str(file), hint=hint) from None
