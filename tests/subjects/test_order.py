"""nodegate_expect: what is refused, with the line and the near word, and that a run keeps it."""

import pytest
from fleet.machine import Machine
from support.recorded import run_pytest, write_fleet

from nodegate.commands.expect import learn_from
from nodegate.errors import UsageError
from nodegate.node import Node
from nodegate.records.run_folder import RunFolder
from nodegate.run.conditions import read as read_run
from nodegate.run.conditions import read_earlier
from nodegate.subjects.order import check_orders


@pytest.mark.parametrize(
    ("order", "message", "hint"),
    [
        ({"drivr": "550"}, "unknown item 'drivr'", "did you mean driver?"),
        ({"nic_firmwares": "28"}, "unknown item 'nic_firmwares'", "did you mean nic_firmware or gsp_firmware?"),
        ({"driver": 550.1}, "driver must be text, not 550.1", 'put it in quotes: driver: "550.1"'),
        ({"driver": ""}, "driver must be text, not ''", ""),
        ({"driver": []}, "driver is an empty list, which nothing can satisfy", "leave the item out"),
        ({"driver": ">= 55O"}, "driver: '>= 55O' is no bound of a version", 'reads ">= 550.54, < 560"'),
        ({"driver": ">= 550, 560"}, "driver: '560' is no bound of a version", ""),
        ({"kernel": ">= 6.9, < 5.15"}, "kernel: nothing is '>= 6.9, < 5.15'", "a range of versions reads"),
        ({"kernel": "> 5.15, <= 5.15.0"}, "kernel: nothing is", ""),
        ({"kernel": "> 5.15, > 5.16, < 5.16"}, "kernel: nothing is", ""),
        ({"kernel": [">= 5.15", "< 5, > 6"]}, "kernel: nothing is '< 5, > 6'", ""),
        ({"vbios": ">= 96.00.A0, < 96.00.9F"}, "vbios: nothing is", ""),
        ({"gpus": ">= 9, < 8"}, "gpus: nothing is", ""),
        *(
            ({"kernel": each}, "is not understood", "")
            for each in ("=> 5.15", "=5.15", "== 5.15", "!= 6", "~5", "≥ 5.15")
        ),
        *(({"kernel": each}, "is not understood", "") for each in ("5.15 <", "5.15, < 6", "v>=5")),
        ({"os": "=Ubuntu"}, "is not understood: = is not a sign of a range", "strings have no order"),
        ({"gpus": "=8"}, "is not understood", ""),
        ({"os": ">= 22"}, "os: '>= 22' is no bound of a text", "strings have no order"),
        ({"gpus": "eight"}, "gpus must be a number or a range of numbers, not 'eight'", ""),
        ({"gpus": -8}, "gpus must be a number or a range of numbers, not -8", ""),
        ({"gpus": True}, "gpus must be a number or a range of numbers, not True", ""),
        ({"ecc": "yes"}, "ecc must be on or off, not 'yes'", ""),
        (["driver"], "nodegate_expect must map items to values", "for example"),
        ("{driver", "nodegate_expect must map items to values", "for example"),
    ],
)
def test_what_could_not_be_demanded_is_refused_with_its_line(order, message, hint):
    node = Node(
        "gpu01", expected={"expect": order}, origin="hosts.yaml:3", origins={"expect": "group_vars/h100.yaml:2"}
    )
    with pytest.raises(UsageError) as said:
        check_orders([node])
    assert message in said.value.message
    assert hint in (said.value.hint or "")
    assert (said.value.file, said.value.line) == ("group_vars/h100.yaml", 2)


@pytest.mark.parametrize(
    "value", [">= 5.15, < 6", ">= 5.15, <= 5.15.0", "> 5.15", "< 6", "5.15.0-*", "5.15.0-105-generic"]
)
def test_a_range_that_can_hold_is_taken(value):
    check_orders([Node("gpu01", expected={"expect": {"kernel": value}})])


def a_fleet_with_one_firmware_everywhere(firmware):
    machines = [Machine.hgx_h100(f"gpu{number:04}", number) for number in range(1, 5)]
    for machine in machines:
        for device in machine.sections["infiniband"].values():
            if device["hca_type"] == "MT4129":
                device["fw_ver"] = firmware
    return machines


def test_a_fleet_with_one_firmware_too_old_everywhere_is_rejected_by_what_a_signed_run_had(tmp_path):
    good, old = tmp_path / "good", tmp_path / "old"
    good.mkdir(), old.mkdir()
    signed = write_fleet(good, a_fleet_with_one_firmware_everywhere("28.41.1000"))
    run_pytest(good, ["--inventory", str(signed), "-q", "-p", "no:cacheprovider"])
    delivered = write_fleet(old, a_fleet_with_one_firmware_everywhere("28.36.1010"))
    arguments = ["--inventory", str(delivered), "-q", "-p", "no:cacheprovider", "--passive"]
    assert set(run_pytest(old, arguments).verdicts("ordered.versions").values()) == {"skip"}

    (old / "group_vars").mkdir()
    (old / "group_vars" / "all.yaml").write_text(learn_from(good / "reports" / "latest").text)
    outcome = run_pytest(old, arguments)
    assert set(outcome.verdicts("ordered.versions").values()) == {"fail"}
    assert "firmware (MT4129) 28.36.1010, expected 28.41.1000" in outcome.stdout
    assert set(outcome.verdicts("ordered.parts").values()) == {"pass"}

    again = run_pytest(old, ["--replay", str(outcome.folder.resolve()), "-q", "-p", "no:cacheprovider", "--passive"])
    assert set(again.verdicts("ordered.versions").values()) == {"fail"}
    earlier = read_earlier(RunFolder.existing(outcome.folder))
    assert earlier.nodes[0].origins["expect"] == f"{old}/group_vars/all.yaml:5"
    assert len(read_run(RunFolder.existing(outcome.folder)).orders) == 1
