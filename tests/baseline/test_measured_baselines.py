"""Values that were measured: under which conditions one holds, and several of them under one key."""

import pytest

from nodegate.baseline import baseline_file
from nodegate.baseline.entry import Entry
from nodegate.errors import UsageError
from nodegate.files import strict_yaml

KEY = "nccl.all_reduce_gb_per_s"
H100 = f"""
platform: hgx-h100-8
limits:
  {KEY}:
    unit: GB/s
    direction: at least
    peak: 787
    variants:
      - parameters: {{size_bytes: 8589934592, gpus: 8}}
        value: 480
        tolerance: 0.06
        source: issue 212
      - parameters: {{size_bytes_min: 536870912, gpus: 8}}
        value: 445
        tolerance: 0.1
        source: aiconfigurator
"""


def entry(text=H100, key=KEY):
    return baseline_file.parse(strict_yaml.load(text, "b.yaml")).limits[key]


def measured(size_bytes, gpus=8, **more):
    return {"tool": "all_reduce_perf", "size_bytes": str(size_bytes), "gpus": str(gpus), **more}


def stored(parameters):
    return entry(f"platform: p\nlimits:\n  a.b: {{value: 8, unit: W, source: s, parameters: {parameters}}}\n", "a.b")


class TestWhichValueCounts:
    def test_each_message_size_has_its_own(self):
        sizes = 8 << 30, 1 << 30, 512 << 20
        found = [each for size in sizes if isinstance(each := entry().for_conditions(measured(size)), Entry)]
        assert [each.value for each in found] == [480, 445, 445]
        assert found[0].limit.value == pytest.approx(451.2)
        assert found[2].limit.source == f"10 % below 445 GB/s, b.yaml {KEY}: aiconfigurator"

    def test_a_smaller_message_is_not_judged_and_the_difference_is_said(self):
        assert entry().for_conditions(measured(1 << 20)) == (
            "stored for size_bytes 8589934592, measured with 1048576; "
            "stored for size_bytes from 536870912, measured with 1048576"
        )

    def test_a_node_with_seven_gpus_is_not_held_to_a_value_of_eight(self):
        assert entry().for_conditions(measured(8 << 30, gpus=7)) == "stored for gpus 8, measured with 7"

    def test_a_condition_that_the_measurement_does_not_say_is_a_difference(self):
        assert stored("{path: cublas}").for_conditions({"matrix": "8192"}) == (
            "stored for path cublas, but the measurement does not report its path"
        )

    def test_a_value_without_parameters_holds_for_every_measurement(self):
        plain = entry("platform: p\nlimits:\n  a.b: {value: 8, unit: W, source: s}\n", "a.b")
        assert plain.for_conditions({}) is plain
        assert plain.for_conditions(measured(1)) is plain

    def test_a_list_stands_for_any_of_its_items(self):
        either = stored("{dtype: [float, half]}")
        assert isinstance(either.for_conditions({"dtype": "half"}), Entry)
        assert either.for_conditions({"dtype": "int8"}) == "stored for dtype float or half, measured with int8"

    @pytest.mark.parametrize(
        ("parameters", "given", "fits"),
        [
            ("{size_bytes: 512}", "512", True),
            ("{size_bytes: 512}", "512.0", True),
            *(("{size_bytes: 512}", hostile, False) for hostile in ("", "nan", "a lot", "-inf", "9" * 400)),
            *(("{size_bytes_min: 512}", hostile, False) for hostile in ("", "nan", "a lot", "inf", "-inf")),
        ],
    )
    def test_numbers_are_compared_as_numbers(self, parameters, given, fits):
        assert isinstance(stored(parameters).for_conditions({"size_bytes": given}), Entry) is fits


class TestVariantsInAFile:
    def test_the_entry_itself_shows_the_first_and_knows_each_line(self):
        found = entry()
        assert (found.value, found.line, found.peak) == (480, 4, 787)
        assert [each.line for each in found.variants] == [9, 13]
        assert {each.peak for each in found.variants} == {787}

    @pytest.mark.parametrize(
        ("body", "complaint"),
        [
            ("variants: []", "b.yaml:3: a.b: variants must be a list"),
            ("variants: [8]", "b.yaml:3: a.b: a variant must be a mapping of names"),
            ("variants: [{value: 8, source: s}]", "a.b: a variant needs parameters"),
            ("variants: [{value: 8, parameters: {x: 1}}]", "needs source: some text"),
            ("variants: [{source: s, parameters: {x: 1}}]", "a.b has no value"),
            ("value: 8, variants: [{value: 8, source: s, parameters: {x: 1}}]", "a.b: value belongs in each of the"),
            ("variants: [{value: 8, source: s, unit: MW, parameters: {x: 1}}]", "unknown key 'unit'"),
            ("variants: [{value: 8, source: s, parameter: {x: 1}}]", "unknown key 'parameter' - did you mean param"),
            ("variants: [{value: 8, source: s, parameters: {x_min: lots}}]", "x_min must be a number, not 'lots'"),
            ("variants: [{value: 8, source: s, parameters: {x: {y: 1}}}]", "x: {'y': 1} is not a number"),
            ("variants: [{value: 8, source: s, parameters: {x: []}}]", "x: [] is not a number"),
            (
                "variants: [{value: 8, source: s, parameters: {x: 1}}, {value: 9, source: s, parameters: {x: 1}}]",
                "b.yaml:3: a.b: two variants for x 1 - keep one of them",
            ),
        ],
    )
    def test_a_slip_of_the_pen_is_an_error_with_its_line(self, body, complaint):
        with pytest.raises(UsageError) as problem:
            entry(f"platform: p\nlimits:\n  a.b: {{unit: W, {body}}}\n", "a.b")
        assert complaint in str(problem.value)

    def test_a_complaint_about_a_variant_has_the_variant_s_own_line(self):
        with pytest.raises(UsageError, match=r"^b\.yaml:14: "):
            entry(H100.replace("value: 445", "value: lots, tolerance: lots"))
