"""What became of a small file that was written, read back and removed in folders of the site. Section `storage`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodegate.probe import readings as read
from nodegate.unknown import Known, Unknown, Why, unread

_ASKED = re.compile(r"(?P<mount>/.{0,299}?):write(?:=(?P<folder>/[^\0]{0,299}))?")


def split(asked: str) -> tuple[str, str]:
    """The mount that an entry of `nodegate_mounts` names, and the folder in which it asks to write; empty: in none.

    "/lustre:write=/lustre/nodegate", or "/lustre:write" for the mount itself; any other word after it is part of its
    name.
    """
    found = _ASKED.fullmatch(asked)
    return (found["mount"], found["folder"] or found["mount"]) if found else (asked, "")


def folders_of(asked: Iterable[str]) -> list[str]:
    """The folders in which `nodegate_mounts` asks to write."""
    return [folder for each in asked if (folder := split(each)[1])]


@dataclass(frozen=True)
class Written:
    """A file of 4 MiB: how long it took to write and to read it back, in seconds, and whether it was the same."""

    write_s: float
    read_s: float
    same: bool


@dataclass(frozen=True)
class Storage:
    """By folder, or why it could not be written; `otherwise` is why nothing is known of any other."""

    folders: Mapping[str, Known[Written]]
    otherwise: Unknown

    def of(self, folder: str) -> Known[Written]:
        """What became of the file in a folder."""
        return self.folders.get(folder, self.otherwise)


def parse(found: Known[Mapping[str, object]]) -> Storage:
    """The data of section `storage`; evidence of an older probe has none, which matters where a folder is asked for."""
    if isinstance(found, Unknown):
        return Storage({}, Unknown(Why.NOT_SUPPORTED, f"the probe did not write there: {found}"))
    folders = {name: _written(read.mapping(found, name)) for name in found}
    return Storage(folders, Unknown(Why.NOT_SUPPORTED, "the probe did not write there"))


def _written(data: Known[Mapping[str, object]]) -> Known[Written]:
    if isinstance(data, Unknown):
        return data
    took, read_in, same = read.number(data, "write_s"), read.number(data, "read_s"), read.flag(data, "same")
    if isinstance(took, Unknown) or isinstance(read_in, Unknown) or isinstance(same, Unknown):
        return Unknown(Why.IMPLAUSIBLE, f"it is not said what became of it: {unread(took, read_in, same)}")
    return Written(took, read_in, same)
