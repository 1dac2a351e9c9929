"""The real `ansible-inventory` beside this interpreter, as the judge of what an inventory means."""

import json
import os
import subprocess
import sys
from pathlib import Path


def program():
    """The ansible-inventory of the test dependencies; a test that needs it fails without it."""
    path = Path(sys.executable).parent / "ansible-inventory"
    assert path.exists(), f"{path} is missing: install the `test` dependency group (ansible-core)"
    return path


def listing(sources, home, limit="all"):
    """What `ansible-inventory --list` says of these sources, with no configuration of this machine."""
    settings = home / "ansible.cfg"
    settings.write_text("[defaults]\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ANSIBLE_CONFIG": str(settings),
        "ANSIBLE_LOCAL_TEMP": str(home / "tmp"),
        "LC_ALL": "C.UTF-8",
    }
    arguments = [word for source in sources for word in ("-i", source)]
    argv = [str(program()), *arguments, "--list", "--limit", limit]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment, cwd=home)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def hostvars(data):
    """The merged variables of every host, those without any included."""
    found = dict.fromkeys(sorted(members(data, "all")), None)
    return {name: data["_meta"]["hostvars"].get(name, {}) for name in found}


def members(data, group):
    """The hosts of a group and of its children."""
    body = data.get(group, {})
    return set(body.get("hosts", [])).union(*(members(data, child) for child in body.get("children", [])))
