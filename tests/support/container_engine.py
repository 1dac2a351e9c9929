"""Stand-ins for docker, podman, enroot and apptainer, each with the property that matters: who the parent is.

`docker run` is a client: it asks a daemon, which runs the container in a PID namespace of its own. SIGTERM of the
client is passed on to the container; SIGKILL of the client is not, and the container goes on; with `-i` the daemon
closes the container's input when the client has gone (StdinOnce: docker/cli, "close stdin at client disconnect"). So do
conmon and podman. enroot and apptainer run the program as a child of their own.

    python container_engine.py daemon SOCKET LOG      what runs the containers
    docker run ... --entrypoint sh IMAGE ARGUMENTS    this file, named `docker`; $ENGINE_SOCKET is SOCKET
"""

import array
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

IMAGE = "registry.example/tools:1"
VALUED = ("--name", "--gpus", "--network", "--ipc", "--ulimit", "--cap-add", "--device", "--env", "--entrypoint")


def split(argv):
    """Options, image and arguments of `run`."""
    at = 0
    while argv[at].startswith("-"):
        at += 2 if argv[at] in VALUED else 1
    return argv[:at], argv[at], argv[at + 1 :]


def client(argv):
    """`docker run`: ask the daemon, give it our streams, pass signals on, end with the container's exit code."""
    options, image, arguments = split(argv[1:])
    if image != IMAGE:
        sys.stderr.write(f"docker: Error response from daemon: No such image: {image}.\n")
        return 125
    names = [options[i + 1] for i, word in enumerate(options) if word == "--env"]
    asked = {"argv": [options[options.index("--entrypoint") + 1], *arguments], "options": options}
    asked["env"] = {name: os.environ[name] for name in names}
    daemon = socket.socket(socket.AF_UNIX)
    daemon.connect(os.environ["ENGINE_SOCKET"])
    text = json.dumps(asked).encode()
    handles = array.array("i", [1, 2])
    daemon.sendmsg([b"%12d" % len(text)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handles)])
    daemon.sendall(text)
    signal.signal(signal.SIGTERM, lambda *_: daemon.sendall(b"T"))

    def pump():
        while os.read(0, 4096):
            pass
        daemon.sendall(b"E")

    threading.Thread(target=pump, daemon=True).start()
    return int(daemon.recv(16) or b"137")


def serve(connection, log):
    """One container, from its start to its end."""
    head, ancillary, _, _ = connection.recvmsg(12, socket.CMSG_SPACE(8))
    handles = array.array("i")
    handles.frombytes(ancillary[0][2][:8])
    text = b""
    while len(text) < int(head):
        text += connection.recv(int(head) - len(text))
    asked = json.loads(text)
    with log.open("a") as file:
        file.write(json.dumps(asked) + "\n")
    # The first process of the namespace passes SIGTERM on and ends with its child, as docker-init (tini) does.
    init = [sys.executable, "-c", INIT, *asked["argv"]]
    argv = [shutil.which("unshare") or "unshare", "--pid", "--fork", "--kill-child", *init]
    environment = {"PATH": os.environ["PATH"], **asked["env"]}
    container = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=handles[0], stderr=handles[1], env=environment, start_new_session=True
    )
    for handle in handles:
        os.close(handle)
    threading.Thread(target=listen, args=(connection, container), daemon=True).start()
    code = container.wait()
    with contextlib.suppress(OSError):
        connection.sendall(b"%d" % (code if code >= 0 else 128 - code))


INIT = """
import signal, subprocess, sys
child = subprocess.Popen(sys.argv[1:])
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
raise SystemExit(child.wait() & 255)
"""


def listen(connection, container):
    """What the client says, until it has gone; then the container has no input any more."""
    assert container.stdin is not None
    while True:
        try:
            said = connection.recv(1)
        except OSError:
            said = b""
        if said == b"T":
            with contextlib.suppress(OSError):  # it has ended by itself
                for pid in Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split():
                    os.kill(int(pid), signal.SIGTERM)
            continue
        container.stdin.close()
        if not said:
            return


def daemon(path, log):
    """Take clients until we are ended."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=serve, args=(connection, Path(log)), daemon=True).start()


def child(argv):
    """`enroot start` and `apptainer exec`: the program takes our place."""
    at = 1
    while argv[at].startswith("-"):
        if argv[at] == "--env" and "=" in argv[at + 1]:
            name, _, value = argv[at + 1].partition("=")
            os.environ[name] = value
        at += 2 if argv[at] == "--env" else 1
    os.execvp(argv[at + 1], argv[at + 1 :])  # noqa: S606


if __name__ == "__main__":
    if sys.argv[1:2] == ["daemon"]:
        daemon(sys.argv[2], sys.argv[3])
    elif Path(sys.argv[0]).name in ("docker", "podman"):
        raise SystemExit(client(sys.argv[1:]))
    else:
        child(sys.argv[1:])
