"""A real Prometheus over what promtool wrote of a story."""

import contextlib
import subprocess
import time
import urllib.request

from job.stories import write
from support.sshd import free_port


def fill(story, folder):
    """Blocks with a story below `folder`/data."""
    text = folder / f"{story.number}.om"
    write(story, text)
    tool = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(folder / "data")]
    subprocess.run(tool, check=True, capture_output=True, timeout=120)
    text.unlink()


@contextlib.contextmanager
def prometheus(folder, config="global: {scrape_interval: 15s}\n"):
    """A server over the blocks in `folder`/data; gives its address."""
    port = free_port()
    (folder / "prometheus.yml").write_text(config)
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
               "--storage.tsdb.retention.time=100y", f"--web.listen-address=127.0.0.1:{port}",
               "--log.level=error"]  # fmt: skip
    with answering(command, f"http://127.0.0.1:{port}/-/ready"):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def answering(command, address):
    """A program, while it runs, from when it answers at an address."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        await_answer(address)
        yield
    finally:
        server.terminate()
        server.wait(30)


def await_answer(address):
    """Return when something answers there."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5):  # noqa: S310 - loopback
            return
        time.sleep(0.1)
    raise AssertionError(f"{address} did not answer within 60 s")


@contextlib.contextmanager
def victoria_metrics(folder, stories):
    """A VictoriaMetrics with these stories; gives its address."""
    address = f"127.0.0.1:{free_port()}"
    command = ["victoria-metrics", f"-storageDataPath={folder}/vm", f"-httpListenAddr={address}",
               "-retentionPeriod=100y"]  # fmt: skip
    with answering(command, f"http://{address}/health"):
        for story in stories:
            write(story, folder / "story.om")
            with (folder / "story.om").open() as lines:
                samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
                text = "".join(f"{head} {float(at) * 1000:.0f}\n" for head, at in samples)
            _post(f"http://{address}/api/v1/import/prometheus", text.encode())
        _post(f"http://{address}/internal/force_flush", b"")
        yield f"http://{address}"


def _post(address, body):
    with urllib.request.urlopen(address, body, timeout=60):  # noqa: S310 - loopback
        pass
