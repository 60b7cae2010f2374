"""deploy/up as a process that a test starts, watches and stops."""

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
UP = REPOSITORY / "deploy" / "up"
FAKE_BUILD = pathlib.Path(__file__).resolve().parent / "fake"
PATIENCE_S = 120.0


def wait_for(condition, what, seconds=PATIENCE_S):
    """The first true value of condition(). A bound on a hang, not a measurement: generous on purpose."""
    limit = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < limit, f"waited {seconds} s for {what}"
        time.sleep(0.02)


def is_alive(pid):
    """Zombies do not count: whoever started them reaps them."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] not in "ZX"


def segments():
    return sorted(path.name for path in pathlib.Path("/dev/shm").glob("krait-*"))


def get_json(url, path, timeout=10):
    """(status, document)"""
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def command_of(pid):
    """The command line of a shard, to be started again as a child of this process."""
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")[:-1]
    words[words.index("--watch-parent-pid") + 1] = str(os.getpid())
    words[words.index("--metrics-port") + 1] = "0"
    return words


def printed_command(text):
    """The shell command of a process that deploy/up says has ended."""
    return re.search(r"^  command: (.*)$", text, re.M)[1]


class Up:
    """A running deploy/up without a command. `with Up(...) as up:` stops it at the end."""

    def __init__(self, *options, environment=None, sample=False, program=UP):
        self.run_dir = pathlib.Path(tempfile.mkdtemp(prefix="kt-", dir="/tmp"))
        self._said = self.run_dir.with_suffix(".said")
        build = os.environ.get("KRAIT_TEST_BUILD_DIR")
        words = [program, "--run-dir", self.run_dir, "--port", "0", *([] if sample else ["--no-sample"])]
        if build and "--build-dir" not in options:
            words += ["--build-dir", build]
        with open(self._said, "wb") as out:
            self.process = subprocess.Popen(
                [str(word) for word in [*words, *options]],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=dict(os.environ, **(environment or {})),
            )
        self.document = {}

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        try:
            self.stop()
        finally:
            shutil.rmtree(self.run_dir, ignore_errors=True)
            self._said.unlink(missing_ok=True)

    @property
    def said(self):
        return self._said.read_text(encoding="utf-8", errors="replace")

    def read(self):
        """cluster.json now, {} before it exists."""
        try:
            self.document = json.loads((self.run_dir / "cluster.json").read_text(encoding="utf-8"))
        except OSError:
            return {}
        return self.document

    def wait_ready(self):
        def ready():
            assert self.process.poll() is None, f"deploy/up ended with {self.process.returncode}:\n{self.said}"
            return self.read().get("state") in ("ready", "degraded")  # a short-lived stand-in may be gone again

        wait_for(ready, "the cluster to be ready", 300)
        return self

    def wait_said(self, text):
        wait_for(lambda: text in self.said, f"deploy/up to say {text!r}")
        return self

    @property
    def url(self):
        return self.document["url"]

    @property
    def pids(self):
        return [process["pid"] for process in self.document["processes"]]

    def process_of(self, role, rank=None, group="g0"):
        return next(
            p
            for p in self.document["processes"]
            if p["role"] == role and (rank is None or (p["rank"], p["group"]) == (rank, group))
        )

    def send(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def stop(self, number=signal.SIGTERM):
        """Asks it to stop and returns its exit code."""
        self.send(number)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"deploy/up did not stop:\n{self.said}") from None

    def sockets(self):
        return [path.name for path in self.run_dir.iterdir() if path.is_socket()]


def run_up(*options, environment=None, timeout=300, build_first=False):
    """deploy/up with a command (or one that fails early), to its end. Where it does not build it uses what is built."""
    words = [UP, "--port", "0", "--no-sample"]
    build = None if build_first else os.environ.get("KRAIT_TEST_BUILD_DIR")
    if build and "--build-dir" not in options:
        words += ["--build-dir", build]
    return subprocess.run(
        [str(word) for word in [*words, *options]],
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        check=False,
        env=dict(os.environ, **(environment or {})),
    )
