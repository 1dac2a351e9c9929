"""What scontrol says, as Slurm 22.05 wrote it, and what is never handed to it."""

import pytest

from nodegate.hook import slurm
from nodegate.scheduler import programs
from nodegate.scheduler.programs import NoAnswer

# Recorded on a node of the lab (lab/slurm), shortened in the middle.
SHOWN = """\
NodeName=gpu-2 Arch=x86_64 CoresPerSocket=1
   CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=13.46
   Gres=gpu:h100:8
   NodeAddr=192.0.2.2 NodeHostName=gpu-2 Version=22.05.8
   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu
   BootTime=2026-11-21T17:33:12 SlurmdStartTime=2026-11-21T17:33:16
   CurrentWatts=0 AveWatts=0
   ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s
"""
SIGNED = "   Reason={reason} [root@2026-11-21T17:47:01]\n"


def shown(state, reason=""):
    return slurm.parse(SHOWN.format(state=state) + (SIGNED.format(reason=reason) if reason else ""))


@pytest.mark.parametrize(
    ("state", "is_drained", "not_in_service"),
    [
        ("IDLE", False, ""),
        ("MIXED+PLANNED", False, ""),
        ("IDLE*", False, ""),
        ("IDLE+NOT_RESPONDING", False, ""),
        ("IDLE+MAINTENANCE", False, ""),
        ("IDLE+DRAIN", True, ""),
        ("ALLOCATED+DRAIN", True, ""),
        ("DOWN*+DRAIN", True, "DOWN"),
        ("DOWN", False, "DOWN"),
        ("IDLE+FAIL", False, "FAIL"),
        ("IDLE+REBOOT_ISSUED", False, "REBOOT_ISSUED"),
        ("IDLE+POWERED_DOWN", False, "POWERED_DOWN"),
        ("IDLE+POWERING_UP", False, "POWERING_UP"),
    ],
)
def test_a_state(state, is_drained, not_in_service):
    node = shown(state)
    assert (node.is_drained, node.not_in_service) == (is_drained, not_in_service)


def test_a_reason_is_read_without_slurms_signature():
    node = shown("IDLE+DRAIN", "maintenance by ops [rack 4]")
    assert (node.reason, node.is_ours) == ("maintenance by ops [rack 4]", False)
    assert shown("IDLE+DRAIN", "nodegate: GPU 3: lost").is_ours
    assert not shown("IDLE+DRAIN", "see nodegate: GPU 3").is_ours
    assert not shown("IDLE+DRAIN").is_ours


@pytest.mark.parametrize("text", ["", "Node gpu-9 not found\n", "State=\n"])
def test_an_answer_without_a_state_is_none(text):
    with pytest.raises(NoAnswer, match="printed no state"):
        slurm.parse(text)


def scontrol(folder, monkeypatch, script):
    program = folder / "scontrol"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_a_drain_is_one_call_for_one_node(tmp_path, monkeypatch):
    scontrol(tmp_path, monkeypatch, f'printf "%s\\n" "$@" >{tmp_path}/asked')
    slurm.drain("gpu-2", "nodegate: GPU 3 (0000:43:00.0): lost")
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["update", "nodename=gpu-2", "state=drain", "reason=nodegate: GPU 3 (0000:43:00.0): lost"]


@pytest.mark.parametrize("name", ["gpu[1-128]", "gpu1,gpu2", "", "ALL nodes", "-a", "gpu1\ngpu2"])
def test_more_than_one_node_is_never_named(name):
    with pytest.raises(NoAnswer, match="is not a valid node name"):
        slurm.drain(name, "nodegate: x")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("sleep 60", "did not answer within 0.2 s"),
        ("echo 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1", "Unable to contact"),
        ("kill -9 $$", "exit code -9"),
    ],
)
def test_a_controller_that_does_not_answer_is_not_waited_for(tmp_path, monkeypatch, script, words):
    monkeypatch.setattr(slurm, "LIMIT_S", 0.2 if "sleep" in script else 30)
    scontrol(tmp_path, monkeypatch, f"PATH=/usr/bin:/bin; exec sh -c '{script.replace(chr(39), chr(34))}'")
    with pytest.raises(NoAnswer, match=words):
        slurm.node("gpu-2")


def test_a_node_without_scontrol_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "USUAL", "")
    with pytest.raises(NoAnswer, match="scontrol is not installed on this node"):
        slurm.undrain("gpu-2")
