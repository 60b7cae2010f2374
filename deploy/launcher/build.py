"""Configure and build a preset, `release` unless told otherwise. ninja decides what is out of date; when nothing is, this takes a moment."""

import fcntl
import os
import re
import select
import subprocess

from options import REPOSITORY
from terminal import failing_as, Failure

PROGRAMS = ("krait-coordinator", "krait-shard")
BYTES_PER_JOB = 1536 << 20  # g++ on the heaviest files
_STEP = re.compile(r"^\[(\d+)/(\d+)\] ?(.*)$")


def jobs():
    """Compilers at once: one a core, fewer where memory is short."""
    with open("/proc/meminfo", encoding="ascii") as file:
        available = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))
    return max(1, min(len(os.sched_getaffinity(0)), available // BYTES_PER_JOB))


def preset_dir(preset):
    return REPOSITORY / "build" / preset


def needs_configure(folder):
    cache, presets = folder / "CMakeCache.txt", REPOSITORY / "CMakePresets.json"
    if not (folder / "build.ninja").exists() or not cache.exists():
        return True
    return presets.stat().st_mtime > cache.stat().st_mtime


def build(terminal, stop, targets=PROGRAMS, preset="release"):
    """Builds `targets`: names, empty for all, or a function that names them once the folder is configured. Raises Failure
    with the compiler's words."""
    folder = preset_dir(preset)
    with failing_as(f"{folder}: nothing can be built there (programs that are built already: --build-dir)"):
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".launcher-lock", "w", encoding="ascii")
    with lock:
        _wait_for(lock, terminal, stop)
        if needs_configure(folder):
            _run(["cmake", "--preset", preset], "configure", terminal, stop)
            os.utime(folder / "CMakeCache.txt")
        names = targets() if callable(targets) else targets
        _run(["ninja", "-C", str(folder), f"-j{jobs()}", *names], "build", terminal, stop)


def _wait_for(lock, terminal, stop):
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            terminal.progress("build", "another start builds in this folder, waiting for it")
            stop.pause(0.2)


def _run(command, stage, terminal, stop):
    environment = dict(os.environ, NINJA_STATUS="[%f/%t] ")
    environment.pop("MAKEFLAGS", None)
    terminal.progress(stage, " ".join(command[:3]))
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = b""
    steps = "0"
    try:
        while True:
            ready, _, _ = select.select([process.stdout], [], [], 0.1)
            stop.check()
            if not ready:
                continue
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                break
            output += chunk
            match = _STEP.match(output.decode(errors="replace").rstrip("\n").rsplit("\n", 1)[-1])
            if match:
                steps = match[2]
                terminal.progress(stage, f"{match[1]} of {match[2]}: {match[3]}")
        code = process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if code != 0:
        text = output.decode(errors="replace")
        lines = [line for line in text.splitlines() if not _STEP.match(line) or "FAILED" in line][-60:]
        raise Failure(f"{stage} failed ({' '.join(command)}):\n" + "\n".join(lines))
    if b"ninja: no work to do" in output:  # looking for new files counts as steps
        steps = "0"
    terminal.say(stage, f"{steps} steps" if steps != "0" else "up to date" if stage == "build" else "done")
