"""Cleans up after a launcher that could not (kill -9). Its standard input is a pipe from it; it acts when that closes.

Lines of JSON: {"watch": pid} a process to end, {"run_dir": path, "created": bool} a directory to clear. After an
orderly stop all of it is gone already and the janitor finds nothing to do.
"""

import json
import os
import pathlib
import select
import signal
import sys
import time

from leftovers import clear_run_dir, sweep_segments

GRACE_S = 3.0


def _send(fd, number):
    try:
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        pass


def _wait_all(fds, seconds):
    """Those that still run after `seconds`. A pidfd is readable when its process has ended, reaped or not."""
    limit = time.monotonic() + seconds
    running = set(fds)
    while running and time.monotonic() < limit:
        done, _, _ = select.select(list(running), [], [], 0.1)
        running -= set(done)
    return running


def main():
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    fds, run_dir, created = [], None, False
    print("READY", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "watch" in order:
            try:
                fds.append(os.pidfd_open(order["watch"]))
            except ProcessLookupError:
                pass
        else:
            run_dir, created = pathlib.Path(order["run_dir"]), order["created"]
    for fd in fds:
        _send(fd, signal.SIGTERM)
    for fd in _wait_all(fds, GRACE_S):
        _send(fd, signal.SIGKILL)
    _wait_all(fds, GRACE_S)
    if run_dir is not None:
        clear_run_dir(run_dir, created)
    sweep_segments()


if __name__ == "__main__":
    main()
