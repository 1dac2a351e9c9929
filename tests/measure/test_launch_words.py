"""The command lines of launches over several nodes at six sites, word for word, and what they are made from.

To accept other words read the difference, then write them with NODEGATE_WRITE_GOLDEN=1.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from support.nccl_fleet import COLLECTIVES, DELIVERY, facts, table

from nodegate.errors import CannotMeasure, UsageError
from nodegate.knowledge.tables import clouds, rows
from nodegate.launchers import LAUNCHERS
from nodegate.launchers.launcher import heard
from nodegate.measure.groups.group_node import GroupNode
from nodegate.measure.groups.launch import RANK, Launch, plan_of, sweep, words
from nodegate.measure.groups.plan import pair
from nodegate.measure.groups.result import read
from nodegate.measure.groups.settings import Door, door, launch_settings, networks
from nodegate.measure.measurement import Target
from nodegate.node import Connection, Node
from nodegate.records.program_run import LaunchPlan, Plan, ProgramRun

GOLDEN = Path(__file__).parents[1] / "golden" / "launches"


@dataclass(frozen=True)
class Site:
    """Two nodes: what their inventory says, which launcher they have, and what each says of itself."""

    launcher: str
    path: str
    look: str
    addresses: Sequence[str]  # of the inventory
    own: tuple[Sequence[str], Sequence[str]]  # interfaces of each node
    expected: Mapping[str, object] = field(default_factory=dict)


LAUNCH = Launch("all_reduce", sweep(DELIVERY, rdma=True), 300.0)
DOCKER = "address docker0 172.17.0.1/16"
SITES = {
    "open-mpi-4": Site(
        "mpirun",
        "/usr/bin/mpirun",
        "launcher mpirun (Open MPI) 4.1.4\npath /usr/bin/orterun",
        ("10.0.0.11", "10.0.0.12"),
        (["address eno1 10.0.0.11/16", DOCKER], ["address eno1 10.0.0.12/16", DOCKER]),
        {"nccl_env": {"NCCL_SOCKET_IFNAME": "eno1"}},
    ),
    "open-mpi-5": Site(
        "mpirun",
        "/opt/openmpi-5.0.7/bin/mpirun",
        "launcher mpirun (Open MPI) 5.0.7\npath /opt/openmpi-5.0.7/bin/mpirun",
        ("gpu01", "gpu02"),  # names, in racks with networks of their own
        (
            ["means 127.0.1.1", "means 10.1.1.11", "address bond0 10.1.1.11/24", DOCKER],
            ["means 10.1.2.11", "address bond0 10.1.2.11/24", DOCKER],
        ),
        {"mpi_args": ["--mca", "btl_tcp_links", "2", "--prtemca", "plm_ssh_no_tree_spawn", "1"]},
    ),
    "hpc-x": Site(
        "mpirun",
        "/sw/hpcx-v2.19/ompi/bin/mpirun",
        "launcher mpirun (Open MPI) 4.1.7a1\npath /sw/hpcx-v2.19/ompi/bin/orterun",
        ("10.2.0.4", "10.2.0.5"),
        (["address eth0 10.2.0.4/22", DOCKER], ["address eth0 10.2.0.5/22", DOCKER]),
        {
            "nccl_env": {
                "LD_LIBRARY_PATH": "/sw/nccl-2.27/lib",
                "NCCL_IB_PCI_RELAXED_ORDERING": 1,
                "UCX_TLS": "tcp",
                "UCX_NET_DEVICES": "eth0",
                "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            }
        },
    ),
    "slurm-pmix": Site(
        "srun",
        "/usr/bin/srun",
        "launcher slurm 23.11.4\nmpi pmi2\nmpi pmix\nmpi pmix_v4\nmpi listed\ngres gpu",
        ("10.3.0.11", "10.3.0.12"),
        (["address eth0 10.3.0.11/20", DOCKER], ["address eth0 10.3.0.12/20", DOCKER]),
        {
            "launcher": "slurm",
            "srun": {"partition": "h100", "account": "acceptance", "qos": "high"},
            "nccl_env": {"LD_LIBRARY_PATH": "/opt/amazon/efa/lib", "FI_EFA_USE_DEVICE_RDMA": 1},
        },
    ),
    "slurm-pmi2-reserved": Site(
        "srun",
        "/opt/slurm/bin/srun",
        "launcher slurm 20.11.9\nmpi cray_shasta\nmpi pmi2\nmpi listed\ngres (null)",
        ("10.4.0.11", "10.4.0.12"),
        (["address ib0 10.4.0.11/16"], ["address ib0 10.4.0.12/16"]),
        {
            "launcher": "srun",
            "srun": {"reservation": "accept"},
            "srun_args": "--overcommit --comment 'two words; $HOME'",
        },
    ),
    "cloud-single-addresses": Site(
        "mpirun",
        "/usr/local/mpi/bin/mpirun",
        "launcher mpirun (Open MPI) 4.1.6rc4",
        ("a3-0", "a3-1"),
        (
            ["reached 10.128.0.7", "address ens9 10.128.0.7/32", DOCKER],
            ["reached 10.128.0.6", "address ens9 10.128.0.6/32", DOCKER],
        ),
        {"nccl_env": {"LD_LIBRARY_PATH": "/usr/local/gib/lib64", "NCCL_NET": "gIB"}},
    ),
}


def members(site):
    found = []
    for place, address in enumerate(site.addresses):
        node = Node(f"gpu0{place + 1}", Connection(address=address), expected=site.expected, origin="hosts.yaml:3")
        said = heard("\n".join([site.look, *site.own[place % 2]]).encode())
        settings = launch_settings(node)
        programs = {name: f"/opt/nccl-tests/{name}_perf_mpi" for name in COLLECTIVES}
        launcher = LAUNCHERS[site.launcher].known(site.path, said, settings)
        target = Target(node, None, facts(8), None, DELIVERY)  # type: ignore[arg-type]
        found.append(GroupNode(target, 8, "H100", programs, {}, "x", launcher, settings, door(node.address, said)))
    return found


def line(site):
    """One option with its value a line."""
    nodes = members(site)
    assert not isinstance(nodes[0].launcher, CannotMeasure)
    argv = words(LAUNCH, nodes, nodes[0].launcher, "the-mark")
    text = " ".join("THE_SHELL_AROUND_A_RANK" if word == RANK else shlex.quote(word) for word in argv)
    return text.replace(" -", " \\\n  -") + "\n"


@pytest.mark.parametrize("name", SITES)
def test_the_command_line_of_a_site_is_word_for_word(name):
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(line(SITES[name]))
    assert line(SITES[name]) == file.read_text()


def test_each_launcher_has_a_site_and_each_line_too():
    assert {site.launcher for site in SITES.values()} == set(LAUNCHERS)
    assert {file.stem for file in GOLDEN.iterdir()} == set(SITES)


def test_the_words_for_a_thousand_nodes_fit_a_command_line():
    nodes = members(replace(SITES["open-mpi-4"], addresses=[f"10.0.{at // 250}.{at % 250}" for at in range(1250)]))
    assert max(map(len, words(LAUNCH, nodes, nodes[0].launcher, "m"))) < 128 << 10


def told(*lines):
    return heard("\n".join(lines).encode())


def settings(**expected):
    return launch_settings(Node("gpu01", expected=expected, origin="hosts.yaml:3"))


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("mpirun (Open MPI) 5.0.11", 5),
        ("mpirun.real (OpenRTE) 2.1.1", 2),
        ("prterun (Open MPI) 6.0.0a1", 6),
    ],
)
def test_the_release_of_open_mpi_is_read(version, major):
    assert LAUNCHERS["mpirun"].known("/usr/bin/mpirun", told(f"launcher {version}"), settings()).major == major


@pytest.mark.parametrize("version", ["HYDRA build details:", "Intel(R) MPI Library for Linux* OS, Version 2021.9", ""])
def test_another_mpi_is_refused_by_what_it_says(version):
    with pytest.raises(CannotMeasure, match="is not Open MPI's"):
        LAUNCHERS["mpirun"].known("/usr/bin/mpirun", told(f"launcher {version}"), settings())


def test_hpc_x_is_told_where_it_is_unless_its_module_is_loaded():
    path = "/opt/hpcx-v2.18/ompi/bin/mpirun"
    known = LAUNCHERS["mpirun"].known
    bare = known(path, told("launcher mpirun (Open MPI) 4.1.7", "libraries /usr/local/cuda/lib64"), settings())
    assert dict(bare.environment) == {
        "OPAL_PREFIX": "/opt/hpcx-v2.18/ompi",
        "LD_LIBRARY_PATH": "/opt/hpcx-v2.18/ompi/lib:/usr/local/cuda/lib64",
    }
    loaded = told("launcher mpirun (Open MPI) 4.1.7", "prefix /opt/hpcx-v2.18/ompi")
    assert known(path, loaded, settings()).environment == ()
    own = known(path, told("launcher mpirun (Open MPI) 4.1.7"), settings(nccl_env={"OPAL_PREFIX": "/elsewhere"}))
    assert dict(own.environment)["OPAL_PREFIX"] == "/elsewhere"


@pytest.mark.parametrize(
    ("lines", "mpi"),
    [
        (["mpi pmi2", "mpi pmix", "mpi pmix_v4", "mpi listed"], "pmix"),
        (["mpi pmi2", "mpi pmix_v3", "mpi listed"], "pmix_v3"),
        (["mpi cray_shasta", "mpi pmi2", "mpi listed"], "pmi2"),
        (["mpi cray_shasta", "mpi listed"], "cray_shasta"),
        ([], "pmix"),  # a node that says nothing of it: what most have
    ],
)
def test_srun_is_asked_for_a_type_of_mpi_that_it_has(lines, mpi):
    assert LAUNCHERS["srun"].known("/usr/bin/srun", told("launcher slurm 23.11.4", *lines), settings()).mpi == mpi


def test_a_site_may_name_the_type_of_mpi():
    found = LAUNCHERS["srun"].known("/usr/bin/srun", told("mpi pmix", "mpi listed"), settings(srun={"mpi": "pmi2"}))
    assert found.mpi == "pmi2"


def test_slurm_without_any_type_of_mpi_starts_nothing():
    with pytest.raises(CannotMeasure, match="neither pmix nor pmi2") as refused:
        LAUNCHERS["srun"].known("/usr/bin/srun", told("launcher slurm 23.11.4", "mpi listed"), settings())
    assert "nodegate_launcher: mpirun" in refused.value.next_step


def test_an_address_is_found_on_its_interface():
    said = told("address lo 127.0.0.1/8", "address eth0.7@eth0 10.0.0.5/24", "address eth1 2001:db8::5/64")
    assert door("10.0.0.5", said) == Door("eth0.7", "10.0.0.0/24")
    assert door("2001:db8::5", said) == Door("eth1", "2001:db8::/64")
    assert door("127.0.0.1", said) is None
    assert door("gpu01", {**said, "means": ["127.0.1.1", "10.0.0.5"]}) == Door("eth0.7", "10.0.0.0/24")
    assert door("bastion", {**said, "reached": ["10.0.0.5"]}) == Door("eth0.7", "10.0.0.0/24")
    assert door("bastion", said) is None
    assert door("10.0.0.5", told("address eth0 nonsense", "address x")) is None


def test_the_networks_of_a_launch():
    assert networks([Door("eth0", "10.0.0.0/24"), Door("eth0", "10.0.0.0/24")]) == "10.0.0.0/24"
    assert networks([Door("eth0", "10.0.0.0/24"), Door("eno1", "10.0.7.0/24")]) == "10.0.0.0/24,10.0.7.0/24"
    assert networks([Door("eth0", "10.0.0.0/24"), None]) == ""
    assert networks([Door("eth0", "2001:db8::/64"), Door("eno1", "10.0.7.0/24")]) == "eno1,eth0"
    many = [Door("eth0", f"10.128.{place}.4/32") for place in range(0, 250, 2)]
    assert networks(many) == "10.128.0.0/16"


def test_the_inventory_names_another_network():
    other = replace(SITES["open-mpi-4"], expected={"launch_network": "192.168.8.0/21, ib0"})
    assert "--mca oob_tcp_if_include 192.168.8.0/21,ib0" in " ".join(line(other).replace("\\\n", "").split())


@pytest.mark.parametrize(
    ("expected", "gone"),
    [
        ({"mpi_args": "--mca btl_tcp_if_exclude lo,docker0"}, "btl_tcp_if_include"),
        ({"mpi_args": "--mca pml ucx"}, "pml ob1"),
        ({"nccl_env": {"OMPI_MCA_btl": "self,vader,tcp"}}, "btl self,tcp"),
    ],
)
def test_what_a_site_sets_itself_is_not_set_twice(expected, gone):
    site = SITES["open-mpi-4"]
    text = line(replace(site, expected=expected))
    assert f"--mca {gone}" not in text
    assert f"--mca {gone}" in line(site)


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"mpi_args": "mpirun --mca x y"}, "nodegate_mpi_args: 'mpirun' does not begin with '-'"),
        ({"mpi_args": "--mca x 'y"}, "nodegate_mpi_args: no closing quotation"),
        ({"mpi_args": ["-x", "A=1\n"]}, "is not one line of text"),
        ({"mpi_args": {"a": "b"}}, "nodegate_mpi_args must be a list of at most 64 words"),
        ({"srun_args": ["--overcommit", "--"]}, "nodegate_srun_args: -- is set by nodegate itself"),
        ({"srun": "partition"}, "nodegate_srun must map names to values"),
        ({"srun": {"partion": "gpu"}}, "nodegate_srun: unknown 'partion'"),
        ({"srun": {"partition": "gpu; reboot"}}, "nodegate_srun: partition: 'gpu; reboot' is not a name in Slurm"),
        ({"srun": {"account": "-x"}}, "nodegate_srun: account: '-x' is not a name in Slurm"),
        ({"launch_network": "10.0.0.1"}, "nodegate_launch_network: '10.0.0.1' is neither"),
        ({"launch_network": ["eth0", "$(reboot)"]}, "nodegate_launch_network: '$(reboot)' is neither"),
        ({"nccl_cloud": "aws-p55"}, "nodegate_nccl_cloud: unknown 'aws-p55'"),
        ({"nccl_env": {"PATH": "/tmp"}}, "nodegate_nccl_env: 'PATH' may not be set"),
        ({"nccl_env": {"NCCL_DEBUG_FILE": "/tmp/x"}}, "NCCL_DEBUG_FILE is set by nodegate itself"),
        ({"nccl_env": {"NCCL_IB_HCA": "a\nb"}}, "must be a number or one line of text"),
        ({"nccl_env": {"NCCL_IB_DISABLE": True}}, 'write "1", not true'),
        ({"nccl_env": "{"}, "must map variables to values"),
        ({"launcher": "mpiexec.hydra"}, "nodegate_launcher: 'mpiexec.hydra' is not supported"),
        ({"launcher": "srun", "hold": "slurm"}, "nodegate_hold: what holds the node keeps the jobs of srun out too"),
    ],
)
def test_what_cannot_be_a_setting_of_a_launch_is_refused_with_its_line(expected, message):
    with pytest.raises(UsageError) as refused:
        settings(**expected)
    assert message in str(refused.value)
    assert str(refused.value).startswith("hosts.yaml:3: gpu01: ")


@pytest.mark.parametrize(
    ("variable", "word"),
    [
        *(("srun_args", word) for word in ("-wgpu99", "-lwgpu99", "-N2", "-uN2", "-lQn4", "-w=gpu99", "-xgpu1", "-Z")),
        *(("srun_args", word) for word in ("--nodel=gpu99", "--nodelist", "--ntasks-p=2", "--exc=gpu1", "--tim=9")),
        *(("mpi_args", word) for word in ("-Hgpu99", "--hostf=x", "--host", "-np", "-n4", "-c8", "--np=4", "--app")),
    ],
)
def test_no_form_of_an_option_that_nodegate_sets_gets_through(variable, word):
    with pytest.raises(UsageError, match=f"nodegate_{variable}: {word} is set by nodegate itself"):
        settings(**{variable: [word]})


@pytest.mark.parametrize(
    ("variable", "word"),
    [
        *(("srun_args", word) for word in ("-Jnwork", "--network=ib", "--nice=5", "--time-min=1", "-c8", "-l", "-pn1")),
        *(("srun_args", word) for word in ("--exclusive=user", "--overcommit", "--export=ALL", "--nodes-x=1")),
        *(("mpi_args", word) for word in ("-nolocal", "-npernode", "-cpu-set", "--novm", "-x", "--hetero-nodes")),
    ],
)
def test_other_options_do(variable, word):
    assert settings(**{variable: [word]}).words


def test_an_ini_inventory_gives_settings_as_text():
    found = settings(nccl_env='{"NCCL_IB_TIMEOUT": 22}', launcher="slurm")
    assert (found.launcher, found.environment) == ("srun", {"NCCL_IB_TIMEOUT": "22"})


@pytest.mark.parametrize("cloud", sorted(clouds()))
def test_the_settings_of_a_cloud_may_all_be_set_and_have_a_source(cloud):
    assert settings(nccl_cloud=cloud).environment == clouds()[cloud]
    assert settings(nccl_env=dict(clouds()[cloud])).environment == clouds()[cloud]
    assert all(row["source"] for row in rows("nccl_clouds.csv"))


def test_a_site_replaces_or_takes_away_single_settings_of_a_cloud():
    own = {"NCCL_BUFFSIZE": 4194304, "NCCL_TUNER_PLUGIN": "", "UCX_TLS": "tcp"}
    found = settings(nccl_cloud="aws-p5", nccl_env=own).environment
    assert (found["FI_PROVIDER"], found["NCCL_BUFFSIZE"], found["UCX_TLS"]) == ("efa", "4194304", "tcp")
    assert "NCCL_TUNER_PLUGIN" not in found


@pytest.mark.parametrize("name", ["UCX_TLS", "OMPI_MCA_pml", "FI_PROVIDER", "LD_LIBRARY_PATH", "CUDA_DEVICE_ORDER"])
def test_settings_beyond_nccl_are_allowed_and_said_in_the_conditions(name):
    nodes = members(replace(SITES["open-mpi-4"], expected={"nccl_env": {name: "x"}}))
    plan = plan_of(LAUNCH, pair("gpu01", "gpu02"), nodes)
    assert plan.launch.settings == f"{name}=x"
    run = read(ProgramRun("all_reduce", stdout=table("all_reduce", 16, 380.0), plan=plan))
    assert run.conditions["settings"] == f"{name}=x"


def test_many_settings_are_told_apart_in_the_conditions_by_a_checksum():
    output = table("all_reduce", 16, 380.0)
    said = [settings(nccl_cloud="gcp-a3-mega", nccl_env={"NCCL_SHARE": value}).said for value in ("a", "b")]
    plans = [Plan(launch=LaunchPlan("pair", settings=each)) for each in said]
    found = [read(ProgramRun("all_reduce", stdout=output, plan=plan)).conditions for plan in plans]
    assert found[0]["settings"] != found[1]["settings"]
    assert max(len(each["settings"]) for each in found) < 250
