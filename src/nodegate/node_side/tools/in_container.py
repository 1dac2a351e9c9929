"""Node side: run a tool in a container, so that it ends with this program in any case.

Started as `python3 -c SOURCE runtime image tool arguments...`. A docker container is not a child of this process: the
daemon runs it, and SIGKILL of `docker run` leaves it running. So the tool is started inside by a small shell script
that watches its standard input, of which this program holds the other end and into which nothing is ever written. When
this program ends, even by SIGKILL, the input ends: docker closes a container's input when its client is gone
(StdinOnce), podman's conmon does so as well, and for enroot and apptainer it is this program's own pipe. The script
then ends the tool.
"""

import os
import secrets
import signal
import subprocess
import sys

PASSED_ON = ("NCCL_", "CUDA_", "UCX_", "OMPI_MCA_")  # settings of a measurement, which a container would not see

# $1: the tool's folder; $2: the CPUs it is bound to, or nothing, for what a daemon starts does not inherit those of its
# client; then the tool and its arguments. SIGTERM, then a second to end by itself, as the guard gives 2.
WATCH = """\
cd "$1" || exit 126
own=; command -v setsid >/dev/null 2>&1 && own=setsid
[ "$2" ] && taskset -c "$2" true 2>/dev/null && own="$own taskset -c $2"
shift 2
exec 3<&0
$own "$@" </dev/null 3<&- &
tool=$!
tell() { kill "-$1" "-$tool" 2>/dev/null || kill "-$1" "$tool" 2>/dev/null; }
trap 'tell TERM' TERM INT HUP
{ while read -r line; do :; done; tell TERM; sleep 1; tell KILL; } <&3 >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait "$tool"; code=$?
while kill -0 "$tool" 2>/dev/null; do wait "$tool"; code=$?; done
kill "$watch" 2>/dev/null
exit "$code"
"""


def command(runtime: str, image: str) -> "list[str]":
    """The command that starts a shell in the image, with GPUs, RDMA devices and the node's own network."""
    passed_on = [word for name in sorted(os.environ) if name.startswith(PASSED_ON) for word in ("--env", name)]
    if runtime in ("docker", "podman"):
        argv = [runtime, "run", "--rm", "-i", "--pull=never", "--name", "nodegate-" + secrets.token_hex(8)]
        argv += ["--init", "--gpus", "all"] if runtime == "docker" else ["--device", "nvidia.com/gpu=all"]
        argv += ["--network", "host", "--ipc", "host", "--ulimit", "memlock=-1", "--cap-add", "IPC_LOCK"]
        argv += ["--device", "/dev/infiniband"] if os.path.isdir("/dev/infiniband") else []
        return [*argv, *passed_on, "--entrypoint", "sh", image]
    if runtime == "enroot":
        gpus = ("--env", "NVIDIA_VISIBLE_DEVICES=all", "--env", "NVIDIA_DRIVER_CAPABILITIES=compute,utility")
        return ["enroot", "start", *gpus, *passed_on, "--env", "MELLANOX_VISIBLE_DEVICES=all", image, "sh"]
    return [runtime, "exec", "--nv", image, "sh"]


def main(runtime: str, image: str, *tool: str) -> None:
    """Run the tool, end with its exit code."""
    folder = os.path.dirname(tool[0]) or "/"
    cpus = sorted(os.sched_getaffinity(0))  # that this program was bound to; none where it may use all
    bound_to = "" if len(cpus) >= (os.cpu_count() or 1) else ",".join(map(str, cpus))
    argv = [*command(runtime, image), "-c", WATCH, "nodegate", folder, bound_to, *tool]
    theirs, ours = os.pipe()
    try:
        process = subprocess.Popen(argv, stdin=theirs)
    except OSError as error:
        sys.stderr.write(f"{runtime}: {error.strerror}\n")
        raise SystemExit(127) from None
    os.close(theirs)

    def end(number: int, _: object) -> None:
        os.dup2(os.open(os.devnull, os.O_RDONLY), ours)  # its last writer is gone: the container's input ends
        process.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, end)
    code = process.wait()
    raise SystemExit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(*sys.argv[1:])
