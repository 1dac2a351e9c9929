"""dcgmi diag, as JSON of 3.x and 4.x and as a table, and dcgmi nvlink."""

from __future__ import annotations

import json

import pytest
from support.corpus import corpus
from support.recordings import recording

from nodegate.errors import CannotMeasure
from nodegate.tools import dcgmi, dcgmi_nvlink
from nodegate.tools.dcgmi_nvlink import LinkState
from nodegate.tools.dcgmi_result import Diagnosis, Result, Status, Test, severity
from nodegate.unknown import Unknown, Why

PASS, WARN, FAIL, SKIP, NOT_RUN = Status.PASS, Status.WARN, Status.FAIL, Status.SKIP, Status.NOT_RUN


def read(name: str) -> Diagnosis:
    return dcgmi.parse(recording("dcgmi", name))


def statuses(found: Diagnosis) -> dict[str, Status]:
    return {test.name: test.status for test in found.tests}


def test_(found: Diagnosis, name: str) -> Test:
    return next(test for test in found.tests if test.name == name)


test_.__test__ = False


def written(**root: object) -> str:
    return json.dumps({"DCGM Diagnostic": root})


def of_tests(*tests: object, version: str = "4.2.3") -> str:
    categories = [{"category": "Hardware", "tests": list(tests)}]
    return json.dumps({"DCGM Diagnostic": {"test_categories": categories}, "metadata": {"version": version}})


# JSON


def test_json_of_3_x_behind_other_text():
    found = read("3.x-healthy.json")
    assert (found.version, found.driver, found.overall) == ("3.3.9", "550.90.07", PASS)
    memory = found.tests[-1]
    assert (memory.category, memory.name) == ("Hardware", "GPU Memory")
    assert memory.results == (Result("GPU 0", PASS), Result("GPU 1", PASS))
    assert memory.info[0] == "Allocated 83211452416 bytes (97.5%)"
    assert found.tests[0].results == (Result("", PASS),)
    assert found.gpus == ("GPU 0", "GPU 1")
    assert found.not_judged == ()


def test_json_of_4_x():
    found = read("4.x-healthy.json")
    assert (found.version, found.driver, found.overall) == ("4.2.3", "570.148.08", PASS)
    assert (found.listed, found.not_judged) == (("GPU 0", "GPU 1"), ())
    assert list(statuses(found)) == ["software", "memory", "nvbandwidth", "pcie"]


def test_a_fault_of_4_x_has_its_number_and_its_severity():
    found = read("4.x-faulty.json")
    memory = test_(found, "memory")
    assert (found.overall, memory.status, memory.of("GPU 0"), memory.of("GPU 1")) == (FAIL, FAIL, PASS, FAIL)
    (warned,) = memory.warnings
    assert (warned.entity, warned.error_id, warned.error_category, warned.severity) == ("GPU 1", 83, 6, "RESET")
    assert "row remappings are pending" in warned.message
    assert test_(found, "software").info == ("Cannot read the SRAM threshold count",)


def test_what_was_skipped_or_left_out_is_named():
    found = read("4.x-faulty.json")
    assert found.not_judged == ("diagnostic GPU 0", "diagnostic GPU 1", "diagnostic", "nvbandwidth GPU 1")
    assert test_(found, "nvbandwidth").of("GPU 1") is NOT_RUN


def test_a_fault_of_an_old_release_has_the_severity_of_that_release():
    found = read("3.1-faulty.json")
    (config,), (ecc,) = (test_(found, name).warnings for name in ("Persistence Mode", "GPU Memory"))
    assert (config.entity, config.error_id, config.severity) == ("", 29, "ISOLATE")
    assert (ecc.entity, ecc.error_id, ecc.severity) == ("GPU 1", 9, "ISOLATE")
    assert statuses(found)["Persistence Mode"] is WARN
    assert found.overall is FAIL


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("2.4.8", "MONITOR ISOLATE UNKNOWN"),
        ("3.2.6", "MONITOR ISOLATE UNKNOWN"),
        ("3.3.1", "NONE MONITOR ISOLATE UNKNOWN TRIAGE CONFIG RESET"),
        ("4.4.1-1", "NONE MONITOR ISOLATE UNKNOWN TRIAGE CONFIG RESET"),
    ],
)
def test_the_words_of_each_release(version, words):
    assert [severity(code, version) for code in range(len(words.split()))] == words.split()
    assert isinstance(severity(len(words.split()), version), Unknown)
    assert isinstance(severity(-1, version), Unknown)


@pytest.mark.parametrize("version", ["1.7", "3.2.7", "3.3.0", "5.0.0", "four", "", Unknown(Why.MISSING)])
def test_a_release_without_a_table_has_no_word(version):
    assert isinstance(severity(1, version), Unknown)


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("PASS", PASS),
        ("pass", PASS),
        ("Warn", WARN),
        ("fail", FAIL),
        ("SKIP", SKIP),
        ("Not Run", NOT_RUN),
        ("", NOT_RUN),
    ],
)
def test_a_status_in_any_case(word, status):
    assert dcgmi.parse(of_tests({"name": "memory", "results": [{"status": word}]})).overall is status


@pytest.mark.parametrize(
    "test",
    [
        {"name": "memory", "results": []},
        {"name": "memory"},
        {"name": "memory", "results": [{"entity_group": "GPU", "entity_id": 0, "status": "Skip"}]},
        {"name": "memory", "results": [{"gpu_ids": "0", "status": "Pass"}, {"gpu_ids": "1", "status": "Skip"}]},
        {"name": "memory", "results": [{"status": "Pass"}], "test_summary": {"status": ""}},
    ],
)
def test_what_was_not_judged_is_no_pass(test):
    found = dcgmi.parse(of_tests(test))
    assert found.overall in (SKIP, NOT_RUN)
    assert found.not_judged


def test_a_gpu_that_no_test_names_is_no_pass():
    document = json.loads(recording("dcgmi", "4.x-healthy.json"))
    document["entity_groups"][0]["entities"].append({"entity_id": 2})
    found = dcgmi.parse(json.dumps(document))
    assert (found.overall, found.not_judged) == (NOT_RUN, ("GPU 2",))


def test_a_gpu_that_one_test_leaves_out_is_no_pass():
    document = json.loads(recording("dcgmi", "3.x-healthy.json").partition("\n")[2])
    del document["DCGM GPU Diagnostic"]["test_categories"][2]["tests"][0]["results"][0]
    found = dcgmi.parse(json.dumps(document))
    assert (found.overall, found.not_judged) == (NOT_RUN, ("GPU Memory GPU 0",))


def test_the_release_stands_in_the_metadata_or_within_or_beside_the_results():
    tests = [{"category": "Hardware", "tests": [{"name": "memory", "results": [{"status": "Pass"}]}]}]
    assert dcgmi.parse(written(test_categories=tests, version="3.3.1")).version == "3.3.1"
    assert isinstance(dcgmi.parse(written(test_categories=tests)).version, Unknown)


def test_a_warning_that_is_only_a_sentence():
    row = {"gpu_ids": "0,1", "status": "FAIL", "warnings": ["too hot"], "info": "31 C"}
    (test,) = dcgmi.parse(of_tests({"name": "memory", "results": [row]})).tests
    assert test.results == (Result("GPU 0", FAIL), Result("GPU 1", FAIL))
    (warned,) = test.warnings
    assert (warned.entity, warned.message, test.info) == ("", "too hot", ("31 C",))
    assert isinstance(warned.error_id, Unknown)
    assert isinstance(warned.severity, Unknown)


# what says nothing


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("empty.txt", "is empty"),
        ("4.x-truncated.json", 'is cut off or broken at line 25: "status": "Pass"'),
        ("4.x-runtime-error.json", "did not run: Unable to run diagnostic .* GPU 3 is in use"),
        ("no-host-engine.txt", "Host engine connection invalid"),
        ("3.x-truncated.txt", r"cut off behind: \| GPU Memory +\| Pass - All"),
    ],
)
def test_an_output_that_says_nothing_is_quoted(name, said):
    with pytest.raises(CannotMeasure, match=said):
        read(name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "without DCGM Diagnostic"),
        ('{"DCGM Diagnostic": []}', "without"),
        ('{"DCGM Diagnostic": {}}', "holds no test"),
        ('{"DCGM Diagnostic": {"test_categories": []}}', "holds no test"),
        ('{"DCGM Diagnostic": {"test_categories": {}}}', "test_categories that are no list"),
        ('"DCGM Diagnostic"', "cut off at"),
        ("[" * 3000 + '{"DCGM Diagnostic"', "cut off or broken"),
        ('{"DCGM Diagnostic": ' + "[" * 100_000, "broken|too deep"),
        (of_tests({"results": [{"status": "Pass"}]}), "without a name"),
        (of_tests({"name": "m", "results": [{"status": "Fine"}]}), "Fine"),
        (of_tests({"name": "m", "results": [{}]}), "a status that is none"),
        (of_tests({"name": "m", "results": [{"gpu_id": "all", "status": "Pass"}]}), "GPU all"),
        (of_tests({"name": "m", "results": [{"entity_group": "GPU", "entity_id": -1, "status": "Pass"}]}), "GPU -1"),
        (of_tests({"name": "m", "results": [{"status": "Pass"}]}) * 2, "several runs"),
        (of_tests(*[{"name": "m", "results": [{"status": "Pass"}]}] * 257), "more than 256 tests"),
        (of_tests({"name": "m", "results": [{"status": "Pass"}] * 4097}), "more than 4096 results"),
        (" " * (dcgmi.MAX_TEXT + 1) + "x", "is longer"),
    ],
)
def test_what_is_no_result_is_refused(text, said):
    with pytest.raises(CannotMeasure, match=said):
        dcgmi.parse(text)


@pytest.mark.parametrize("name", ["3.x-healthy.json", "4.x-healthy.json", "3.x-healthy.txt"])
def test_no_beginning_of_an_output_is_a_pass(name):
    whole = recording("dcgmi", name).rstrip()
    assert dcgmi.parse(whole).overall is PASS
    for end in range(0, len(whole), 7):
        with pytest.raises(CannotMeasure):
            dcgmi.parse(whole[:end])


# the table


def test_a_table_of_3_x():
    found = read("3.x-healthy.txt")
    assert (found.version, found.driver, found.overall) == ("3.3.9", "550.90.07", PASS)
    assert len(found.tests) == 11
    assert [(test.category, test.name) for test in found.tests[-2:]] == [
        ("Integration", "PCIe"),
        ("Hardware", "GPU Memory"),
    ]


def test_a_table_with_a_fault_is_put_together_again():
    found = read("3.x-faulty.txt")
    memory, diagnostic = found.tests[-2:]
    assert (found.overall, memory.status, memory.of("GPU 3"), memory.of("GPU 15")) == (FAIL, FAIL, FAIL, PASS)
    assert len(memory.results) == 16
    (warned,) = memory.warnings
    assert warned.message == (
        "GPU 3 Detected 2 double-bit ECC errors on GPU 3, which the driver counts as volatile. "
        "Drain the GPU and reset it or reboot the node."
    )
    assert isinstance(warned.severity, Unknown)
    assert memory.info == ("Allocated 83211452416 bytes (97.5%)",)
    assert (diagnostic.name, diagnostic.status) == ("Diagnostic", SKIP)
    assert found.not_judged == ("Diagnostic",)


def test_a_table_of_4_x():
    found = read("4.x-faulty.txt")
    assert (found.version, found.driver, found.overall) == ("4.4.1", "580.95.05", FAIL)
    memory, pcie = found.tests[1:]
    assert (memory.of("GPU 0"), memory.of("GPU 1"), memory.warnings[0].entity) == (PASS, FAIL, "GPU 1")
    assert memory.warnings[0].message.endswith("row remappings are pending. Reset the GPU.")
    assert (pcie.of("GPU 0"), pcie.of("GPU 1"), pcie.status) == (PASS, NOT_RUN, NOT_RUN)


def test_a_table_that_is_cut_off_behind_a_failure_still_says_it():
    found = read("3.x-truncated-behind-a-failure.txt")
    assert (found.overall, found.ended) == (FAIL, False)
    assert found.tests[-1].of("GPU 3") is FAIL


def test_an_error_of_no_test_is_a_failure():
    found = read("row-remap-pending.txt")
    assert found.errors == ("GPU 5 has uncorrectable memory errors and row remappings are pending",)
    assert (found.tests, found.overall) == ((), FAIL)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Pass - All", "Good      ", "PCIe Good"),
        ("| PCIe ", "  PCIe ", "none of its table: PCIe"),
        ("Pass - All", "Fail - GPU: ", "PCIe Fail"),
    ],
)
def test_a_row_that_cannot_be_read_is_quoted(old, new, said):
    text = recording("dcgmi", "3.x-healthy.txt").replace(old, new, 1)
    with pytest.raises(CannotMeasure, match=said):
        dcgmi.parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("| Warning | GPU 0 is hot |", "a warning without a test"),
        ("|         | Fail - GPU: 0 |", "begins within a row"),
        ("| GPU Memory", "none of its table"),
        ("+-----+-----+", "cut off"),
        ("+-----+-----+\n+-----+-----+", "holds no test"),
    ],
)
def test_a_piece_of_a_table_is_refused(text, said):
    with pytest.raises(CannotMeasure, match=said):
        dcgmi.parse(text)


def test_two_tables_are_the_results_of_two_runs():
    said, _, table = recording("dcgmi", "3.x-healthy.txt").partition("\n")
    for twice in (table * 2, f"{said}\n{table}" * 2):
        with pytest.raises(CannotMeasure, match=r"several runs|none of its table: Successfully"):
            dcgmi.parse(twice)


# dcgmi nvlink


def test_the_state_of_links():
    found = dcgmi_nvlink.parse_status(recording("dcgmi", "nvlink-status.txt"))
    assert list(found) == ["GPU 0", "GPU 1", "NvSwitch 11"]
    assert set(found["GPU 0"]) == {LinkState.UP}
    assert (found["GPU 1"][2], found["GPU 1"][16:]) == (LinkState.DOWN, (LinkState.DISABLED, LinkState.NOT_SUPPORTED))


def test_the_errors_of_links():
    found = dcgmi_nvlink.parse_errors(recording("dcgmi", "nvlink-errors.json"))
    assert (found.gpu, list(found.counts)) == (2, [0, 1, 2, 3, 4, 5])
    assert (found.counts[3]["CRC Data Error"], found.counts[3]["Replay Error"]) == (7, 0)
    assert isinstance(found.counts[4]["Replay Error"], Unknown)


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (dcgmi_nvlink.parse_status, "", "names no GPU"),
        (dcgmi_nvlink.parse_status, recording("dcgmi", "nvlink-status-truncated.txt"), "cut off behind GPU 1"),
        (dcgmi_nvlink.parse_status, "gpuId 0:\n  U U Q\n", "U U Q"),
        (dcgmi_nvlink.parse_status, "gpuId 0:\n U\ngpuId 0:\n U\n", "twice"),
        (dcgmi_nvlink.parse_errors, "", "it is empty"),
        (dcgmi_nvlink.parse_errors, recording("dcgmi", "nvlink-errors-truncated.json"), "no whole JSON"),
        (dcgmi_nvlink.parse_errors, "[]", "names no GPU"),
        (dcgmi_nvlink.parse_errors, '{"header": ["GPU 0"], "body": {}}', "names no link"),
        (dcgmi_nvlink.parse_errors, '{"header": ["GPU 0"], "body": {"Port 1": {}}}', "Port 1"),
        (dcgmi_nvlink.parse_errors, '{"header": ["GPU 0"], "body": {"Link 1": {}}}', "no count for Link 1"),
    ],
)
def test_what_says_nothing_of_links_is_quoted(parse, text, said):
    with pytest.raises(CannotMeasure, match=said):
        parse(text)


# real outputs, with their truth


def test_the_run_of_an_a100_node_passed():  # all Pass; empty Stress section
    found = dcgmi.parse(corpus("dcgm/awscheat_r3_text.txt"))
    assert (found.version, found.driver, found.overall) == ("3.3.3", "535.104.12", PASS)
    assert set(statuses(found).values()) == {PASS}
    assert "Stress" not in {test.category for test in found.tests}


def test_dcgms_own_document_has_a_skipped_gpu():  # GPU 0 memory SKIP (ECC off); the others passed
    found = dcgmi.parse(corpus("dcgm/dcgm_per_gpu.json"))
    memory = test_(found, "memory")
    assert [memory.of(f"GPU {number}") for number in range(4)] == [SKIP, PASS, PASS, PASS]
    (warned,) = memory.warnings
    assert (warned.entity, warned.error_id) == ("GPU 0", 55)
    assert "ECC memory on GPU 0 is not currently active" in warned.message
    assert isinstance(warned.severity, Unknown)  # "1.7" is no release of which we know the numbers
    stress = test_(found, "sm_stress")
    assert [stress.of(f"GPU {number}") for number in range(4)] == [FAIL, PASS, FAIL, FAIL]
    assert found.overall is FAIL


def test_the_shortened_documents_of_3_x():
    good = dcgmi.parse(corpus("dcgm/gcm_diag_pass.json"))
    assert (good.overall, set(statuses(good).values())) == (PASS, {PASS})
    faulty = dcgmi.parse(corpus("dcgm/gcm_diag_fail.json"))
    not_passed = {name: status for name, status in statuses(faulty).items() if status is not PASS}
    assert not_passed == {"Persistence Mode": FAIL, "Environment Variables": WARN}


def test_a_sentence_that_is_split_over_rows():
    found = dcgmi.parse(corpus("dcgm/stas_row_remap_fail.txt"))
    assert found.errors == ("GPU 3 has uncorrectable memory errors and row remappings are pending",)
    assert (found.overall, found.ended) == (FAIL, False)


def test_words_that_are_broken_over_rows():
    (memory,) = dcgmi.parse(corpus("dcgm/stas_thermal_fail.txt")).tests
    assert memory.of("GPU 0") is FAIL
    assert {memory.of(f"GPU {number}") for number in range(1, 8)} == {PASS}
    (warned,) = memory.warnings
    assert warned.message.startswith("GPU 0 Thermal violations totaling 13.3 seconds started at 9.7 seconds into the")
    assert warned.message.endswith("thermal material interface, fans, and any other components.")


def test_real_links():
    found = dcgmi_nvlink.parse_errors(json_text := corpus("dcgm/gcm_nvlink_err.json"))
    assert '"12"' in json_text
    bad = [(link, name, count) for link, its in found.counts.items() for name, count in its.items() if count != 0]
    assert bad == [(0, "CRC Data Error", 12)]
    links = dcgmi_nvlink.parse_status(corpus("dcgm/gcm_nvlink_status_down.txt"))
    down = {owner: [at for at, state in enumerate(its) if state is LinkState.DOWN] for owner, its in links.items()}
    assert down == {"GPU 0": [3], "GPU 1": [6]}
    assert links["GPU 1"][-2:] == (LinkState.DISABLED, LinkState.DISABLED)
