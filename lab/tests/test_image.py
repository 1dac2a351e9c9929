"""The image of deploy/image, built by buildah on a root file system of Debian's packages, answers as another user."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import debian
from lab.run import ROOT

BASE = "docker.io/library/debian:bookworm-slim"
TRUSTED = "/etc/ssl/certs/ca-certificates.crt"  # pip's in the build: this machine's way out may need it
LIMIT_S = 1500


def ran(*command: str, folder: Path) -> str:
    """What a program printed, with images kept in a folder of this test."""
    where = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot", "TMPDIR": str(folder)}
    store = ("--root", str(folder / "store"), "--runroot", str(folder / "run"))
    done = subprocess.run(
        [command[0], *store, *command[1:]],
        env=os.environ | where,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("image")
    debian.build("bookworm", folder / "root.tar", "ca-certificates")
    empty = ran("buildah", "from", "scratch", folder=folder)
    ran("buildah", "add", empty, str(folder / "root.tar"), "/", folder=folder)
    ran("buildah", "commit", empty, BASE, folder=folder)
    recipe = shutil.copytree(ROOT / "deploy" / "image", folder / "image")
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(recipe), str(ROOT)]
    subprocess.run(wheel, check=True)
    given = [f"--volume={file}:{file}:ro" for file in (TRUSTED, "/etc/pip.conf") if Path(file).exists()]
    ran("buildah", "build", "--pull=never", "--network=host", *given, "-t", "nodegate", str(recipe), folder=folder)
    yield folder, ran("buildah", "from", "--pull=never", "nodegate", folder=folder)
    ran("buildah", "rm", "--all", folder=folder)


def test_the_image_answers_as_a_user_without_rights(image: tuple[Path, str]) -> None:
    folder, container = image
    about = json.loads(ran("buildah", "inspect", "--type", "container", container, folder=folder))["OCIv1"]["config"]
    assert about["User"] == "nodegate"

    def said(command: str) -> str:
        return ran("buildah", "run", container, "--", "sh", "-c", command, folder=folder)

    assert said("id -u") == "10001"
    assert said("nodegate --version").startswith("nodegate ")
    assert said("ssh -V 2>&1").startswith("OpenSSH_")
    assert (
        said("for each in nsenter timeout sleep; do command -v $each; done").count("\n") == 2
    )  # what the agent and the init container start
    assert said("/opt/nodegate/bin/python -c 'import kubernetes, xlsxwriter; print(1)'") == "1"
