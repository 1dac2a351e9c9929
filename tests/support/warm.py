"""Runs of pytest and nodegate forked from an interpreter that has imported everything: a second less for each.

    done = warm.run([sys.executable, "-m", "pytest", ...], cwd=..., capture_output=True, text=True)
    with warm.Popen([sys.executable, "-m", "nodegate.cli", ...], stdout=warm.PIPE) as running: ...

As `subprocess`: each is a process of its own with the arguments, streams, folder, variables and umask that it was
given, in a session of its own. It takes real signals and ends as an interpreter ends, with the code that it would have.
Nothing of a pytest is in it: the first interpreter has loaded modules, and never made a configuration or a plugin
manager.

A run is started cold instead, as a user starts it, where it must read what only a new interpreter does: options of
python, another language or hash seed, files beyond the three streams. So it is where a test is about that
(`cold=True`): what is imported, signals while modules load, what a process is called, what it costs.
"""

import ast
import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import socket
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import Any, NamedTuple

__all__ = ["DEVNULL", "PIPE", "STDOUT", "Popen", "run"]

_NUMBER = struct.Struct("i")
_LIBRARIES = ("jinja2.ext", "pandas", "paramiko", "pytest", "scipy.special", "scipy.stats", "yaml")
_NOT_BEFORE = ("nodegate.cli", "nodegate.node_side", "nodegate.plugin.distribution", "nodegate.suite.")
_PYTHON_READS = ("LANG", "LC_", "PYTHON")  # these variables when it starts; two of them are followed here:
_FOLLOWED = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}


def run(argv, *, cold=False, **options):
    """subprocess.run of a Python."""
    timeout, check, sent = (options.pop(name, None) for name in ("timeout", "check", "input"))
    if options.pop("capture_output", False):
        options |= {"stdout": PIPE, "stderr": PIPE}
    if sent is not None:
        options["stdin"] = PIPE
    with Popen(argv, cold=cold, **options) as running:
        try:
            stdout, stderr = running.communicate(sent, timeout=timeout)
        except BaseException:
            running.kill()
            raise
    done = subprocess.CompletedProcess(argv, running.returncode, stdout, stderr)
    if check:
        done.check_returncode()
    return done


class Popen(subprocess.Popen[Any]):
    """subprocess.Popen of a Python."""

    def __init__(self, argv, *, cold=False, **options):
        self._status: socket.socket | None = None
        self._warm = not cold and _can_be_warm(argv, options)
        super().__init__(argv, **options)

    def _execute_child(self, args, *rest):
        """As subprocess calls it: `rest` has cwd, env and both ends of three pipes or files; -1: none, inherited."""
        if not self._warm:
            super()._execute_child(args, *rest)
            return
        cwd, env, ends = rest[4], rest[5], rest[9:15]
        umask = os.umask(0)
        os.umask(umask)
        asked = {
            "argv": [os.fspath(word) for word in args[1:]],
            "cwd": os.fspath(cwd or Path.cwd()),
            "env": {name: os.fspath(value) for name, value in (os.environ if env is None else env).items()},
            "umask": umask,
        }
        streams = [own if end == -1 else end for own, end in zip((0, 1, 2), (ends[0], ends[3], ends[5]), strict=True)]
        self._status, theirs = socket.socketpair()
        socket.send_fds(_first().ask, [b"."], [theirs.fileno()])
        theirs.close()
        text = json.dumps(asked).encode()
        socket.send_fds(self._status, [_NUMBER.pack(len(text))], streams)
        self._status.sendall(text)
        self.pid = self._number()
        self._child_created = True
        self._close_pipe_fds(*ends)

    def _number(self):
        assert self._status is not None
        data = self._status.recv(_NUMBER.size, socket.MSG_WAITALL)
        return int(_NUMBER.unpack(data)[0]) if data else 9  # whoever waited for it was killed, as it was

    def _internal_poll(self, *args, **options):
        if self._status is None:
            return super()._internal_poll(*args, **options)
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self._try_wait(0)
        return self.returncode

    def _try_wait(self, wait_flags):
        if self._status is None:
            return super()._try_wait(wait_flags)
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        status = self._number()
        self.returncode = os.waitstatus_to_exitcode(status)
        self._status.close()
        return self.pid, status


def _can_be_warm(argv, options):
    if argv[0] != sys.executable or argv[1] not in {"-m", "-c"} or options.keys() & {"pass_fds", "preexec_fn"}:
        return False
    return _read_at_start(options.get("env") or os.environ) == _read_at_start(os.environ)


def _read_at_start(variables):
    return {
        name: value for name, value in variables.items() if name.startswith(_PYTHON_READS) and name not in _FOLLOWED
    }


class _First:
    """The interpreter from which runs are forked: `ask` is the way to it. It ends when that is closed."""

    def __init__(self):
        self.ask, theirs = socket.socketpair()
        variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a process with threads should not fork
        variables.pop("PYTHONPATH", None)
        command = [sys.executable, __file__, str(theirs.fileno())]
        self._running = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=variables)
        theirs.close()
        atexit.register(self.end)

    def end(self):
        """No run is forked any more; those that run go on."""
        self.ask.close()
        self._running.wait()


_first = cache(_First)


class _Asked(NamedTuple):
    argv: list[str]
    cwd: str
    env: dict[str, str]
    umask: int
    streams: list[int]


def _load():
    """Everything that a run may import, but what starts one, and what pytest rewrites as it loads it."""
    import nodegate

    for each in pkgutil.walk_packages(nodegate.__path__, "nodegate."):
        if not each.name.startswith(_NOT_BEFORE):
            importlib.import_module(each.name)
    for name in _LIBRARIES:
        importlib.import_module(name)
    from _pytest.config import default_plugins

    for name in default_plugins:
        importlib.import_module(f"_pytest.{name}")
    import jinja2

    from nodegate import suite
    from nodegate.files.paths import REPORTS, suite_folder
    from nodegate.report.html import environment

    jinja2.Environment.compile = _once(jinja2.Environment.compile, of=(1, 2, 3))
    ast.parse = _once(ast.parse, of=(0,))
    templates = environment(suite_folder(REPORTS) / "templates")
    for name in templates.list_templates(extensions=["j2"]):
        templates.get_template(name)
    for file in suite.own_files():
        ast.parse(file.read_bytes())
    gc.freeze()


def _once(function, of):
    """A function that is called once with the same arguments at the places of `of`, of texts and bytes alone."""
    known: dict[Any, Any] = {}

    def ask(*given, **named):
        if named or max(of) >= len(given):
            return function(*given, **named)
        asked = tuple(given[at] for at in of)
        if asked not in known:
            known[asked] = function(*given)
        return known[asked]

    return ask


def _serve(control):
    """Fork for each run; returns in the run. Each has a second process that waits for it and tells how it ended."""
    while True:
        _, fds, *_ = socket.recv_fds(control, 1, 1)
        if not fds:
            os._exit(0)
        if os.fork():
            os.close(fds[0])
            while _reap():
                pass
            continue
        control.close()
        status = socket.socket(fileno=fds[0])
        size, streams, *_ = socket.recv_fds(status, _NUMBER.size, 3)
        asked = json.loads(status.recv(_NUMBER.unpack(size)[0], socket.MSG_WAITALL))
        pid = os.fork()
        if not pid:
            status.close()
            return _Asked(streams=streams, **asked)
        for stream in (0, 1, 2, *streams):
            os.close(stream)
        try:
            status.sendall(_NUMBER.pack(pid))
            status.sendall(_NUMBER.pack(os.waitpid(pid, 0)[1]))
        finally:
            os._exit(0)


def _reap():
    try:
        return os.waitpid(-1, os.WNOHANG)[0] > 0
    except ChildProcessError:
        return False


def _become(asked):
    """Be an interpreter that was started so, and run what it was given."""
    os.setsid()
    os.umask(asked.umask)
    os.chdir(asked.cwd)
    for number, stream in enumerate(asked.streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(asked.env)
    sys.dont_write_bytecode = bool(asked.env.get("PYTHONDONTWRITEBYTECODE"))
    _open_streams(unbuffered=bool(asked.env.get("PYTHONUNBUFFERED")))
    sys.excepthook = _without_ours
    option, what, *rest = asked.argv
    paths = [path for path in asked.env.get("PYTHONPATH", "").split(":") if path]
    sys.path[:0] = [asked.cwd if option == "-m" else "", *paths]
    sys.argv = ["-m" if option == "-m" else "-c", *rest]
    if option == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})  # noqa: S102


def _without_ours(kind, error, trace):
    """A traceback begins where the run does."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


def _open_streams(*, unbuffered):
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        was = getattr(sys, name)
        stream = open(number, mode, encoding=was.encoding, errors=was.errors, closefd=False)  # noqa: SIM115
        stream.reconfigure(line_buffering=name == "stderr" or stream.isatty(), write_through=unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    _load()
    _become(_serve(socket.socket(fileno=int(sys.argv[1]))))
