"""A real Prometheus over what promtool wrote of a story."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING

from job.stories import Story, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def fill(story: Story, folder: Path) -> None:
    """Blocks with a story below `folder`/data."""
    text = folder / f"{story.number}.om"
    write(story, text)
    tool = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(folder / "data")]
    subprocess.run(tool, check=True, capture_output=True, timeout=120)
    text.unlink()


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextlib.contextmanager
def prometheus(folder: Path, config: str = "global: {scrape_interval: 15s}\n") -> Iterator[str]:
    """A server over the blocks in `folder`/data; gives its address."""
    port = free_port()
    (folder / "prometheus.yml").write_text(config)
    server = subprocess.Popen(
        ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
         "--storage.tsdb.retention.time=100y", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await_answer(f"http://127.0.0.1:{port}/-/ready")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def await_answer(address: str) -> None:
    """Return when something answers there."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):  # noqa: S310 - loopback
            return
        time.sleep(0.1)
    raise AssertionError(f"{address} did not answer within 60 s")
