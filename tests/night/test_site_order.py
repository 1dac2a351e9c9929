"""The order of a site file is `nodegate_expect` of the nodes of its groups, and contradicts nothing."""

import pytest

from nodegate.cli import main
from nodegate.errors import UsageError
from nodegate.run.prepare import prepare
from nodegate.run.settings import Settings

HOSTS = """\
all:
  children:
    h100: {hosts: {gpu1: , gpu2: {nodegate_expect: {gpus: 8, nics: 9}}}}
    l40s: {hosts: {gpu3: }}
"""


@pytest.fixture
def nodes(tmp_path):
    """The nodes of a run with this order, by name; the items that are demanded of each."""

    def of(order, pattern=""):
        (tmp_path / "hosts.yaml").write_text(HOSTS)
        (tmp_path / "site.yaml").write_text(f"order:\n{order}")
        prepared = prepare(Settings(inventory=(str(tmp_path / "hosts.yaml"),), nodes=pattern))
        return {name: dict(node.settings.expect) for name, node in prepared.judging.nodes.items()}

    return of


def test_each_group_has_its_order_and_the_inventory_may_say_more(nodes):
    found = nodes("  all: {sockets: 2}\n  h100: {gpus: 8}\n  l40s: {gpus: 4}\n")
    assert found == {
        "gpu1": {"sockets": 2, "gpus": 8},
        "gpu2": {"gpus": 8, "nics": 9, "sockets": 2},
        "gpu3": {"sockets": 2, "gpus": 4},
    }


def test_a_group_that_is_not_asked_for_may_be_ordered(nodes):
    assert nodes("  h100: {gpus: 8}\n  l40s: {gpus: 4}\n", "gpu3") == {"gpu3": {"gpus": 4}}


@pytest.mark.parametrize(
    ("order", "line", "said"),
    [
        ("  h100: {nics: 10}\n", 2, "order.h100.nics is '10' here and '9' at {hosts}:3, both for gpu2"),
        (
            "  all: {gpus: 8}\n  l40s:\n    gpus: 4\n",
            4,
            "order.l40s.gpus is '4' here and '8' at {site}:2, both for gpu3",
        ),
        ("  h100: {gpus: 8}\n  l40: {gpus: 4}\n", 3, "order: the inventory has no group 'l40'"),
        ("  h100: {gpuss: 8}\n", 2, "nodegate_expect: unknown item 'gpuss'"),
        ("  l40s: {gpus: many}\n", 2, "gpus must be a number"),
        ("  h100: 8\n", 1, "order must be a mapping of groups"),
        ("  h100: {}\n", 1, "order must be a mapping of groups"),
    ],
)
def test_what_contradicts_or_is_not_known_is_refused_with_its_place(nodes, order, line, said, tmp_path):
    with pytest.raises(UsageError) as refused:
        nodes(order)
    assert refused.value.file == str(tmp_path / "site.yaml")
    assert refused.value.line == line
    assert said.format(hosts=tmp_path / "hosts.yaml", site=tmp_path / "site.yaml") in refused.value.message


def test_the_demands_of_a_node_have_it(tmp_path, capsys, nodes):
    nodes("  h100: {gpus: 8, nics: 9}\n")
    assert main(["demands", "gpu1", "--inventory", str(tmp_path / "hosts.yaml")]) == 0
    assert '"nics": 9' in capsys.readouterr().out


def test_a_baseline_of_that_name_is_no_site_file(tmp_path):
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    file = tmp_path / "site.yaml"
    file.write_text("platform: hgx-h100-8\nlimits:\n  gpu.power_limit_w: {value: 690, unit: W, source: the site}\n")
    assert prepare(Settings(inventory=(str(tmp_path / "hosts.yaml"),), baselines=(file,))).contract.file == ""


def test_nodes_of_a_group_share_one_order(tmp_path):
    (tmp_path / "hosts.yaml").write_text("gpu:\n  hosts: {gpu1: , gpu2: }\n")
    (tmp_path / "site.yaml").write_text("order:\n  gpu: {gpus: 8}\n")
    nodes = prepare(Settings(inventory=(str(tmp_path / "hosts.yaml"),))).judging.nodes
    assert nodes["gpu1"].settings.expect is nodes["gpu2"].settings.expect  # it may list a thousand serial numbers
