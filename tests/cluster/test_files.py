"""Damaged files with the real programs: refused at the start with file and tensor named; changed later, never a wrong token."""

import json
import os
import shutil
import signal
import struct
import subprocess

import pytest

from launch import Up, command_of, get_json, run_up, wait_for
from reference import DEMO_MODEL, golden_model
from rest import Stream, complete, metrics, model_name, post

PROGRAMS = ["krait-shard", "krait-coordinator"]
NORM = "backbone.norm_f.weight"
REQUEST = {"prompt": "Mr. Darcy", "temperature": 0}


def _copy(source, folder):
    """Only what is served: the golden models have references beside them."""
    for name in ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json"):
        if (source / name).exists():
            shutil.copyfile(source / name, folder / name)
    return folder


@pytest.fixture
def model(tmp_path):
    return _copy(golden_model("mamba"), tmp_path)


def _change_header(folder, change):
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    size = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8 : 8 + size])
    text = change(header)
    text = json.dumps(header) if text is None else text
    path.write_bytes(struct.pack("<Q", len(text)) + text.encode() + raw[8 + size :])


def _fill(folder, tensor, number):
    path = folder / "model.safetensors"
    raw = bytearray(path.read_bytes())
    size = struct.unpack_from("<Q", raw)[0]
    begin, end = json.loads(raw[8 : 8 + size])[tensor]["data_offsets"]
    raw[8 + size + begin : 8 + size + end] = struct.pack("<f", number) * ((end - begin) // 4)
    path.write_bytes(raw)


def _run(program, folder, run_dir):
    words = [os.path.join(os.environ["KRAIT_TEST_BUILD_DIR"], "bin", program), "--model", folder, "--run-dir", run_dir]
    words += ["--group", "g0"] + (["--port", "0"] if program == "krait-coordinator" else [])
    return subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False
    )


def _cut(folder):
    os.truncate(folder / "model.safetensors", 100_000)


def _huge_header(folder):
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", 1 << 30))
        out.truncate(1 << 31)


def _duplicate(header):
    return json.dumps(header)[:-1] + f', "{NORM}": {json.dumps(header[NORM])}}}'


def _config(**fields):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | fields), encoding="utf-8")

    return change


def _replace(name):
    def change(folder):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return change


def _index(folder):
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {NORM: "model-00001-of-00001.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


DAMAGES = {
    "cut": (_cut, ["model.safetensors", "tensor '"]),
    "huge header": (_huge_header, ["model.safetensors", "header of 1073741824 bytes"]),
    "missing": (lambda f: _change_header(f, lambda h: h.__setitem__("other", h.pop(NORM))), [NORM, "is missing"]),
    "twice": (lambda f: _change_header(f, _duplicate), ["model.safetensors", NORM, "occurs twice"]),
    "dtype": (lambda f: _change_header(f, lambda h: h[NORM].update(dtype="I32")), ["model.safetensors", NORM, "is I32"]),
    "shape": (lambda f: _change_header(f, lambda h: h[NORM].update(shape=[8, 8])), ["model.safetensors", NORM, "[8, 8]"]),
    "fifo": (_replace("model.safetensors"), ["model.safetensors: not a regular file"]),
    "no such file": (_index, ["model-00001-of-00001.safetensors"]),
    "infinity": (_config(hidden_size=float("inf")), ["config.json: hidden_size", "Infinity"]),
    "sizes": (_config(num_hidden_layers=1), ["backbone.layers.1", "of no use"]),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_checkpoint_is_refused(model, tmp_path_factory, program, what):
    damage, words = DAMAGES[what]
    damage(model)
    run_dir = tmp_path_factory.mktemp("run")
    done = _run(program, model, run_dir)
    assert done.returncode == 1, done.stderr
    assert done.stdout == "", "no READY line"
    last = done.stderr.splitlines()[-1]
    assert " E " in last and "stopped: " in last and str(model) in last, done.stderr
    for word in words:
        assert word in last, done.stderr
    assert list(run_dir.iterdir()) == []


def test_a_damaged_tokenizer_is_refused(tmp_path, tmp_path_factory):
    _copy(DEMO_MODEL, tmp_path)
    text = (tmp_path / "tokenizer.json").read_text(encoding="utf-8")
    (tmp_path / "tokenizer.json").write_text(text.replace('"vocab": {', '"vocab": {"\\u0120x": 1, ', 1), encoding="utf-8")
    assert (tmp_path / "tokenizer.json").read_text(encoding="utf-8") != text
    done = _run("krait-coordinator", tmp_path, tmp_path_factory.mktemp("run"))
    assert done.returncode == 1
    assert f"{tmp_path}/tokenizer.json: model" in done.stderr.splitlines()[-1], done.stderr


def test_deploy_up_shows_the_sentence(model):
    _change_header(model, lambda header: header[NORM].update(dtype="I32"))
    done = run_up("--model", model, "--", "true")
    assert done.returncode == 1
    assert "exited with code 1" in done.stderr
    assert f"{model}/model.safetensors: tensor '{NORM}' is I32; F32, BF16, F16, Q8_0, Q4_0 and Q6_K are served" in done.stderr


def test_weights_that_are_no_numbers_are_named_and_their_answers_are_errors(model):
    _fill(model, NORM, float("nan"))
    prompt = {"prompt": [1, 2, 3], "max_tokens": 4}
    with Up("--model", model, "--ranks", 2) as up:
        up.wait_ready()
        scored = {"echo": True, "logprobs": 0, "max_tokens": 0}
        for more in ({}, {"temperature": 0}, {"logprobs": 2}, {"stream": True}, scored):
            body = {"model": model_name(up.url), **prompt, **more}
            status, _, document = post(up.url, "/v1/completions", body)
            assert status == 500, document
            assert "NaN" in document["error"]["message"], document
        counts = {"krait_non_finite_weights": 64, "krait_non_finite_logits_total": 5}
        shard = up.process_of("shard", 0)["metrics_url"]
        wait_for(lambda: counts.items() <= metrics(shard).items(), "the leader's metrics to say so")
        log = (up.run_dir / "logs" / "shard-g0-0.log").read_text(encoding="utf-8")
        assert f"64 weights are NaN or infinite, in 1 tensors: {NORM} (64)" in log
        assert up.stop() == 0


def test_a_file_changed_under_a_cluster_is_named_by_whoever_reads_it(tmp_path):
    path = _copy(DEMO_MODEL, tmp_path) / "model.safetensors"
    with Up("--model", tmp_path, "--ranks", 2) as up:
        up.wait_ready()
        stream = Stream(up.url, **REQUEST, max_tokens=200_000, ignore_eos=True)
        assert stream.read_event()["choices"]
        os.truncate(path, 200_000)
        last = [event for event in stream.read_all() if "error" in event][-1]
        assert str(path) in last["error"]["message"], last

        def ready():
            status, document = get_json(up.url, "/ready")
            return status == 503 and document["groups"][0]["detail"]

        # The group tries again every second, and fails the same way until it is started anew.
        assert str(path) in wait_for(ready, "/ready to say why")
        status, _, document = post(up.url, "/v1/completions", {"model": model_name(up.url), **REQUEST})
        assert status == 503 and document["error"]["message"], document
        assert up.stop() == 0, "no process has died"


def test_a_file_put_in_its_place_is_another_checkpoint(tmp_path):
    path = _copy(DEMO_MODEL, tmp_path) / "model.safetensors"
    with Up("--model", tmp_path, "--ranks", 2) as up:
        up.wait_ready()
        before = complete(up.url, **REQUEST, max_tokens=12)["choices"]
        path.rename(tmp_path / "served")
        shutil.copyfile(tmp_path / "served", path)
        _fill(tmp_path, NORM, 1.5)
        assert complete(up.url, **REQUEST, max_tokens=12)["choices"] == before, "what is open goes on"

        pid = up.process_of("shard", 1)["pid"]
        command = command_of(pid)
        os.kill(pid, signal.SIGKILL)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1
        assert "rank 1 has model fingerprint" in done.stderr.splitlines()[-1], done.stderr
        wait_for(lambda: get_json(up.url, "/ready")[0] == 503, "the loss to be noticed")

        (tmp_path / "served").rename(path)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as again:
            try:
                wait_for(lambda: get_json(up.url, "/ready")[0] == 200, "the group to serve again", 40)
                assert complete(up.url, **REQUEST, max_tokens=12)["choices"] == before
            finally:
                again.kill()
