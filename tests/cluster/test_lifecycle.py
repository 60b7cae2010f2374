"""From start to end of real daemons: drain, lost processes, a killed launcher, a second start."""

import json
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest

from launch import UP, Up, get_json, is_alive, printed_command, run_up, segments, wait_for
from reference import golden_model
from rest import Stream, complete, post

LONG = {"prompt": "Mr. Darcy", "max_tokens": 200_000, "temperature": 0, "ignore_eos": True}
LOST_WITHIN_S = 5.0


def _open_streams(up, count):
    streams = [Stream(up.url, **LONG) for _ in range(count)]
    for stream in streams:
        assert stream.status == 200
        assert stream.read_event()["choices"]
    return streams


def _error_within(stream, seconds):
    """The error that ends a stream, and that it came in time."""
    limit = time.monotonic() + seconds
    for event in iter(stream.read_event, None):
        if event != "[DONE]" and "error" in event:
            assert time.monotonic() < limit
            return event["error"]
    raise AssertionError("the stream ended without an error object")


def test_a_lost_rank_is_named_and_new_requests_are_refused():
    with Up("--grace", "3") as up:
        up.wait_ready()
        stream = _open_streams(up, 1)[0]
        lost = up.process_of("shard", 1)
        os.kill(lost["pid"], signal.SIGKILL)
        assert _error_within(stream, LOST_WITHIN_S)["message"]
        wait_for(lambda: get_json(up.url, "/ready")[0] == 503, "/ready to say 503")
        status, headers, document = post(up.url, "/v1/completions", {"model": _model(up), "prompt": "x"})
        assert status == 503 and document["error"]["message"] and headers["retry-after"]
        up.wait_said(f"rank 1 of group g0 (pid {lost['pid']}) killed by SIGKILL")
        assert "    | " in up.said.split("killed by SIGKILL")[1], "its last log lines"
        words = ["bash", "-c", f"{printed_command(up.said)} & wait"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as again:
            pid = json.loads(again.stdout.readline().removeprefix("READY "))["pid"]
            wait_for(lambda: get_json(up.url, "/ready")[0] == 200, "the group to serve again with the rank of a shell")
            os.kill(pid, signal.SIGTERM)
        assert up.stop() == 1


def _model(up):
    return get_json(up.url, "/v1/models")[1]["data"][0]["id"]


def test_a_lost_coordinator_ends_the_run_and_its_requests(demo):
    with Up() as up:
        up.wait_ready()
        stream = _open_streams(up, 1)[0]
        subprocess.run(["kill", "-KILL", str(up.process_of("coordinator")["pid"])], check=True)
        assert up.process.wait(60) == 1
        assert "coordinator" in up.said and "killed by SIGKILL" in up.said
        stream.drop()
        assert not any(map(is_alive, up.pids))
    assert get_json(demo.url, "/ready")[0] == 200, "another cluster on the machine must not notice"


def test_sigterm_drains(demo):
    del demo  # its start keeps this one's short
    with Up("--grace", "60") as up:
        up.wait_ready()
        model = _model(up)
        stream = Stream(up.url, prompt="Mr. Darcy", max_tokens=1500, temperature=0, ignore_eos=True)
        assert stream.status == 200 and stream.read_event()["choices"]
        codes = []
        stopper = threading.Thread(target=lambda: codes.append(up.stop()))
        stopper.start()
        # Either answer is right once it drains: refused in words, or no longer listening.
        wait_for(lambda: _refuses(up, model), "new requests to be refused")
        events = stream.read_all()
        stopper.join()
        assert events[-1] == "[DONE]"
        assert not any("error" in event for event in events[:-1])
        reasons = [c["finish_reason"] for event in events[:-1] for c in event["choices"] if c["finish_reason"]]
        assert reasons == ["length"]
        assert codes == [0] and not any(map(is_alive, up.pids))
        assert "did not stop in time" not in up.said


def test_a_second_ctrl_c_ends_open_streams_with_an_error_and_is_no_failure():
    with Up("--grace", "600") as up:
        up.wait_ready()
        stream = _open_streams(up, 1)[0]
        up.send(signal.SIGINT)
        up.wait_said("1 open request may finish")
        assert up.stop(signal.SIGINT) == 0
        events = stream.read_all()
        assert events[-1] == "[DONE]" and "error" in events[-2]
        assert "killed" not in up.said


def test_sigterm_of_one_rank_lets_open_requests_end():
    with Up("--grace", "60") as up:
        up.wait_ready()
        model = _model(up)
        stream = Stream(up.url, prompt="Mr. Darcy", max_tokens=1500, temperature=0, ignore_eos=True)
        assert stream.status == 200 and stream.read_event()["choices"]
        subprocess.run(["kill", "-TERM", str(up.process_of("shard", 1)["pid"])], check=True)
        wait_for(lambda: _refuses(up, model), "new requests to be refused")
        events = stream.read_all()
        assert events[-1] == "[DONE]" and not any("error" in event for event in events[:-1])
        wait_for(lambda: not is_alive(up.process_of("shard", 1)["pid"]), "the rank to end")
        assert get_json(up.url, "/ready")[0] == 503


def _refuses(up, model):
    try:
        return post(up.url, "/v1/completions", {"model": model, "prompt": "x", "max_tokens": 1})[0] == 503
    except OSError:
        return True


def test_kill_9_of_the_launcher_leaves_nothing():
    before = segments()
    words = [
        str(w)
        for w in (
            UP,
            "--port",
            0,
            "--no-sample",
            "--ranks",
            3,
            "--model",
            golden_model("mamba"),
            "--build-dir",
            golden_model("mamba").parents[2],
        )
    ]
    process = subprocess.Popen(
        [*words, "--", "bash", "-c", 'echo "$KRAIT_RUN_DIR" && exec sleep 600'],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    run_dir = pathlib.Path(process.stdout.readline().strip())
    document = json.loads((run_dir / "cluster.json").read_text(encoding="utf-8"))
    process.kill()
    process.wait()
    process.stdout.close()
    wait_for(lambda: not any(is_alive(p["pid"]) for p in document["processes"]), "every daemon to end")
    wait_for(lambda: not run_dir.exists(), "the run directory to go")
    assert segments() == before


def test_daemons_end_without_the_launcher_and_its_janitor():
    """Both killed at once: the daemons watch the launcher's pid themselves."""
    with Up("--model", golden_model("mamba")) as up:
        up.wait_ready()
        children = pathlib.Path(f"/proc/{up.process.pid}/task/{up.process.pid}/children").read_text(encoding="ascii")
        janitor = next(pid for pid in map(int, children.split()) if pid not in up.pids)
        subprocess.run(["kill", "-KILL", str(janitor), str(up.process.pid)], check=True)
        wait_for(lambda: not any(map(is_alive, up.pids)), "every daemon to end")


@pytest.mark.parametrize("code", [0, 9])
def test_a_second_start_builds_nothing_and_ends_with_the_commands_code(code):
    command = ["bash", "-c", f'test -n "$KRAIT_URL" && exit {code}']
    done = run_up("--model", golden_model("mamba"), "--", *command, build_first=True)
    assert done.returncode == code, done.stderr
    assert "build     up to date" in done.stderr


def test_a_model_that_is_none_is_refused_with_the_file_named(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}', encoding="utf-8")
    (tmp_path / "model.safetensors").touch()
    done = run_up("--model", tmp_path, "--", "true")
    assert done.returncode == 1
    assert "config.json" in done.stderr and "exited with code" in done.stderr


def test_a_model_without_a_tokenizer_takes_token_ids(clusters):
    url = clusters("mamba", 2).url
    choice = complete(url, prompt=[5, 6, 7], max_tokens=4, temperature=0, logprobs=1, ignore_eos=True)["choices"][0]
    assert all(token.startswith("token_id:") for token in choice["logprobs"]["tokens"])
    model = get_json(url, "/v1/models")[1]["data"][0]["id"]
    status, _, document = post(url, "/v1/completions", {"model": model, "prompt": "text", "max_tokens": 1})
    assert status == 400 and document["error"]["param"] == "prompt"


def test_two_groups_share_the_work(clusters):
    up = clusters("mamba", 1, "--groups", "2")
    texts = {json.dumps(complete(up.url, prompt=[9, 8, 7], max_tokens=8, temperature=0)["choices"]) for _ in range(6)}
    assert len(texts) == 1
    assert {p["group"] for p in up.document["processes"] if p["role"] == "shard"} == {"g0", "g1"}
