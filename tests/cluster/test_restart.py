"""A process that comes back, as a service manager would bring it: the group forms again and gives the same bits."""

import os
import signal
import subprocess

import pytest

from launch import Up, command_of, get_json, wait_for
from rest import complete

FIELDS = {"prompt": "Mr. Darcy", "max_tokens": 12, "temperature": 1, "seed": 3, "logprobs": 2}


def _ready(up):
    return get_json(up.url, "/ready")[0] == 200


@pytest.mark.parametrize("rank", [0, 1], ids=["leader", "rank 1"])
@pytest.mark.parametrize("pause", [False, True], ids=["at once", "after a while"])
def test_a_rank_that_is_started_again(rank, pause):
    with Up("--grace", "3") as up:
        up.wait_ready()
        before = complete(up.url, **FIELDS)["choices"]
        pid = up.process_of("shard", rank)["pid"]
        command = command_of(pid)
        os.kill(pid, signal.SIGKILL)
        if pause:
            wait_for(lambda: not _ready(up), "the loss to be noticed")
        again = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: _serves_again(up, pid, rank), "the group to serve again", 40)
            assert complete(up.url, **FIELDS)["choices"] == before
        finally:
            again.kill()
            again.wait()


def _serves_again(up, old_pid, rank):
    group = get_json(up.url, "/cluster")[1]["groups"][0]
    return _ready(up) and group["state"] == "serving" and group["ranks"][rank]["pid"] != old_pid


def test_a_rank_that_was_stopped_and_goes_on():
    """It was silent for longer than peers wait: it has been given up, and joins again by itself."""
    with Up("--grace", "3") as up:
        up.wait_ready()
        before = complete(up.url, **FIELDS)["choices"]
        for rank in (0, 1):
            pid = up.process_of("shard", rank)["pid"]
            os.kill(pid, signal.SIGSTOP)
            wait_for(lambda: not _ready(up), "the loss to be noticed")
            os.kill(pid, signal.SIGCONT)
            wait_for(lambda: _ready(up), "the group to serve again", 40)
            assert complete(up.url, **FIELDS)["choices"] == before
