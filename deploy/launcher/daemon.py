"""One process of the cluster: started, watched, asked to stop."""

import collections
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess

from terminal import failing_as, Failure

WATCH = "--watch-parent-pid"
LAST_WORDS = 20
MAX_LOG_BYTES = 1 << 20  # read of a log at once
_WARNING = re.compile(rb"[\dT:.-]+ W (?:\[[^\]]*\] )?(.*)")  # time, level, the process; what it says
MAX_OUT_BYTES = 1 << 20
LITTLE_BYTES = 64 << 10  # of a disk: a daemon's words, and its READY line, may have found no room
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """Runs in the child before exec: a killed launcher means SIGTERM. The launcher has one thread, so this is safe."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


class Daemon:
    def __init__(self, command, run_dir, role, group=None, rank=None):
        self.command = [str(word) for word in command]
        self.role, self.group, self.rank = role, group, rank
        self.name = "coordinator" if role == "coordinator" else f"rank {rank} of group {group}"
        stem = "coordinator" if role == "coordinator" else f"shard-{group}-{rank}"
        self.log = pathlib.Path(run_dir) / "logs" / f"{stem}.log"
        self._out = self.log.with_suffix(".out")
        self.process = None
        self.ready = None
        self.death_told = False
        self._log_read_bytes = 0

    def start(self, environment):
        with contextlib.ExitStack() as files:
            with failing_as(f"{self.log.parent}: no logs can be written there"):
                self.log.parent.mkdir(exist_ok=True)
                log, out = (files.enter_context(open(path, "wb")) for path in (self.log, self._out))
            try:
                self.process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
            except OSError as error:
                raise Failure(f"cannot start {self.command[0]}: {error.strerror}") from None

    @property
    def pid(self):
        return self.process.pid if self.process else None

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    def read_ready(self):
        """True once the process has printed its READY line."""
        if self.ready is None:
            with open(self._out, "rb") as file:
                for line in file.read(MAX_OUT_BYTES).split(b"\n")[:-1]:
                    if line.startswith(b"READY "):
                        self.ready = self._parse_ready(line[len(b"READY ") :])
        return self.ready is not None

    def _parse_ready(self, text):
        wanted = ["metrics_port"] + (["port"] if self.role == "coordinator" else [])
        try:
            ready = json.loads(text)
            return {"pid": int(ready["pid"]), **{name: int(ready[name]) for name in wanted}}
        except (ValueError, KeyError, TypeError):
            raise Failure(f"{self.name} printed a READY line that is not understood: {text[:200]!r}") from None

    def new_warnings(self):
        """The warnings in its log since the last call."""
        try:
            with open(self.log, "rb") as file:
                file.seek(self._log_read_bytes)
                text = file.read(MAX_LOG_BYTES)
        except OSError:
            return []
        whole = text.rfind(b"\n") + 1 or (len(text) if len(text) == MAX_LOG_BYTES else 0)
        self._log_read_bytes += whole
        found = map(_WARNING.fullmatch, text[:whole].split(b"\n"))
        return [match[1].decode(errors="replace") for match in found if match]

    def ended(self):
        """How it ended, in words; None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        if code < 0:
            try:
                return f"killed by {signal.Signals(-code).name}"
            except ValueError:
                return f"killed by signal {-code}"
        return f"exited with code {code}"

    def last_words(self):
        lines = collections.deque(maxlen=LAST_WORDS)
        with open(self.log, encoding="utf-8", errors="replace") as file:
            file.seek(max(0, self.log.stat().st_size - 65536))
            lines.extend(line.rstrip("\n") for line in file)
        return "\n".join("    | " + line for line in lines) or "    | (its log is empty)"

    def obituary(self):
        return (
            f"{self.name} (pid {self.pid}) {self.ended()}\n  command: {self._by_hand()}\n"
            f"  log: {self.log}\n{self.last_words()}{self._room()}"
        )

    def _by_hand(self):
        """The command for a shell, which is not the launcher: nobody's parent is watched."""
        words = list(self.command)
        if WATCH in words:
            del words[words.index(WATCH) : words.index(WATCH) + 2]
        return shlex.join(words)

    def _room(self):
        """A line where the disk of the logs is full: it may have cost the process its last words, or its life."""
        disk = os.statvfs(self.log.parent)
        free = disk.f_bavail * disk.f_frsize
        return "" if free >= LITTLE_BYTES else f"\n  {self.log.parent}: only {free} bytes are free on that disk"

    def send(self, number):
        if self.alive:
            os.kill(self.pid, number)

    def record(self, host):
        port = self.ready["metrics_port"] if self.ready else None
        return {
            "role": self.role,
            "group": self.group,
            "rank": self.rank,
            "pid": self.pid,
            "port": (self.ready or {}).get("port"),
            "metrics_port": port,
            "metrics_url": f"http://{url_host(host)}:{port}/metrics" if port else None,
            "log": str(self.log),
            "ended": self.ended(),
        }


def url_host(host):
    """A host that a client on this machine can call."""
    if host in ("0.0.0.0", ""):
        return "127.0.0.1"
    if host == "::":
        return "[::1]"
    return f"[{host}]" if ":" in host else host
