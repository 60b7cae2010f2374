"""The launcher alone, over small stand-ins for the daemons: what it starts, says, and leaves behind."""

import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from launch import REPOSITORY, UP, Up, is_alive, printed_command, run_up, wait_for

sys.path.insert(0, str(REPOSITORY / "deploy" / "launcher"))

import cluster  # noqa: E402
import leftovers  # noqa: E402


def test_command_sees_the_cluster_and_its_exit_code_is_ours(fake):
    script = 'echo "$KRAIT_URL $KRAIT_METRICS_URL"; cat "$KRAIT_RUN_DIR/cluster.json"; exit 7'
    done = run_up(*fake, "--ranks", 3, "--groups", 2, "--", "bash", "-c", script)
    assert done.returncode == 7, done.stderr
    first, _, rest = done.stdout.partition("\n")
    document = json.loads(rest)
    assert first == f"{document['url']} {document['metrics_url']}"
    assert document["state"] == "ready"
    shards = [(p["group"], p["rank"]) for p in document["processes"] if p["role"] == "shard"]
    assert shards == [(g, r) for g in ("g0", "g1") for r in range(3)]
    assert not any(is_alive(p["pid"]) for p in document["processes"])
    assert not pathlib.Path(document["run_dir"]).exists()


def test_command_killed_by_a_signal(fake):
    assert run_up(*fake, "--", "bash", "-c", "kill -9 $$").returncode == 128 + 9


def test_options_reach_the_daemons(fake, fake_model):
    done = run_up(
        *fake,
        "--dtype",
        "bf16",
        "--threads",
        3,
        "--slots",
        5,
        "--max-queue",
        6,
        "--max-step-ms",
        7.5,
        "--served-model-name",
        "austen",
        "--shard-arg=--more",
        "--",
        "bash",
        "-c",
        'head -n 1 "$KRAIT_RUN_DIR"/logs/*.log',
    )
    assert done.returncode == 0, done.stderr
    coordinator = next(line for line in done.stdout.splitlines() if line.startswith("COORDINATOR"))
    rank = next(line for line in done.stdout.splitlines() if line.startswith("RANK_1"))
    assert "--served-model-name austen" in coordinator and "--group g0" in coordinator
    for words in (
        f"--model {fake_model}",
        "--group g0 --rank 1 --world 2",
        "--dtype bf16",
        "--threads 3",
        "--slots 5",
        "--max-queue 6",
        "--max-step-ms 7.5",
        "--served-model-name austen",
        "--metrics-port 0",
        "--more",
    ):
        assert words in rank, words


def test_sample_streams_and_the_urls_are_said(fake):
    with Up(*fake, sample=True) as up:
        up.wait_ready()
        up.wait_said("Ctrl-C")
        assert "Once upon a time, a single man." in up.said
        urls = [up.url] + [process["metrics_url"] for process in up.document["processes"]]
        assert all(url in up.said for url in urls)
        assert up.stop(signal.SIGINT) == 0


def test_a_lost_coordinator_ends_it(fake):
    with Up(*fake, environment={"KRAIT_FAKE_COORDINATOR": "die 0"}) as up:
        assert up.process.wait(60) == 1
        assert "these are my last words" in up.said and "the coordinator is gone" in up.said
        assert up.sockets() == []


@pytest.mark.parametrize(
    "who, order, words",
    [
        ("RANK_1", "exit 3", ["rank 1 of group g0", "exited with code 3", "cannot go on, for a reason"]),
        ("COORDINATOR", "exit 4", ["coordinator", "exited with code 4", "cannot go on, for a reason"]),
        ("RANK_0", "die 5", ["rank 0 of group g0", "exited with code 5", "these are my last words"]),
    ],
)
def test_a_death_while_starting_is_named(fake, who, order, words):
    done = run_up(*fake, "--", "true", environment={f"KRAIT_FAKE_{who}": order, "KRAIT_FAKE_LOAD_S": "30"})
    assert done.returncode == 1
    for word in words:
        assert word in done.stderr
    log = pathlib.Path(re.search("  log: (.*)", done.stderr)[1])
    assert words[-1] in log.read_text(encoding="utf-8"), "what it names is there"
    assert f"logs kept in {log.parent}" in done.stderr
    assert sorted(path.name for path in log.parents[1].iterdir()) == ["logs", "logs-of-a-failure"]
    shutil.rmtree(log.parents[1])


def test_logs_of_failures_do_not_pile_up(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "default_parent", lambda: tmp_path)
    for number in range(leftovers.MAX_KEPT + 3):
        folder, created = leftovers.make_run_dir(None)
        (folder / "logs").mkdir()
        leftovers.keep_logs(folder)
        os.utime(folder / leftovers.KEPT_MARK, (number, number))
        leftovers.sweep_run_dirs()
        assert created and (folder / "logs").exists(), "the newest stays"
    assert len(list(tmp_path.iterdir())) == leftovers.MAX_KEPT - 1, "and there is room for one more"


def test_warnings_of_the_logs_are_said_once(fake):
    warnings = "no tokenizer in 7 folders|waited for 5 s: [x] W y|waited for 10 s: [x] W y"
    done = run_up(*fake, "--", "sleep", "1", environment={"KRAIT_FAKE_WARNINGS": warnings})
    assert done.returncode == 0
    said = [line.split(": ", 1)[1] for line in done.stderr.splitlines() if " warning " in line]
    assert said == ["no tokenizer in 7 folders", "waited for 5 s: [x] W y"]


def test_warnings_without_end_do_not_fill_the_terminal(fake):
    warnings = "|".join(f"{'x' * kind}{'y' * 2000}" for kind in range(1, cluster.MAX_WARNINGS + 20))
    done = run_up(*fake, "--", "true", environment={"KRAIT_FAKE_WARNINGS": warnings})
    said = [line for line in done.stderr.splitlines() if " warning " in line]
    assert len(said) == cluster.MAX_WARNINGS + 1 and max(map(len, said)) < cluster.MAX_WARNING_CHARS + 100
    assert said[-1].endswith("further kinds of warnings stand in the logs only")


def test_a_silent_process_is_named_when_patience_ends(fake):
    done = run_up(*fake, "--ready-timeout", 8, "--", "true", environment={"KRAIT_FAKE_LOAD_S": "600"})
    assert done.returncode == 1
    assert "g0 is loading: rank 1" in done.stderr


def test_patience_also_ends_the_wait_for_the_ready_lines(fake):
    began = time.monotonic()
    done = run_up(*fake, "--ready-timeout", 2, "--", "true", environment={"KRAIT_FAKE_RANK_1": "silent"})
    assert done.returncode == 1 and time.monotonic() - began < cluster.START_TIMEOUT_S / 2
    assert "gave up: waiting for rank 1 of group g0" in done.stderr


def test_a_death_while_running_is_named_and_the_rest_stays(fake):
    with Up(*fake, environment={"KRAIT_FAKE_RANK_1": "die 9"}) as up:
        up.wait_ready()
        up.wait_said("these are my last words")
        assert "rank 1 of group g0" in up.said and "exited with code 9" in up.said
        assert is_alive(up.process_of("coordinator")["pid"])
        wait_for(lambda: up.read() and up.process_of("shard", 1)["ended"], "the death in cluster.json")
        assert up.document["state"] == "degraded"
        assert up.stop() == 1


def test_the_command_of_a_dead_process_works_in_a_shell(fake):
    with Up(*fake, environment={"KRAIT_FAKE_RANK_1": "die 9"}) as up:
        up.wait_said("these are my last words")
        assert "--watch-parent-pid" not in printed_command(up.said)
        # The shell stays between us and the process, as a terminal's does.
        words = ["bash", "-c", f"{printed_command(up.said)} & wait"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as again:
            ready = again.stdout.readline()
            assert ready.startswith("READY "), ready
            os.kill(json.loads(ready.removeprefix("READY "))["pid"], signal.SIGTERM)


def test_a_death_does_not_end_the_command(fake):
    done = run_up(*fake, "--", "bash", "-c", "sleep 1; exit 5", environment={"KRAIT_FAKE_RANK_0": "die 9"})
    assert done.returncode == 5
    assert "these are my last words" in done.stderr


IMPATIENT_UP = pathlib.Path(__file__).resolve().parent / "fake" / "impatient_up"


@pytest.mark.parametrize("who, grace, signals", [("COORDINATOR", 0.2, 1), ("COORDINATOR", 600, 2), ("RANK_1", 600, 1)])
def test_what_ignores_sigterm_is_killed_and_that_is_no_success(fake, who, grace, signals):
    with Up(*fake, "--grace", grace, environment={f"KRAIT_FAKE_{who}": "deaf"}, program=IMPATIENT_UP) as up:
        up.wait_ready()
        if signals == 2:
            up.send(signal.SIGINT)
            wait_for(lambda: up.read()["state"] == "stopping", "the first to be seen")
        assert up.stop(signal.SIGINT) == 1
        name = "coordinator" if who == "COORDINATOR" else "rank 1 of group g0"
        assert re.search(f"{name} .* did not stop in time and is killed", up.said)
        assert up.said.count("is killed") == 1 and "logs kept in" in up.said
        assert not any(map(is_alive, up.pids))
        assert up.sockets() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_reaches_the_daemons_which_end_by_themselves(fake, number):
    environment = {"KRAIT_FAKE_COORDINATOR": "drain 3", "KRAIT_FAKE_RANK_1": "drain 0"}
    with Up(*fake, "--grace", "600", environment=environment) as up:
        up.wait_ready().send(number)
        up.wait_said("3 open requests may finish, for up to 600 s; another Ctrl-C ends them at once")
        coordinator = pathlib.Path(up.process_of("coordinator")["log"])
        wait_for(lambda: "told to end, 1" in coordinator.read_text(encoding="utf-8"), "the first signal")
        time.sleep(0.5)
        assert is_alive(up.process_of("coordinator")["pid"]), "it drains"
        assert up.stop(number) == 0
        for process in (up.process_of("coordinator"), up.process_of("shard", 1)):
            assert "told to end, 2" in pathlib.Path(process["log"]).read_text(encoding="utf-8")
        assert "is killed" not in up.said


def test_one_open_request_is_waited_for_with_words_also_after_a_command(fake):
    environment = {"KRAIT_FAKE_COORDINATOR": "drain 1"}
    with Up(*fake, "--grace", "600", "--", "true", environment=environment) as up:
        up.wait_said("1 open request may finish, for up to 600 s; a Ctrl-C ends it at once")
        assert up.stop(signal.SIGINT) == 0


def test_who_ends_badly_when_told_to_end_is_named(fake):
    with Up(*fake, environment={"KRAIT_FAKE_RANK_0": "fail 4"}) as up:
        up.wait_ready()
        assert up.stop() == 1
        assert "rank 0 of group g0" in up.said and "exited with code 4" in up.said and "logs kept in" in up.said


@pytest.mark.parametrize("deaf", [False, True])
def test_kill_9_of_the_launcher_leaves_nothing(fake, deaf):
    environment = {"KRAIT_FAKE_RANK_1": "deaf"} if deaf else {}
    words = [str(w) for w in (UP, *fake, "--port", 0, "--no-sample")]
    process = subprocess.Popen(
        [*words, "--", "bash", "-c", 'echo "$KRAIT_RUN_DIR" && exec sleep 600'],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=dict(os.environ, **environment),
    )
    run_dir = pathlib.Path(process.stdout.readline().strip())
    document = json.loads((run_dir / "cluster.json").read_text(encoding="utf-8"))
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
    assert len(children) == 5  # the janitor, three daemons, the command
    process.kill()
    process.wait()
    process.stdout.close()
    wait_for(lambda: not any(map(is_alive, children)), "every child to end")
    assert not any(is_alive(p["pid"]) for p in document["processes"])
    assert not run_dir.exists()


def test_a_dead_launchers_folder_and_segment_are_swept_and_others_are_not(fake):
    ended = subprocess.Popen(["true"])
    ended.wait()
    stale, held = (pathlib.Path("/dev/shm") / f"krait-test-{os.getpid()}-{name}" for name in ("stale", "held"))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="krait-", dir=os.environ.get("XDG_RUNTIME_DIR") or "/tmp"))
    foreign = pathlib.Path(tempfile.mkdtemp(prefix="krait-", dir="/tmp"))
    try:
        (folder / "launcher.json").write_text(json.dumps({"pid": ended.pid, "start": 1}), encoding="utf-8")
        stale.touch()
        with open(held, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # as the maker of a segment does while it lives
            assert run_up(*fake, "--", "true").returncode == 0
            assert held.exists()
        assert not folder.exists() and foreign.exists()
        assert not stale.exists()
    finally:
        stale.unlink(missing_ok=True)
        held.unlink(missing_ok=True)
        foreign.rmdir()


def test_a_run_dir_in_use_is_refused(fake):
    with Up(*fake) as up:
        up.wait_ready()
        done = run_up(*fake, "--run-dir", up.run_dir, "--", "true")
        assert done.returncode == 1
        assert "in use by another deploy/up" in done.stderr
        assert all(map(is_alive, up.pids))


def test_a_chosen_run_dir_keeps_logs_only(fake):
    with Up(*fake) as up:
        up.wait_ready()
        assert up.sockets() != []
        assert up.stop() == 0
        assert sorted(path.name for path in up.run_dir.iterdir()) == ["logs"]
