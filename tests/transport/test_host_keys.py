"""A host key is right, unknown or wrong, and each is said with the fingerprint and the line it rests on."""

import contextlib
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.recorded import run_pytest
from support.sshd import Fleet, changed, make_key, public_key
from support.unreachable import refusal, with_known_hosts

from nodegate.transport import Options, connect


def fingerprint_of(key):
    """What ssh-keygen, and so the administrator on the console, says of a key."""
    return subprocess.run(
        ["ssh-keygen", "-lf", f"{key}.pub"], check=True, capture_output=True, text=True
    ).stdout.split()[1]


def known_name(fleet):
    return f"[{fleet.addresses[0]}]:{fleet.port}"


def verified(node, options=None):
    with contextlib.closing(connect(node, options or Options())) as session:
        assert session.run(["true"], timeout_s=10).exit_code == 0
        return [key.how for key in session.taken_keys]


def test_an_unknown_key_is_refused_with_its_fingerprint(fleet, node, tmp_path):
    error = refusal(with_known_hosts(node, tmp_path / "none"))
    assert error.kind == "host-key-unknown"
    assert fingerprint_of(fleet.host_keys[0]) in error.reason
    assert known_name(fleet) in error.reason
    assert "accept-new" in error.next_step


def test_a_changed_key_is_refused_with_both_fingerprints_and_the_old_line(fleet, node, tmp_path):
    other, file = make_key(tmp_path / "other"), tmp_path / "known_hosts"
    file.write_text(f"# a comment\n{known_name(fleet)} {public_key(other)}\n")
    for options in (Options(), Options(host_keys="accept-new")):
        error = refusal(with_known_hosts(node, file), options)
        assert error.kind == "host-key-changed"
        assert fingerprint_of(other) in error.reason
        assert fingerprint_of(fleet.host_keys[0]) in error.reason
        assert f"{file}:2" in error.reason


def test_a_key_of_another_kind_does_not_pass_as_new(fleet, node, tmp_path):
    other, file = make_key(tmp_path / "other", "ecdsa"), tmp_path / "known_hosts"
    file.write_text(f"{known_name(fleet)} {public_key(other)}\n")
    assert refusal(with_known_hosts(node, file), Options(host_keys="accept-new")).kind == "host-key-changed"


def test_accept_new_writes_the_key_down_once(fleet, node, tmp_path):
    file = tmp_path / "project" / "known_hosts"
    options = Options(host_keys="accept-new", known_hosts=file)
    stranger = with_known_hosts(node, tmp_path / "none")
    assert verified(stranger, options) == ["new"]
    assert file.read_text() == f"{known_name(fleet)} {public_key(fleet.host_keys[0])}\n"
    assert verified(stranger, Options(known_hosts=file)) == []
    assert not (tmp_path / "none").exists()


def test_accept_new_keeps_every_key_of_a_fleet(tmp_path):
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


def test_off_takes_any_key_if_the_node_or_the_users_configuration_does_not_say_strict(node, tmp_path):
    stranger = with_known_hosts(node, tmp_path / "none")
    off = Options(host_keys="off")
    lax = changed(stranger, ssh_args=(*stranger.connection.ssh_args, "-o", "StrictHostKeyChecking=no"))
    for each, options in ((stranger, off), (changed(stranger, host_keys="off"), None), (lax, None)):
        assert verified(each, options) == ["not verified"]
    assert refusal(changed(stranger, host_keys="strict"), off).kind == "host-key-unknown"


def test_the_kind_of_key_that_we_know_is_asked_for(tmp_path):
    with Fleet(tmp_path, host_key_types=("ed25519", "ecdsa", "rsa")) as fleet:
        for key in fleet.host_keys:
            file = tmp_path / f"known-{key.name}"
            file.write_text(f"{known_name(fleet)} {public_key(key)}\n")
            assert verified(with_known_hosts(fleet.nodes[0], file)) == []


def test_names_with_wildcards_and_lines_that_are_none(fleet, node, tmp_path):
    file, name, key = tmp_path / "known_hosts", known_name(fleet), public_key(fleet.host_keys[0])
    file.write_text(f"{name} {key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", file], check=True, stderr=subprocess.DEVNULL)
    hashed = file.read_text()
    assert "|1|" in hashed
    network, _, _ = fleet.addresses[0].rpartition(".")
    noise = f"\n{name}\n{name} ssh-ed25519 ???\n@unheard-of {name} ssh-ed25519 AAAA\n{name} ssh-rsa AAAA\n"
    for known in (
        hashed,
        f"[{network}.?]:{fleet.port} {key}\n",
        f"{noise}|1|x {key}\n\xe4\n{name} {key}\n",
        f"@cert-authority * {key}\n{name} {key}\n",
    ):
        file.write_text(known, encoding="latin-1")
        assert verified(with_known_hosts(node, file)) == []
    file.write_text(f"!{name},[{network}.*]:{fleet.port} {key}\n")
    assert refusal(with_known_hosts(node, file)).kind == "host-key-unknown"


def test_a_revoked_key_is_never_taken(fleet, node, tmp_path):
    file = tmp_path / "known_hosts"
    line = f"{known_name(fleet)} {public_key(fleet.host_keys[0])}\n"
    file.write_text(f"{line}@revoked {line}")
    error = refusal(with_known_hosts(node, file), Options(host_keys="off"))
    assert error.kind == "host-key-changed"
    assert f"revoked ({file}:2)" in error.reason


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return make_key(tmp_path_factory.mktemp("authority") / "ca")


@contextlib.contextmanager
def certified(folder, authority, *arguments):
    """A fleet whose host key is signed for what `arguments` say (`-n names`, `-V validity`)."""
    fleet = Fleet(folder)
    fleet._options["HostCertificate"] = f"{fleet.host_keys[0]}-cert.pub"
    sign = ["ssh-keygen", "-q", "-s", authority, "-h", "-I", "host", *arguments, f"{fleet.host_keys[0]}.pub"]
    subprocess.run(sign, check=True)
    with fleet:
        yield fleet


def test_a_host_certificate_vouches_for_a_key_that_nobody_has_seen(tmp_path, authority):
    file, signer, other = tmp_path / "known_hosts", public_key(authority), public_key(make_key(tmp_path / "other"))
    with certified(tmp_path, authority, "-n", "127.*") as fleet:
        stranger = with_known_hosts(fleet.nodes[0], file)
        file.write_text(f"@cert-authority 127.* {signer}\n")
        assert verified(stranger) == []
        for known, mode, kind, said in (
            (f"@cert-authority 10.* {signer}\n", "strict", "unknown", ""),
            (f"@cert-authority 127.* {other}\n", "accept-new", "unknown", "no @cert-authority line has its signer"),
            (f"@cert-authority * {signer}\n@revoked * {signer}\n", "off", "changed", "revoked"),
        ):
            file.write_text(known)
            error = refusal(stranger, Options(host_keys=mode))  # type: ignore[arg-type]
            assert (error.kind, said in error.reason) == (f"host-key-{kind}", True)


@pytest.mark.parametrize(
    ("arguments", "doubt"),
    [
        (("-n", "another-host"), "it is for another-host, not for 127."),
        (("-n", "127.*", "-V", "20200101:20200201"), "it is not valid at this time"),
    ],
)
def test_a_host_certificate_that_does_not_count(tmp_path, authority, arguments, doubt):
    file = tmp_path / "known_hosts"
    with certified(tmp_path, authority, *arguments) as fleet:
        file.write_text(f"@cert-authority * {public_key(authority)}\n")
        error = refusal(with_known_hosts(fleet.nodes[0], file))
        assert (error.kind, doubt in error.reason) == ("host-key-unknown", True)
        file.write_text(file.read_text() + f"{known_name(fleet)} {public_key(fleet.host_keys[0])}\n")
        assert verified(with_known_hosts(fleet.nodes[0], file)) == [], "known by its plain key"


def test_strict_on_the_command_line_is_strict(tmp_path):
    with Fleet(tmp_path) as fleet:
        stranger = with_known_hosts(fleet.nodes[0], tmp_path / "none")
        lax = changed(stranger, ssh_args=(*stranger.connection.ssh_args, "-o", "StrictHostKeyChecking=no"))
        for node in (lax, changed(stranger, host_keys="off")):
            for each in (node, changed(node, transport="ssh-binary")):
                assert refusal(each, Options(host_keys="strict")).kind == "host-key-unknown"


def run(fleet, folder, transport, *arguments, variables=""):
    hosts = fleet.inventory().replace(str(fleet.known_hosts), str(folder / "known"))
    (folder / "hosts.yaml").write_text(
        hosts.replace("  vars:\n", f"  vars:\n    ansible_connection: {transport}\n{variables}")
    )
    options = ["--inventory", "hosts.yaml", "--passive", "-k", "node.reachable or kernel_version"]
    return run_pytest(folder, [*options, *arguments])


@pytest.mark.parametrize("transport", ["ssh", "ssh-binary"])
def test_a_key_that_was_not_known_is_told(tmp_path, transport):
    with Fleet(tmp_path, 2) as fleet:
        first = run(fleet, tmp_path, transport, "--host-keys", "accept-new", "--known-hosts", "known")
        said = "note: host keys on the way to 2 nodes were unknown, and accepted at first use: node[1-2]; compare them"
        assert said in first.stdout
        assert said[6:] in json.loads((first.folder / "report.json").read_text())["run"]["notes"][0]
        assert "Host keys on the way to 2 nodes were unknown" in (first.folder / "report.html").read_text()
        taken = json.loads((first.folder / "evidence/node1/facts.json").read_text())["taken_host_keys"]
        assert [key["how"] for key in taken] == ["new"]
        assert fleet.nodes[0].address in taken[0]["host"]
        again = run_pytest(tmp_path, ["--replay", str(first.folder.resolve()), "-k", "kernel_version"])
        assert said in again.stdout
        second = run(fleet, tmp_path, transport, "--known-hosts", "known")  # now they are known
        assert "host keys" not in second.stdout
        assert json.loads((second.folder / "report.json").read_text())["run"]["notes"] == []


def test_a_key_that_nobody_checks_is_told(tmp_path):
    with Fleet(tmp_path, 1) as fleet:
        off = run(fleet, tmp_path, "ssh", variables="    nodegate_host_keys: 'off'\n")
        assert (
            "note: host keys on the way to 1 node were not verified, as host key checking is off: node1" in off.stdout
        )
