"""Which cores the threads of shard servers run on."""

import os
import pathlib

import pytest

from launch import Up, run_up, wait_for
from reference import DEMO_MODEL

ALLOWED = sorted(os.sched_getaffinity(0))


def usable_cores():
    """The allowed ones, or as many as a quota of processor time is worth."""
    try:
        quota, period = pathlib.Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return min(len(ALLOWED), max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        return len(ALLOWED)


def parsed(cores):
    numbers = set()
    for part in cores.split(","):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def cores_of_threads(pid):
    """For each thread of a process the cores that it may run on."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        fields = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines() if ":" in line)
        found.append(parsed(fields["Cpus_allowed_list"].strip()))
    return found


def shards(up):
    return [process["pid"] for process in up.document["processes"] if process["role"] == "shard"]


def bound_cores(pid):
    """The cores of those threads that may not run everywhere."""
    return [cores for cores in cores_of_threads(pid) if cores != frozenset(ALLOWED)]


def test_ranks_that_take_the_host_have_cores_of_their_own():
    ranks = min(2, usable_cores())
    threads = usable_cores() // ranks
    with Up("--model", DEMO_MODEL, "--ranks", ranks, "--threads", threads) as up:
        up.wait_ready()
        if len(ALLOWED) > 1:
            taken = [cores for pid in shards(up) for cores in bound_cores(pid)]
            assert sorted(map(len, taken)) == [1] * (ranks * threads), "each thread has one core"
            assert len(set(taken)) == ranks * threads, "no two threads have the same"
        assert "warning" not in up.said


def test_ranks_of_all_groups_count():
    groups = min(2, usable_cores())
    with Up("--model", DEMO_MODEL, "--ranks", 1, "--groups", groups, "--threads", usable_cores() // groups) as up:
        up.wait_ready()
        cores = [core for pid in shards(up) for core in min(map(sorted, cores_of_threads(pid)), key=len)]
        assert len(set(cores)) == len(cores) >= groups


def test_threads_are_free_where_that_is_asked_for():
    free = ("--threads", 1, "--shard-arg=--cpus", "--shard-arg=none")
    with Up("--model", DEMO_MODEL, "--ranks", min(2, usable_cores()), *free) as up:
        up.wait_ready()
        assert [cores for pid in shards(up) for cores in bound_cores(pid)] == []


def test_threads_take_the_cores_that_are_listed():
    listed = ALLOWED[-1]
    with Up("--model", DEMO_MODEL, "--ranks", 1, "--threads", 1, "--shard-arg=--cpus", f"--shard-arg={listed}") as up:
        up.wait_ready()
        assert frozenset([listed]) in cores_of_threads(shards(up)[0])
        log = pathlib.Path(up.process_of("shard", 0)["log"]).read_text(encoding="utf-8")
        assert f"threads are bound to cores {listed};" in log


@pytest.mark.parametrize(
    "cpus, threads, words",
    [
        ("1023", 1, "this process may not use core 1023"),
        (str(ALLOWED[0]), 2, "1 cores are too few for 2 threads"),
        ("all", 1, "neither auto nor none nor a list"),
    ],
)
def test_a_list_that_cannot_be_is_refused(cpus, threads, words):
    done = run_up(
        "--model", DEMO_MODEL, "--ranks", 1, "--threads", threads,
        "--shard-arg=--cpus", f"--shard-arg={cpus}", "--", "true",
    )  # fmt: skip
    assert done.returncode != 0
    assert "--cpus" in done.stderr and words in done.stderr


def test_more_threads_than_cores_are_warned_of():
    with Up("--model", DEMO_MODEL, "--ranks", 1, "--threads", usable_cores() + 1) as up:
        up.wait_ready()
        wait_for(lambda: "are more than the" in up.said, "the warning")
        assert [cores for pid in shards(up) for cores in bound_cores(pid)] == []
