"""A host key is right, unknown or wrong, and each is said with the fingerprint and the line it rests on."""

from __future__ import annotations

import contextlib
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from support.sshd import Fleet, changed, make_key, public_key
from support.unreachable import refusal, with_known_hosts

from nodegate.transport import Options, connect

if TYPE_CHECKING:
    from pathlib import Path

    from nodegate.node import Node


def fingerprint_of(key: Path) -> str:
    """What ssh-keygen, and so the administrator on the console, says of a key."""
    return subprocess.run(
        ["ssh-keygen", "-lf", f"{key}.pub"], check=True, capture_output=True, text=True
    ).stdout.split()[1]


def known_name(fleet: Fleet) -> str:
    return f"[{fleet.addresses[0]}]:{fleet.port}"


def verified(node: Node, options: Options | None = None) -> str:
    """What the open session says of the host key."""
    with contextlib.closing(connect(node, options or Options())) as session:
        assert session.run(["true"], timeout_s=10).exit_code == 0
        return session.host_key


def test_a_known_key_is_shown_with_its_line(fleet: Fleet, node: Node) -> None:
    assert verified(node) == f"{fingerprint_of(fleet.host_keys[0])} ({fleet.known_hosts}:1)"


def test_an_unknown_key_is_refused_with_its_fingerprint(fleet: Fleet, node: Node, tmp_path: Path) -> None:
    error = refusal(with_known_hosts(node, tmp_path / "none"))
    assert error.kind == "host-key-unknown"
    assert fingerprint_of(fleet.host_keys[0]) in error.reason
    assert known_name(fleet) in error.reason
    assert "accept-new" in error.next_step


def test_a_changed_key_is_refused_with_both_fingerprints_and_the_old_line(
    fleet: Fleet, node: Node, tmp_path: Path
) -> None:
    other, file = make_key(tmp_path / "other"), tmp_path / "known_hosts"
    file.write_text(f"# a comment\n{known_name(fleet)} {public_key(other)}\n")
    for options in (Options(), Options(host_keys="accept-new")):
        error = refusal(with_known_hosts(node, file), options)
        assert error.kind == "host-key-changed"
        assert fingerprint_of(other) in error.reason
        assert fingerprint_of(fleet.host_keys[0]) in error.reason
        assert f"{file}:2" in error.reason


def test_a_key_of_another_kind_does_not_pass_as_new(fleet: Fleet, node: Node, tmp_path: Path) -> None:
    other, file = make_key(tmp_path / "other", "ecdsa"), tmp_path / "known_hosts"
    file.write_text(f"{known_name(fleet)} {public_key(other)}\n")
    assert refusal(with_known_hosts(node, file), Options(host_keys="accept-new")).kind == "host-key-changed"


def test_accept_new_writes_the_key_down_once(fleet: Fleet, node: Node, tmp_path: Path) -> None:
    file = tmp_path / "project" / "known_hosts"
    options = Options(host_keys="accept-new", known_hosts=file)
    stranger = with_known_hosts(node, tmp_path / "none")
    assert verified(stranger, options).endswith(f"(new, written to {file})")
    assert file.read_text() == f"{known_name(fleet)} {public_key(fleet.host_keys[0])}\n"
    assert verified(stranger, Options(known_hosts=file)).endswith(f"({file}:1)")
    assert not (tmp_path / "none").exists()


def test_accept_new_keeps_every_key_of_a_fleet(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text("# no newline at the end")
    options = Options(host_keys="accept-new", known_hosts=file)
    with Fleet(tmp_path, count=16) as fleet, ThreadPoolExecutor(16) as pool:
        strangers = [with_known_hosts(node, tmp_path / "none") for node in fleet.nodes for _ in range(2)]
        list(pool.map(lambda node: verified(node, options), strangers))
        expected = {f"[{address}]:{fleet.port} {public_key(fleet.host_keys[0])}" for address in fleet.addresses}
    lines = file.read_text().splitlines()
    assert lines[0] == "# no newline at the end"
    assert set(lines[1:]) == expected
    assert len(lines) == 17


def test_off_takes_any_key(node: Node, tmp_path: Path) -> None:
    stranger = with_known_hosts(node, tmp_path / "none")
    assert verified(stranger, Options(host_keys="off")).endswith("(not verified)")


def test_the_nodes_own_word_wins_over_the_command_line(node: Node, tmp_path: Path) -> None:
    stranger = changed(with_known_hosts(node, tmp_path / "none"), host_keys="strict")
    assert refusal(stranger, Options(host_keys="off")).kind == "host-key-unknown"
    assert verified(changed(stranger, host_keys="off"))


def test_the_users_ssh_configuration_is_honoured(node: Node, tmp_path: Path) -> None:
    stranger = with_known_hosts(node, tmp_path / "none")
    lax = changed(stranger, ssh_args=(*stranger.connection.ssh_args, "-o", "StrictHostKeyChecking=no"))
    assert verified(lax).endswith("(not verified)")


def test_the_kind_of_key_that_we_know_is_asked_for(tmp_path: Path) -> None:
    with Fleet(tmp_path, host_key_types=("ed25519", "ecdsa", "rsa")) as fleet:
        for key in fleet.host_keys:
            file = tmp_path / f"known-{key.name}"
            file.write_text(f"{known_name(fleet)} {public_key(key)}\n")
            assert verified(with_known_hosts(fleet.nodes[0], file)).startswith(fingerprint_of(key))


def test_hashed_names_and_wildcards(fleet: Fleet, node: Node, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"{known_name(fleet)} {public_key(fleet.host_keys[0])}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", file], check=True, stderr=subprocess.DEVNULL)
    assert "|1|" in file.read_text()
    assert verified(with_known_hosts(node, file))

    network = fleet.addresses[0].rpartition(".")[0]
    file.write_text(f"[{network}.?]:{fleet.port} {public_key(fleet.host_keys[0])}\n")
    assert verified(with_known_hosts(node, file))
    file.write_text(f"!{known_name(fleet)},[{network}.*]:{fleet.port} {public_key(fleet.host_keys[0])}\n")
    assert refusal(with_known_hosts(node, file)).kind == "host-key-unknown"


def test_a_revoked_key_is_never_taken(fleet: Fleet, node: Node, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    line = f"{known_name(fleet)} {public_key(fleet.host_keys[0])}\n"
    file.write_text(f"{line}@revoked {line}")
    error = refusal(with_known_hosts(node, file), Options(host_keys="off"))
    assert error.kind == "host-key-changed"
    assert f"revoked ({file}:2)" in error.reason


def test_lines_that_are_none_are_passed_over(fleet: Fleet, node: Node, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    name = known_name(fleet)
    noise = f"\n{name}\n{name} ssh-ed25519 ???\n@unheard-of {name} ssh-ed25519 AAAA\n{name} ssh-rsa AAAA\n\xe4\xf6\n"
    file.write_text(f"{noise}{name} {public_key(fleet.host_keys[0])}\n", encoding="latin-1")
    assert verified(with_known_hosts(node, file)).endswith(f"({file}:7)")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_key(tmp_path_factory.mktemp("authority") / "ca")


def certified(fleet: Fleet, authority: Path, *arguments: str) -> None:
    """Sign the fleet's host key, for what `arguments` say (`-n names`, `-V validity`)."""
    sign = ["ssh-keygen", "-q", "-s", authority, "-h", "-I", "host", *arguments, f"{fleet.host_keys[0]}.pub"]
    subprocess.run(sign, check=True)


def test_a_host_certificate_vouches_for_a_key_that_nobody_has_seen(tmp_path: Path, authority: Path) -> None:
    file = tmp_path / "known_hosts"
    fleet = Fleet(tmp_path)
    fleet._options["HostCertificate"] = f"{fleet.host_keys[0]}-cert.pub"
    certified(fleet, authority, "-n", fleet.addresses[0])
    with fleet:
        file.write_text(f"@cert-authority 127.* {public_key(authority)}\n")
        assert verified(with_known_hosts(fleet.nodes[0], file)).endswith(f"(certificate, {file}:1)")

        file.write_text(f"@cert-authority 10.* {public_key(authority)}\n")
        assert refusal(with_known_hosts(fleet.nodes[0], file)).kind == "host-key-unknown"

        file.write_text(f"@cert-authority 127.* {public_key(make_key(tmp_path / 'other'))}\n")
        error = refusal(with_known_hosts(fleet.nodes[0], file), Options(host_keys="accept-new"))
        assert error.kind == "host-key-unknown"
        assert "no @cert-authority line has its signer" in error.reason

        file.write_text(f"@cert-authority * {public_key(authority)}\n@revoked * {public_key(authority)}\n")
        assert refusal(with_known_hosts(fleet.nodes[0], file)).kind == "host-key-changed"


@pytest.mark.parametrize(
    ("arguments", "doubt"),
    [
        (("-n", "another-host"), "it is for another-host, not for 127."),
        (("-n", "127.*", "-V", "20200101:20200201"), "it is not valid at this time"),
    ],
)
def test_a_host_certificate_that_does_not_count(
    tmp_path: Path, authority: Path, arguments: tuple[str, ...], doubt: str
) -> None:
    file = tmp_path / "known_hosts"
    fleet = Fleet(tmp_path)
    fleet._options["HostCertificate"] = f"{fleet.host_keys[0]}-cert.pub"
    certified(fleet, authority, *arguments)
    with fleet:
        file.write_text(f"@cert-authority * {public_key(authority)}\n")
        error = refusal(with_known_hosts(fleet.nodes[0], file))
        assert error.kind == "host-key-unknown"
        assert doubt in error.reason

        file.write_text(file.read_text() + f"{known_name(fleet)} {public_key(fleet.host_keys[0])}\n")
        assert verified(with_known_hosts(fleet.nodes[0], file)).endswith(f"({file}:2)"), "known by its plain key"


def test_a_cert_authority_line_does_not_disturb_plain_keys(
    fleet: Fleet, node: Node, authority: Path, tmp_path: Path
) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"@cert-authority * {public_key(authority)}\n{fleet.known_hosts.read_text()}")
    assert verified(with_known_hosts(node, file)).endswith(f"({file}:2)")
