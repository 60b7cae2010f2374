"""What a run leaves on the machine, and its removal: the run directory, its sockets, shared-memory segments."""

import fcntl
import json
import os
import pathlib
import shutil
import stat
import tempfile

from terminal import Failure

SHARED_MEMORY = pathlib.Path("/dev/shm")
MAX_SOCKET_PATH = 107
LONGEST_SOCKET_NAME = 40
PREFIX = "krait-"
OURS = ("launcher.json", "cluster.json", "prometheus-targets.json")
KEPT_MARK = "logs-of-a-failure"
MAX_KEPT = 8  # folders with logs of runs that failed


def process_start(pid):
    """Start time in clock ticks since boot, None when there is no such process (a zombie counts as none)."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rsplit(")", 1)[1].split()
    return None if fields[0] in "ZX" else int(fields[19])


def default_parent():
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.access(runtime, os.W_OK) and len(runtime) < 40:
        return pathlib.Path(runtime)
    return pathlib.Path("/tmp")


def make_run_dir(chosen):
    """(path, created): the directory holds this launcher's mark when it returns."""
    if chosen is None:
        path, created = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX, dir=default_parent())), True
    else:
        path, created = chosen, False
        if len(os.fsencode(path)) + LONGEST_SOCKET_NAME > MAX_SOCKET_PATH:
            raise Failure(f"--run-dir {path} is too long: a socket's path may have {MAX_SOCKET_PATH} bytes")
        try:
            path.mkdir(parents=True, mode=0o700, exist_ok=True)
        except OSError as error:
            raise Failure(f"--run-dir {path}: {error.strerror}") from None
        owner = _owner(path)
        if owner is not None:
            raise Failure(f"--run-dir {path} is in use by another deploy/up (pid {owner})")
        clear_run_dir(path, created=False)
    mark = {"pid": os.getpid(), "start": process_start(os.getpid())}
    (path / "launcher.json").write_text(json.dumps(mark), encoding="utf-8")
    return path, created


def _owner(path):
    """The pid of the living launcher that the directory belongs to, or None."""
    try:
        mark = json.loads((path / "launcher.json").read_text(encoding="utf-8"))
        return mark["pid"] if process_start(mark["pid"]) == mark["start"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def clear_run_dir(path, created):
    """Removes the whole directory where we made it, else the sockets and our files (logs stay)."""
    if created:
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        entries = list(os.scandir(path))
    except OSError:
        return
    for entry in entries:
        try:
            if entry.name in OURS or stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                os.unlink(entry.path)
        except OSError:
            pass


def keep_logs(path):
    """Of a folder that we made and whose run went wrong, only the logs stay, until newer failures take their place."""
    (path / KEPT_MARK).touch()
    clear_run_dir(path, created=False)


def sweep_run_dirs():
    """Directories of dead launchers of this user whose janitors were killed too, and the oldest logs of failures. The
    daemons of a dead launcher watch its pid and are gone or going. Only folders that bear our mark are ours to remove."""
    kept = []
    for path in default_parent().glob(PREFIX + "*"):
        try:
            if not path.is_dir() or path.is_symlink() or path.stat().st_uid != os.getuid():
                continue
            if (path / "launcher.json").is_file() and _owner(path) is None:
                shutil.rmtree(path, ignore_errors=True)
            elif (path / KEPT_MARK).is_file():
                kept.append(((path / KEPT_MARK).stat().st_mtime, path))
        except OSError:
            continue
    for _, path in sorted(kept)[: -MAX_KEPT + 1 or None]:
        shutil.rmtree(path, ignore_errors=True)


def sweep_segments():
    """Segments whose maker is gone. A maker holds a lock on its segment for as long as that has a name
    (shard_server/collectives/segment.h): who gets the lock may take the name away."""
    for path in SHARED_MEMORY.glob(PREFIX + "*"):
        try:
            with open(path, "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    path.unlink()
        except OSError:
            continue
