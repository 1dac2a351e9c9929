"""Every form in which the drivers print Xids, SXids and lost GPUs; what an SXid asks for; lines that look like one."""

import pytest

from nodegate.knowledge.sxids import FATAL, NONFATAL, is_fatal, sxid_rule, sxids
from nodegate.knowledge.xid_lines import GpuEvent, SwitchEvent, Unparsed, gpu_events, serials, switch_events
from nodegate.probe.kernel_log import KernelLine


def lines(*texts):
    return [KernelLine(text, float(number)) for number, text in enumerate(texts)]


def only(*texts):
    (event,) = gpu_events(lines(*texts))
    assert isinstance(event, GpuEvent)
    return event


@pytest.mark.parametrize(
    ("parenthesis", "address", "instance"),
    [
        ("PCI:0000:9b:00", "0000:9b:00.0", ""),
        ("PCI:0000:9B:00", "0000:9b:00.0", ""),
        ("PCI:0000:9b:00.1", "0000:9b:00.1", ""),
        ("PCI:00000001:9b:00", "0001:9b:00.0", ""),
        ("PCI:00010000:9b:00", "10000:9b:00.0", ""),
        ("0000:03:00", "0000:03:00.0", ""),
        ("PCI:0000:9b:00 GPU-I:05 GPU-CI:00", "0000:9b:00.0", "GPU-I:05 GPU-CI:00"),
    ],
)
def test_where_it_happened(parenthesis, address, instance):
    event = only(f"NVRM: Xid ({parenthesis}): 94, pid=1, name=python, Contained")
    assert (event.address, event.instance, event.code) == (address, instance, 94)


@pytest.mark.parametrize(
    ("rest", "process", "text"),
    [
        (", pid=7, name=python3, Ch 00000008", "python3", "Ch 00000008"),
        (", pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "<unknown>", "GPU has fallen off the bus."),
        (", pid=7, Contained: CE User Channel (0x9)", "", "Contained: CE User Channel (0x9)"),
        (", pid=7, name=my long name, Ch 8", "my long name", "Ch 8"),
        (", pid=7, name=nvc:[driver], Timeout after 6s", "nvc:[driver]", "Timeout after 6s"),
        (", Graphics SM Warp Exception", "", "Graphics SM Warp Exception"),
        ("", "", ""),
    ],
)
def test_whose_it_was(rest, process, text):
    event = only(f"NVRM: Xid (PCI:0000:9b:00): 43{rest}")
    assert (event.process, event.text) == (process, text)


@pytest.mark.parametrize(
    ("text", "severity", "recovery", "cause"),
    [
        ("45, pid=1, name=x, channel 0x1 caused by previous Xid 31", "", "", 31),
        ("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x1)", "Fatal", "", None),
        ("149, pid=7, name=a b, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x1)", "Nonfatal", "", None),
        ("149, MSE2 Fatal XC1 i0 Link -1 (0x1)", "Fatal", "", None),
        ("154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "", "Drain and Reset", None),
        ("154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)", "", "None", None),
    ],
)
def test_how_bad_it_is_what_the_driver_wants_and_what_it_follows(text, severity, recovery, cause):
    event = only(f"NVRM: Xid (PCI:0018:01:00): {text}")
    assert (event.severity, event.recovery, event.cause) == (severity, recovery, cause)


def test_a_loss_without_an_xid_is_a_79():
    event = only("NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.")
    assert (event.address, event.code) == ("0000:29:00.0", 79)


def test_a_loss_told_in_three_lines_is_one_79():
    event = only(
        "NVRM: The NVIDIA GPU 0000:18:00.0",
        "NVRM: (PCI ID: 10de:2901) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    )
    assert (event.address, event.code) == ("0000:18:00.0", 79)


def test_a_loss_whose_first_line_is_gone_names_no_gpu():
    assert not only("NVRM: fallen off the bus and is not responding to commands.").address


def test_the_serial_number_is_that_of_the_gpu_named_before_it():
    said = lines("NVRM: GPU at PCI:0000:9b:00: GPU-509665ad", "NVRM: GPU Board Serial Number: 1650124014249")
    assert serials(said) == {"0000:9b:00.0": "1650124014249"}


@pytest.mark.parametrize("text", ["NVRM: Xid (PCI:garbled): 79", "NVRM: Xid 79", "NVRM: Xid (PCI:0000:9b:00): xyz"])
def test_a_form_that_is_not_known_is_said(text):
    assert list(gpu_events(lines(text))) == [Unparsed(text, 0.0)]


@pytest.mark.parametrize(
    "text", ["NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.144.03", "a job wrote Xid 79", ""]
)
def test_other_lines_are_no_xids(text):
    assert list(gpu_events(lines(text))) == []


def test_an_sxid_and_its_lines_of_data_are_one_event():
    head = "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, "
    (event,) = switch_events(
        lines(head + "Fatal, Link 30 LTSSM Fault Up", head + "Severity 1 Engine", head + "Data {0x1}")
    )
    assert isinstance(event, SwitchEvent)
    assert (event.switch, event.code, event.severity) == ("nvidia-nvswitch0", 20034, "Fatal")


def test_lines_of_data_alone_are_an_event_without_a_severity():
    (event,) = switch_events(lines("nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 11111, Data {0x1, 0x2}"))
    assert isinstance(event, SwitchEvent)
    assert not event.severity


@pytest.mark.parametrize(
    "text", ["nvidia-nvswitch0: SXid (PCI:0000:00:00.0): xyz, Fatal error", "nvidia-nvswitch0: SXid (invalid): x"]
)
def test_an_sxid_form_that_is_not_known_is_said(text):
    assert list(switch_events(lines(text))) == [Unparsed(text, 0.0)]


def test_the_table_holds_the_codes_of_every_part_of_the_switch():
    assert len(sxids()) == 420
    assert {10003, 11004, 12028, 20009, 20034, 24007, 28006} <= set(sxids())
    assert {code // 1000 for code in sxids()} >= set(range(10, 30)) - {16, 17, 18}


@pytest.mark.parametrize("code", [20034, 12028, 99999])
@pytest.mark.parametrize(("word", "fatal"), [(FATAL, True), (NONFATAL, False)])
def test_the_printed_word_wins(code, word, fatal):
    assert is_fatal(sxid_rule(code), word) is fatal


def test_without_a_word_the_table_decides_and_an_unknown_code_is_not_fatal():
    assert is_fatal(sxids()[20034], "")
    assert not is_fatal(sxids()[20009], "")
    assert not is_fatal(sxid_rule(99999), "")


def test_a_fatal_line_of_a_harmless_code_asks_for_a_reset_of_all():
    harmless = sxids()[10002]
    assert "reset all GPUs and switches" in harmless.action_for(fatal=True).en
    assert harmless.action_for(fatal=False).en == "watch it: the switch continued"
