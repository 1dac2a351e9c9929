"""What hosting services and contributors' programs read: the workflow, the hooks, the metadata, the first pages."""

import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#([^)]+))?\)")
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]


def workflow():
    text = WORKFLOW.read_text("utf-8").replace("\non:", '\n"on":')  # a bare `on` is a boolean of YAML 1.1
    read: dict[str, Any] = yaml.safe_load(text)
    return read


def test_the_workflow_is_one_by_githubs_schema():
    schema = get_builtin_schema("vendor.github-workflows")
    assert [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(workflow())] == []


def test_the_workflow_runs_the_commands_of_ci_run():
    ours = [line for line in (ROOT / ".ci" / "run").read_text("utf-8").splitlines() if line.startswith("make ")]
    jobs = workflow()["jobs"].values()
    assert [step["run"] for job in jobs for step in job["steps"] if "run" in step] == ours
    assert len(ours) == len(jobs) > 1
    assert {job["env"]["CI"] for job in jobs} == {"true"}


def test_the_hooks_fetch_nothing_and_are_the_linters_of_make_lint():
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert local["repo"] == "local"
    assert {hook["language"] for hook in local["hooks"]} == {"system"}
    makefile = (ROOT / "Makefile").read_text("utf-8")
    linters = re.findall(r"^\t\$\(BIN\)/((?:ruff|mypy).*)$", makefile, re.MULTILINE)
    hooks = [hook["entry"].removeprefix(".venv/bin/").removesuffix(" --force-exclude") for hook in local["hooks"]]
    assert [linter.removesuffix(" .") for linter in linters] == hooks


def test_the_newest_version_of_the_changelog_is_the_projects():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    newest = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest
    assert newest[1] == project["version"]
    assert project["keywords"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_first_page_leads_somewhere(page):
    links = _LINK.findall(page.read_text("utf-8"))
    assert links
    gone = [f"{path}#{anchor}" for path, anchor in links if not _exists(page.parent / path, anchor)]
    assert gone == []


def _exists(file, anchor):
    if not file.exists() or not anchor:
        return file.exists()
    headings = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.MULTILINE)
    return anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
