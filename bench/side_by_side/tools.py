"""How each tool asks the nodes, and what it does not do."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.side_by_side.measured import NotMeasured, Run, measure

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.side_by_side.nodes import Nodes
    from bench.side_by_side.peers import Peers

ASKED = Path(__file__).parent / "asked"
QUESTIONS = ASKED / "questions.sh"
HOW_MANY = sum(line.startswith("is ") for line in QUESTIONS.read_text().splitlines())
CONNECTIONS = 64  # at a time, for each tool that has the setting; nodegate's default


@dataclass(frozen=True)
class Asked:
    """One question to a fleet: a folder of the run's own, the nodes and where the peers are."""

    folder: Path
    nodes: Nodes
    peers: Peers

    @property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [node.name for node in self.nodes.nodes]

    def ssh_config(self) -> Path:
        """For every tool that runs ssh: keys, port and addresses, and nothing of this user's own."""
        first = self.nodes.nodes[0].connection
        lines = [
            f"Host {node.name}\n  HostName {node.address}\n  HostKeyAlias [{node.address}]:{self.nodes.port}"
            for node in self.nodes.nodes
        ]
        lines += [
            "Host *",
            f"  Port {self.nodes.port}",
            f"  User {self.nodes.user}",
            f"  IdentityFile {first.key_files[0]}",
            f"  UserKnownHostsFile {self.nodes.known_hosts}",
            "  GlobalKnownHostsFile none",
            "  IdentityAgent none",
            "  IdentitiesOnly yes",
            "  BatchMode yes",
            "  ConnectTimeout 60",
            "  LogLevel ERROR",
        ]
        file = self.folder / "ssh_config"
        file.write_text("\n".join(lines) + "\n")
        return file


@dataclass(frozen=True)
class Tool:
    """A way to ask: what it does, what not, and how its output names the nodes that fail.

    `found` None: it has no verdict, so nothing is found.
    """

    name: str
    does: str
    lacks: str
    ask: Callable[[Asked], Run]
    found: Callable[[Run], set[str]] | None

    def run(self, asked: Asked) -> Run:
        """Ask, and see that it found the one broken node and no other.

        Raises:
            NotMeasured: it is not here, or did not find what is wrong.
        """
        done = self.ask(asked)
        if self.found is not None and self.found(done) != {asked.nodes.broken}:
            raise NotMeasured(f"it named {sorted(self.found(done))} as broken: {done.said[-600:]}")
        return done


def _nodegate(asked: Asked) -> Run:
    (asked.folder / "hosts.yaml").write_text(asked.nodes.inventory())
    words = ("-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", "--inventory", "hosts.yaml", "--passive")
    done = measure([sys.executable, *words], asked.folder, COLUMNS="200", PY_COLORS="0")
    if f"of {len(asked.names)} nodes" not in done.said.replace(",", ""):
        raise NotMeasured(f"it did not judge {len(asked.names)} nodes: {done.said[-300:]}")
    return done


def _testinfra(asked: Asked) -> Run:
    hosts = ",".join(f"ssh://{name}" for name in asked.names)
    file = asked.folder / "test_questions.py"
    shutil.copy(ASKED / file.name, file)
    words = ["-q", "--tb=no", "-rf", "-p", "no:cacheprovider", "-n", "4", "--hosts", hosts]
    return measure(
        [asked.peers.program("pytest"), *words, "--ssh-config", asked.ssh_config(), file], asked.folder, COLUMNS="200"
    )


def _ansible(playbook: str) -> Callable[[Asked], Run]:
    def ask(asked: Asked) -> Run:
        (asked.folder / "hosts.yaml").write_text(asked.nodes.inventory())
        words = ["-i", "hosts.yaml", "-f", str(CONNECTIONS), "-e", f"questions={QUESTIONS}", ASKED / playbook]
        here = str(asked.folder)
        return measure(
            [asked.peers.program("ansible-playbook"), *words],
            asked.folder,
            HOME=here,
            ANSIBLE_HOME=f"{here}/ansible",
            ANSIBLE_LOCAL_TEMP=f"{here}/ansible/tmp",
            ANSIBLE_PIPELINING="true",
            ANSIBLE_NOCOLOR="true",
            ANSIBLE_TIMEOUT="60",
            PATH=f"{asked.peers.folder}:/usr/bin:/bin",
        )

    return ask


def _clush(command: str) -> Callable[[Asked], Run]:
    def ask(asked: Asked) -> Run:
        options = ["-f", str(CONNECTIONS), "-t", "60", "-o", f"-F {asked.ssh_config()}", "-w", ",".join(asked.names)]
        return measure([asked.peers.program("clush"), *options, command], asked.folder)

    return ask


def _pdsh(asked: Asked) -> Run:
    options = ["-R", "ssh", "-f", str(CONNECTIONS), "-w", ",".join(asked.names)]
    words = [asked.peers.system("pdsh"), *options, QUESTIONS.read_text()]
    return measure(words, asked.folder, PDSH_SSH_ARGS_APPEND=f"-F {asked.ssh_config()}")


def _parallel_ssh(asked: Asked) -> Run:
    hosts = asked.folder / "hosts"
    hosts.write_text("".join(f"{node.name} {node.address}\n" for node in asked.nodes.nodes))
    words = [hosts, asked.nodes.port, asked.nodes.user, asked.nodes.user_key, QUESTIONS, CONNECTIONS]
    return measure([asked.peers.program("python"), ASKED / "parallel_ssh.py", *words], asked.folder)


def _named(pattern: str) -> Callable[[Run], set[str]]:
    expression = re.compile(pattern, re.MULTILINE)

    def found(run: Run) -> set[str]:
        return {name for match in expression.finditer(run.said) for name in match[1].split()}

    return found


_LINES = _named(r"^(gpu\d+): FAIL")
TOOLS = (
    Tool(
        "nodegate",
        "all facts of a node in one round trip; limits by platform; peers, causes; reports",
        "",
        _nodegate,
        _named(r"^rejected: (.*)$"),
    ),
    Tool(
        "pytest-testinfra",
        f"{HOW_MANY} tests a node, each with a verdict of pass or fail; 4 workers of pytest-xdist",
        "no limits of a platform, no unknown, no comparison of nodes, no cause; a command for each question",
        _testinfra,
        _named(r"^FAILED .*\[ssh://(gpu\d+)"),
    ),
    Tool(
        "ansible: facts",
        "its own facts (min, hardware)",
        "no verdict, nothing about GPUs or InfiniBand ports",
        _ansible("facts.yaml"),
        None,
    ),
    Tool(
        "ansible: facts and questions",
        f"the same facts, {HOW_MANY} questions in one task, one assert; pipelining",
        "no limits of a platform, no comparison of nodes, no cause; a failed node's other tasks do not run",
        _ansible("playbook.yaml"),
        _named(r"^(gpu\d+) +: ok=.*failed=[1-9]"),
    ),
    Tool(
        "clush",
        f"{HOW_MANY} questions in a shell script",
        "prints lines: no verdict, no limits, no files; what is wrong is what the script says",
        _clush(QUESTIONS.read_text()),
        _LINES,
    ),
    Tool(
        "clush: login alone",
        "the command `true`: the least that a login by ssh costs",
        "asks nothing",
        _clush("true"),
        None,
    ),
    Tool(
        "pdsh",
        f"{HOW_MANY} questions in a shell script",
        "prints lines: no verdict, no limits, no files",
        _pdsh,
        _LINES,
    ),
    Tool(
        "parallel-ssh",
        f"{HOW_MANY} questions in a shell script, from a Python program of 25 lines",
        "a library: no verdict, no limits; verifies no host keys as used here",
        _parallel_ssh,
        _LINES,
    ),
)
