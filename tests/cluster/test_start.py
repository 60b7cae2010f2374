"""What a process is refused for at its start, what it says while it waits, how it ends: exit codes and last words."""

import contextlib
import json
import pathlib
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from launch import UP, get_json, wait_for
from reference import DEMO_MODEL, golden_model
from rest import Stream, complete

ENDS_WITHIN_S = 30


class Process:
    """One daemon, started as a service manager would."""

    def __init__(self, program, run_dir, *options, model=DEMO_MODEL, limits=None, out=subprocess.PIPE):
        words = [pathlib.Path(os.environ["KRAIT_TEST_BUILD_DIR"]) / "bin" / program, "--run-dir", run_dir]
        words += ["--model", model, *options]
        self.process = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT if out == subprocess.PIPE else subprocess.PIPE,
            text=True,
            preexec_fn=lambda: [resource.setrlimit(kind, limit) for kind, limit in (limits or {}).items()],
        )
        self._lines = []
        self._words = self.process.stdout or self.process.stderr
        self._reader = threading.Thread(target=lambda: self._lines.extend(iter(self._words.readline, "")))
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        self._words.close()

    @property
    def said(self):
        return "".join(self._lines)

    def wait_said(self, text):
        wait_for(lambda: text in self.said or self.process.poll() is not None, f"{text!r} in {self.said}")
        assert text in self.said
        return self

    def signal(self, number):
        self.process.send_signal(number)
        return self

    def ended(self, code, *words):
        assert self.process.wait(ENDS_WITHIN_S) == code, self.said
        self._reader.join()
        for word in words:
            assert word in self.said, self.said


def shard(run_dir, rank, *options, world=2, **more):
    return Process("krait-shard", run_dir, "--rank", rank, "--world", world, *options, **more)


def coordinator(run_dir, *options, port=0, **more):
    return Process("krait-coordinator", run_dir, "--group", "g0", "--port", port, *options, **more)


@pytest.fixture
def run_dir():
    with tempfile.TemporaryDirectory(prefix="kt-", dir="/tmp") as path:
        yield pathlib.Path(path)


@contextlib.contextmanager
def taken_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def _ranks(up):
    return get_json(up.url, "/cluster")[1]["groups"][0]["ranks"]


def test_a_second_process_with_the_place_of_a_living_one_is_refused(demo):
    before = _ranks(demo), complete(demo.url, prompt="Mr.", max_tokens=4, temperature=0)["choices"]
    pid = demo.process_of("shard", 1)["pid"]
    with shard(demo.run_dir, 1) as second, shard(demo.run_dir, 1, "--dtype", "bf16") as third:
        second.ended(1, f"another process is rank 1 of group g0 (pid {pid})")
        third.ended(1, f"another process is rank 1 of group g0 (pid {pid})")
    with shard(demo.run_dir, 0) as leader:
        leader.ended(1, f"ipc://{demo.run_dir}/g0-ranks.ipc", "another process listens there")
    after = _ranks(demo), complete(demo.url, prompt="Mr.", max_tokens=4, temperature=0)["choices"]
    assert before == after and get_json(demo.url, "/ready")[0] == 200


def test_a_rank_that_does_not_fit_is_refused(run_dir):
    with shard(run_dir, 0) as leader:
        leader.wait_said("READY")
        for options, words in (
            ({"world": 3}, "world size 3, its leader has 2"),
            ({"model": golden_model("mamba")}, "model fingerprint"),
        ):
            with shard(run_dir, 1, **options) as rank:
                rank.ended(1, words)
        with shard(run_dir, 1, "--dtype", "bf16") as rank:
            rank.ended(1, "dtype bf16, its leader has f32")
        with shard(run_dir, 5, world=6) as rank:
            rank.ended(1, "rank 5 of 6 has no place in a group of 2")
        with shard(run_dir, 1):
            leader.wait_said("serves: 2 ranks").signal(signal.SIGTERM).ended(0)


def test_who_waits_says_for_whom_and_where(run_dir):
    elsewhere = run_dir / "elsewhere"
    elsewhere.mkdir()
    with shard(run_dir, 0) as leader, shard(elsewhere, 1) as rank, coordinator(elsewhere) as front:
        leader.wait_said("waiting for rank 1; ranks are awaited at ipc://" + str(run_dir))
        rank.wait_said(f"waiting for the leader (rank 0) of group g0 at ipc://{elsewhere}/g0-ranks.ipc")
        front.wait_said(f"waiting for the leader of group g0 at ipc://{elsewhere}/g0.ipc")


def test_what_is_no_socket_is_told_from_a_leader_that_is_silent(run_dir):
    with coordinator(run_dir) as front:
        front.wait_said("there is no socket there")
    (run_dir / "g0.ipc").mkdir()
    with coordinator(run_dir) as front:
        front.wait_said("what is there is no socket").signal(signal.SIGTERM).ended(0)


@pytest.mark.parametrize("name, words", [("", "an empty name is no folder"), ("/dev/null", "not a folder")])
def test_a_run_dir_that_can_never_work_is_refused(name, words):
    with coordinator(name) as front, shard(name, 1) as rank:
        front.ended(2, "--run-dir", words)
        rank.ended(1, "--run-dir", words)


@pytest.mark.parametrize("name", ["x" * 25, "..", "ü", ""])
def test_both_daemons_refuse_the_same_names_of_groups(run_dir, name):
    words = f"--group '{name}': a group's name is 1 to 24 letters"
    with coordinator(run_dir, "--group", name) as front, shard(run_dir, 1, "--group", name) as rank:
        front.ended(2, words)
        rank.ended(1, words)


def test_who_cannot_tell_that_it_serves_ends(run_dir):
    with open("/dev/full", "wb") as full:
        for start in (coordinator, rank_1):
            with start(run_dir, out=full) as process:
                process.ended(1, "the READY line cannot be written to standard output: No space left on device")


@pytest.mark.parametrize("part", ["POST /v1/completions HTTP/1.1\r\nHo", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"])
def test_a_request_half_here_at_sigterm_has_the_drains_time_and_then_an_answer(run_dir, part):
    with coordinator(run_dir, "--drain-seconds", 1) as front:
        front.wait_said("READY")
        port = int(re.search(r'"port":(\d+)', front.said)[1])
        with socket.create_connection(("127.0.0.1", port), ENDS_WITHIN_S) as client:
            client.sendall(part.encode())
            time.sleep(0.3)
            began = time.monotonic()
            front.signal(signal.SIGTERM)
            answer = b"".join(iter(lambda: client.recv(4096), b""))
        assert time.monotonic() - began >= 0.9, "the request had less than its second"
        assert answer.startswith(b"HTTP/1.1 503") and b"Connection: close" in answer and b"shutting down" in answer
        front.ended(0)


def test_memory_that_is_limited_by_addresses_is_named_with_its_use(run_dir):
    said = ""
    for mebibytes in (150, 200, 250, 300):
        with shard(run_dir, 0, world=1, limits={resource.RLIMIT_AS: (mebibytes << 20, mebibytes << 20)}) as rank:
            wait_for(lambda: rank.process.poll() is not None or "serves: 1 ranks" in rank.said, "an end or a start")
            if rank.process.poll() is None:
                rank.signal(signal.SIGTERM).ended(0)
                continue
            rank.ended(1, "stopped: ")
            said += rank.said
    assert re.search(r"MiB of memory .*for .*\(.*(ulimit -v|--slots|--dtype)", said), said


def test_a_leader_whose_socket_file_was_removed_is_waited_for_with_words(run_dir):
    with shard(run_dir, 0) as leader:
        leader.wait_said("READY")
        (run_dir / "g0-ranks.ipc").unlink()
        with shard(run_dir, 1) as rank:
            rank.wait_said(f"waiting for the leader (rank 0) of group g0 at ipc://{run_dir}/g0-ranks.ipc")
            rank.signal(signal.SIGTERM).ended(0)
        leader.signal(signal.SIGTERM).ended(0)
    assert not any(path.is_socket() for path in run_dir.iterdir())


def test_a_port_in_use_is_named_with_its_option(run_dir):
    with taken_port() as port:
        for second, option in (
            (coordinator(run_dir, port=port), "--port"),
            (coordinator(run_dir, "--metrics-port", port), "--metrics-port"),
            (shard(run_dir, 1, "--metrics-port", port), "--metrics-port"),
        ):
            with second:
                second.ended(1, f"127.0.0.1 port {port}", "Address already in use", f"asked for with {option}")


def test_open_files_are_asked_for_at_the_start(run_dir):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for start in (coordinator, lambda run_dir, **more: shard(run_dir, 1, **more)):
        with start(run_dir, limits={resource.RLIMIT_NOFILE: (100, 100)}) as few:
            few.ended(1, "100 open files are too few", "ulimit -Hn")
    with coordinator(run_dir, limits={resource.RLIMIT_NOFILE: (300, 300)}) as fewer:
        fewer.wait_said("READY")
        fewer.signal(signal.SIGTERM).ended(0, "300 open files allow 44 connections at once and not 4096")
    with coordinator(run_dir, limits={resource.RLIMIT_NOFILE: (64, most)}) as raised:
        raised.wait_said("READY")
        text = pathlib.Path(f"/proc/{raised.process.pid}/limits").read_text(encoding="ascii")
        assert re.search(r"Max open files +(\d+)", text)[1] == str(most), "the soft limit is the hard one"


def test_too_little_address_space_is_said(run_dir):
    ended = 0
    for mib in range(40, 101, 4):
        with coordinator(run_dir, limits={resource.RLIMIT_AS: (mib << 20, mib << 20)}) as process:
            wait_for(lambda: "READY" in process.said or process.process.poll() is not None, process.said)
            if process.process.poll() is None:
                process.signal(signal.SIGTERM).ended(0)
                continue
            process.ended(process.process.returncode)
            # Too little for the loader, for ZeroMQ, which aborts by itself, and for us.
            words = {127: "error while loading", -signal.SIGABRT: r"\(src/\w+\.cpp:\d+\)", 1: "stopped: "}
            code = process.process.returncode
            assert re.search(words.get(code, "no such end"), process.said), f"{mib} MiB: {code}, {process.said}"
            ended += "stopped: " in process.said
    assert ended > 0, "none of these was too little for the program and enough for the loader"


def test_a_file_that_may_not_grow_is_said(run_dir):
    with shard(run_dir, 0, world=1, limits={resource.RLIMIT_FSIZE: (0, 0)}) as process:
        process.ended(1, "stopped: ", "File too large")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount another /dev/shm")
def test_a_shared_memory_folder_that_is_too_small_is_named(tmp_path):
    # Nothing mounted here may show outside; in a chroot, whose root is no mount, unshare itself cannot see to that.
    script = 'mount --make-private /dev/shm && mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"'
    up = [UP, "--port", 0, "--no-sample", "--build-dir", os.environ["KRAIT_TEST_BUILD_DIR"], "--", "true"]
    words = ["unshare", "-m", "--propagation", "unchanged", "bash", "-c", script, "-", *map(str, up)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    words = r"stopped: resource_exhausted: /dev/shm is too small: .* need \d+ bytes there, \d+ are free"
    assert re.search(words, done.stderr)
    log = pathlib.Path(re.search("logs kept in (.*)", done.stderr)[1])
    shutil.rmtree(log.parent)


def rank_1(run_dir, *options, **more):
    return shard(run_dir, 1, *options, **more)


@pytest.mark.parametrize("start", [coordinator, rank_1])
def test_exit_codes_and_last_words(run_dir, start):
    for number in (signal.SIGTERM, signal.SIGINT):
        with start(run_dir) as process:
            process.wait_said("READY")
            process.signal(number).ended(0)
    with start(run_dir) as process:
        process.wait_said("READY")
        process.signal(signal.SIGKILL).ended(-signal.SIGKILL)
    with start(run_dir, "--no-such-option") as process:
        process.ended(2, "--no-such-option")
    with start(run_dir, "--help") as process:
        process.ended(0, "--run-dir")
    with start(run_dir, "--version") as process:
        process.ended(0, "krait-")
    with start(run_dir, model="/no/such/model") as process:
        process.ended(1, "stopped: ", "/no/such/model")


def test_fields_of_a_model_that_nobody_knows_are_warned_of_in_a_line(run_dir):
    model = run_dir / "model"
    shutil.copytree(DEMO_MODEL, model)
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps({**config, "some_flag": 1, "other_flag": {}}), encoding="utf-8")
    with shard(run_dir, 0, model=model) as leader:
        leader.wait_said("READY").signal(signal.SIGTERM).ended(0)
        assert re.search(r" W \[.*\] config\.json: nobody here knows the fields: .*other_flag, some_flag", leader.said)


def test_a_second_sigterm_ends_it_at_once(demo):
    del demo  # its start keeps this one's short
    with tempfile.TemporaryDirectory(prefix="kt-", dir="/tmp") as path:
        with contextlib.ExitStack() as running:
            ranks = [running.enter_context(shard(path, rank)) for rank in (0, 1)]
            front = running.enter_context(coordinator(path, "--drain-seconds", 600))
            front.wait_said("READY")
            url = "http://127.0.0.1:" + re.search(r'"port":(\d+)', front.said)[1]
            wait_for(lambda: get_json(url, "/ready")[0] == 200, "the cluster to be ready")
            stream = Stream(url, prompt="Mr. Darcy", max_tokens=200_000, temperature=0, ignore_eos=True)
            assert stream.read_event()["choices"]
            front.signal(signal.SIGTERM).wait_said("draining; open requests: 1")
            time.sleep(0.3)
            assert front.process.poll() is None, "it waits for the request"
            front.signal(signal.SIGTERM).ended(0, "1 requests are cut off")
            assert any("error" in event for event in stream.read_all() if event != "[DONE]")
            ranks[1].signal(signal.SIGTERM).signal(signal.SIGTERM).ended(0)
            ranks[0].signal(signal.SIGTERM).signal(signal.SIGTERM).ended(0)


def test_help_is_grouped_and_one_line_an_option(run_dir):
    for program in ("krait-coordinator", "krait-shard"):
        path = pathlib.Path(os.environ["KRAIT_TEST_BUILD_DIR"]) / "bin" / program
        said = subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout
        options = [line for line in said.splitlines() if line.lstrip().startswith("--")]
        assert len(options) >= 15 and all(len(line) <= 120 for line in said.splitlines())
        assert all(re.fullmatch(r"  --[a-z-]+( [A-Z]+)? {2,}\S.*", line) for line in options), said
        assert re.search(r"^Addresses:$", said, re.M) and "INT in [" not in said
