"""Run a command beside a file system that never answers: `python hung_mount.py MOUNT_POINT COMMAND...` (root only).

The file system is a FUSE one whose server takes every request and answers none but the first. Who asks it hangs in D
state and cannot be killed, as with a dead NFS server. It lives in a mount namespace of its own and ends with this
process.
"""

import ctypes
import os
import struct
import subprocess
import sys
import threading

CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
FUSE_INIT_ANSWER = struct.pack("=IIIIHHII", 7, 31, 65536, 0, 12, 10, 4096, 1) + b"\0" * 32


def main():
    point, command = sys.argv[1], sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(CLONE_NEWNS))
    _check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    server = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    _check(libc.mount(b"hung", point.encode(), b"fuse.hung", 0, options))
    request = os.read(server, 1 << 16)
    (unique,) = struct.unpack_from("=Q", request, 8)
    os.write(server, struct.pack("=IiQ", 16 + len(FUSE_INIT_ANSWER), 0, unique) + FUSE_INIT_ANSWER)
    threading.Thread(target=_swallow, args=(server,), daemon=True).start()
    return subprocess.run(command, check=False).returncode


def _swallow(server):
    while True:
        os.read(server, 1 << 20)


def _check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
