"""Two rounds of the demo's delivery, with its order and a contract: of the second a GPU was replaced."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest
from support.recorded import run_pytest

ROOT = Path(__file__).parents[2]
SITE = """
parties: {supplier: Example Ltd, customer: {name: Institute, contact: "lab@example.org"}}
contract: {number: "K-17", project: Cluster}
lot: {number: "1"}
criteria: {compute: {text: the rate of its model, clause: "4.2.1"}}
"""
OUT, IN = "1650010000002", "1659990000002"  # GPU 2 of hgx10


class Delivery(NamedTuple):
    first: Path
    second: Path
    site: Path
    record: Path


@pytest.fixture(scope="session")
def delivery(tmp_path_factory):
    where = tmp_path_factory.mktemp("delivery")
    site, record = where / "site.yaml", where / "record.sqlite"
    site.write_text(SITE, encoding="utf-8")
    folders = []
    for number in ("1", "2"):
        inventory = shutil.copytree(ROOT / "inventory", where / f"inventory{number}")
        for file in (inventory / "demo" / "recordings" / "hgx10").glob("*.json") if number == "2" else ():
            file.write_text(file.read_text("utf-8").replace(OUT, IN), encoding="utf-8")
        asked = ["--inventory", str(inventory / "demo.yaml"), "--inventory", str(inventory / "demo" / "order.yaml")]
        folder = where / f"run{number}"
        run_pytest(where, [*asked, "--site", str(site), "--record", str(record), "--run-dir", str(folder), "-q"])
        folders.append(folder)
    return Delivery(*folders, site, record)
