"""What a run leaves on the machine, and its removal: the run directory, its sockets, shared-memory segments."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import stat
import tempfile

from terminal import failing_as, Failure

SHARED_MEMORY = pathlib.Path("/dev/shm")
MAX_SOCKET_PATH = 107
LONGEST_SOCKET_NAME = 40
PREFIX = "krait-"
_RECORDS = ("launcher.json", "cluster.json", "prometheus-targets.json")
FRESH = ".new"  # what a record is called until it is whole
OURS = _RECORDS + tuple(name + FRESH for name in _RECORDS)
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
        with failing_as(f"{default_parent()}: no folder can be made there (another: --run-dir)"):
            path, created = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX, dir=default_parent())), True
        is_new = True
    else:
        path, created = chosen, False
        if len(os.fsencode(path)) + LONGEST_SOCKET_NAME > MAX_SOCKET_PATH:
            raise Failure(f"--run-dir {path} is too long: a socket's path may have {MAX_SOCKET_PATH} bytes")
        is_new = not path.exists()
        with failing_as(f"--run-dir {path}"):
            path.mkdir(parents=True, mode=0o700, exist_ok=True)
        owner = _owner(path)
        if owner is not None:
            raise Failure(f"--run-dir {path} is in use by another deploy/up (pid {owner})")
        clear_run_dir(path, created=False)
    mark = {"pid": os.getpid(), "start": process_start(os.getpid())}
    try:
        write_record(path, "launcher.json", mark)
    except Failure:
        clear_run_dir(path, is_new)
        raise
    return path, created


def write_record(path, name, document):
    """A file of JSON in the run directory, replaced as a whole. Raises Failure, and then the old one is as it was."""
    fresh = path / (name + FRESH)
    try:
        with failing_as(f"{path}: {name} cannot be written"):
            fresh.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            fresh.rename(path / name)
    except Failure:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


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
    with contextlib.suppress(OSError):  # a full disk; then no newer failure takes their place
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
