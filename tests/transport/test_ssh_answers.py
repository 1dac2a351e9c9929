"""ssh is asked once for all nodes where its configuration tells none apart, and what it says of each is the same."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodegate.transport import ssh_answers
from nodegate.transport.ssh_answers import Values, answer

HOSTS = ["gpu01", "gpu02.rack-1.example", "127.0.0.3", "127.1", "GPU03", "bad-10", "::1", "gpu01.example"]
FOR_ALL = [
    "",
    "User ops\nPort 2222\n",
    "Host *\n  User ops # not root\n  IdentityFile ~/.ssh/%h\n",
    "Include none/*.conf\n",
]
FOR_SOME = [
    "Host gpu02*\n  User ops\n",
    "Host * !bad-*\n  Port 2222\n",
    'Host "gpu01"\n  Port=2222\n',
    "Match host gpu01\n  User ops\n",
    "match all\n  User ops\n",
    "Include {folder}/more\n",
    "CanonicalizeHostname yes\n",
    "HostName %h.example\n",
    "HostName other\n",
]


class Asked:
    """Asks the real ssh, and counts."""

    def __init__(self, file: Path) -> None:
        self.words, self.many = ("-F", str(file), "-p", "2200"), 0

    def about(self, host: str) -> Values:
        self.many += 1
        said = subprocess.run(["ssh", "-G", *self.words, "--", host], capture_output=True, text=True, check=True).stdout
        values: Values = {}
        for line in said.splitlines():
            key, _, value = line.partition(" ")
            values.setdefault(key, []).append(value)
        return values


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    yield
    ssh_answers._common.clear()
    ssh_answers._tells_no_host_apart.cache_clear()


def config(folder: Path, text: str) -> Asked:
    (folder / "more").write_text("Host gpu01\n  User ops\n")
    (folder / "config").write_text(text.format(folder=folder))
    return Asked(folder / "config")


@pytest.mark.parametrize("text", [*FOR_ALL, *FOR_SOME])
def test_each_host_has_the_answer_that_ssh_gives_for_it(tmp_path: Path, text: str) -> None:
    asked = config(tmp_path, text)
    for host in HOSTS:
        found = answer(host, asked.words, asked.words[1], lambda host=host: asked.about(host))  # type: ignore[misc]
        assert found == asked.about(host)


@pytest.mark.parametrize("text", FOR_ALL)
def test_ssh_is_asked_once_where_all_hosts_are_alike(tmp_path: Path, text: str) -> None:
    asked = config(tmp_path, text)
    for host in (f"gpu{number:03}" for number in range(20)):
        answer(host, asked.words, asked.words[1], lambda host=host: asked.about(host))  # type: ignore[misc]
    assert asked.many == 1


@pytest.mark.parametrize("text", FOR_SOME)
def test_ssh_is_asked_for_each_host_where_some_differ(tmp_path: Path, text: str) -> None:
    asked = config(tmp_path, text)
    for host in HOSTS:
        answer(host, asked.words, asked.words[1], lambda host=host: asked.about(host))  # type: ignore[misc]
    assert asked.many == len(HOSTS)


def test_hosts_do_not_wait_one_after_the_other_for_an_ssh_that_fails(tmp_path: Path) -> None:
    asked = config(tmp_path, "Prot 22\n")
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError):
            answer("gpu01", asked.words, asked.words[1], lambda: asked.about("gpu01"))
        assert ssh_answers._common == {asked.words: None}
    assert asked.many == 2


@pytest.mark.parametrize("text", ["User\x00\n", "= =\n", 'User "ops\n'])
def test_a_file_that_is_not_understood_is_left_to_ssh(tmp_path: Path, text: str) -> None:
    asked = config(tmp_path, text)
    assert not ssh_answers._tells_no_host_apart(asked.words[1])


def test_files_that_include_one_another_are_left_to_ssh(tmp_path: Path) -> None:
    asked = config(tmp_path, "Include {folder}/config\n")
    assert not ssh_answers._tells_no_host_apart(asked.words[1])
