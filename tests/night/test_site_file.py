"""site.yaml is read strictly, and what the command line has wins over it."""

import pytest

from nodegate.cli import main
from nodegate.commands import nightly
from nodegate.errors import UsageError
from nodegate.night.settings import NightSettings, settings
from nodegate.site.site_file import read

WHOLE = """
night:
  {inventory: hosts.yaml, nodes: "gpu[1-4]", within: 90m, every: 5d, most_nodes: 32, delay: 20m, options: [--burn, 90s]}
notices: {to: ["feishu:@feishu.url", "mailto:ops@example.org"], lang: zh}
record: {file: fleet.sqlite, keep: 30d}
"""


def asked(*arguments):
    import argparse

    parser = argparse.ArgumentParser()
    nightly.add_arguments(parser)
    return settings(parser.parse_args(arguments))


def write(folder, text):
    (folder / "hosts.yaml").write_text("all: {hosts: {gpu1: }}\n")
    file = folder / "site.yaml"
    file.write_text(text)
    return file


def test_a_site_file_sets_the_whole_night(tmp_path):
    found = asked("--site", str(write(tmp_path, WHOLE)))
    assert found == NightSettings(
        inventory=(str(tmp_path / "hosts.yaml"),),
        nodes="gpu[1-4]",
        within_s=5400.0,
        every_s=5 * 86400.0,
        most_nodes=32,
        keep_s=30 * 86400.0,
        delay_s=1200.0,
        record=tmp_path / "fleet.sqlite",
        notices=("feishu:@feishu.url", "mailto:ops@example.org"),
        lang="zh",
        options=("--burn", "90s"),
    )


def test_the_command_line_wins(tmp_path):
    site = str(write(tmp_path, WHOLE))
    given = ["--within", "10m", "--every", "1d", "--keep", "60d", "--most-nodes", "1", "--notice", "program:/bin/true"]
    found = asked("--site", site, "--inventory", "gpu9,", *given, "--lang", "en", "--", "--passive")
    assert (found.inventory, found.within_s, found.every_s, found.keep_s) == (("gpu9,",), 600.0, 86400.0, 60 * 86400.0)
    assert (found.most_nodes, found.notices, found.lang, found.options) == (
        1,
        ("program:/bin/true",),
        "en",
        ("--passive",),
    )


def test_the_file_beside_the_inventory_is_read_without_being_named(tmp_path):
    write(tmp_path, "night: {within: 30m}\n")
    assert asked("--inventory", str(tmp_path / "hosts.yaml")).within_s == 1800.0
    assert asked("--inventory", "gpu1,").within_s == 7200.0


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("nights: {}", 1, "did you mean night?"),
        ("night:\n  witin: 90m", 2, "did you mean within?"),
        ("night:\n  within: 90", 2, "must be a time with its unit"),
        ("night:\n  within: 3000d", 2, "must be a time with its unit"),
        ("night:\n  within: 10s", 2, "from 60 s"),
        ("night:\n  most_nodes: 0", 2, "must be a whole number from 1"),
        ("night:\n  most_nodes: true", 2, "must be a whole number from 1"),
        ("night:\n  options: [1]", 2, "must be some text"),
        ("night: [within]", 1, "must be a mapping"),
        ("- night", 1, "a site file must be a mapping"),
        ("record:\n  keep: 1h", 2, "from 86400 s"),
        ("record:\n  file: !vault x", 2, "must be some text"),
        ("notices:\n  lang: fr", 2, "must be en or zh"),
        ("notices:\n  to: feishu:https://open.feishu.cn/hook/SECRET", 2, "feishu:@FILE or feishu:$NAME"),
        ("notices:\n  to: [webhook:https://u:p@h/]", 2, "webhook:@FILE or webhook:$NAME"),
        ("night: {}\nnight: {}", 2, "occurs twice"),
    ],
)
def test_a_slip_is_one_line_with_its_place(tmp_path, text, line, said):
    file = write(tmp_path, text)
    with pytest.raises(UsageError) as wrong:
        read(file)
    assert (wrong.value.file, wrong.value.line) == (str(file), line)
    assert said in str(wrong.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name an inventory"),
        (["--inventory", "gpu1,", "--most-nodes", "0"], "at least 1"),
        (["--inventory", "gpu1,", "--keep", "30"], "needs its unit"),
        (["--inventory", "gpu1,", "--site", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_a_wrong_use_is_2(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["nightly", *arguments]) == 2
    assert said in capsys.readouterr().err
