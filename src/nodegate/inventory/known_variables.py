"""Which variables mean something here, which are secrets, and which look like typing errors."""

import re
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache

from nodegate.node_settings.table import KNOWN, PREFIX

USED = (
    *sorted(PREFIX + name for name in KNOWN),
    *("ansible_become", "ansible_become_method", "ansible_connection", "ansible_user", "ansible_ssh_user"),
    "ansible_become_user",  # only for a note: nodegate can only become root
    *("ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port"),
    *("ansible_host_key_checking", "ansible_ssh_host_key_checking", "ansible_python_interpreter"),
    *("ansible_private_key_file", "ansible_ssh_private_key_file", "ansible_ssh_retries", "ansible_ssh_timeout"),
    *("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args"),
)

# Ansible's own names that are similar to one of those above and have no meaning here.
OTHERS = frozenset(
    f"ansible_{name}"
    for name in ("become_exe", "become_flags", "hostname", "users", "user_dir", "user_gid", "user_id", "user_uid")
)

_SECRET = re.compile(r"ansible_(?:\w+_)?(?:pass|password|passphrase)|ansible_(?:ssh_)?private_key")
_PREFIXES = ("ansible", "nodegate")


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether this is one of Ansible's variables for passwords and keys."""
    return bool(_SECRET.fullmatch(name))


@lru_cache(maxsize=4096)
def probably_meant(name: str) -> str:
    """The variable that was probably meant by an unknown name; "" when the name is known or similar to none."""
    if name in USED or name in OTHERS or is_secret(name):
        return ""
    prefix, _, rest = name.replace("-", "_").partition("_")
    if not rest or len(name) > 80:
        return ""
    near = next((word for word in _PREFIXES if SequenceMatcher(None, prefix, word).ratio() > 0.8), "")
    if not near:
        return ""
    meant = next(iter(get_close_matches(f"{near}_{rest}", USED, n=1, cutoff=0.9)), "")
    if meant or name.startswith(f"{near}_"):
        return meant
    return f"{near}_{rest}" if near == "nodegate" else ""
