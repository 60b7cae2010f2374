"""What a rank takes while it loads: its tensors in the run's type, 15 % and 64 MiB. Pages of files do not count."""

import array
import json
import pathlib
import struct
import threading
import time

import pytest

from launch import Up

HIDDEN, INNER, STATE, RANK, TAPS, LAYERS, VOCAB = 768, 1536, 16, 48, 4, 10, 20_000


def _tensors():
    """(name, shape, elements that a rank of two holds)"""
    yield "backbone.embeddings.weight", (
        VOCAB,
        HIDDEN,
    ), VOCAB // 2 * HIDDEN  # as lm_head; look-ups use the file's pages
    yield "backbone.norm_f.weight", (HIDDEN,), HIDDEN
    for layer in range(LAYERS):
        at = f"backbone.layers.{layer}."
        yield at + "norm.weight", (HIDDEN,), HIDDEN
        for name, shape in (
            ("in_proj.weight", (2 * INNER, HIDDEN)),
            ("conv1d.weight", (INNER, 1, TAPS)),
            ("conv1d.bias", (INNER,)),
            ("x_proj.weight", (RANK + 2 * STATE, INNER)),
            ("dt_proj.weight", (INNER, RANK)),
            ("dt_proj.bias", (INNER,)),
            ("A_log", (INNER, STATE)),
            ("D", (INNER,)),
            ("out_proj.weight", (HIDDEN, INNER)),
        ):
            count = 1
            for extent in shape:
                count *= extent
            yield at + "mixer." + name, shape, count // 2


def _write_model(folder):
    config = {
        "model_type": "mamba",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "state_size": STATE,
        "time_step_rank": RANK,
        "conv_kernel": TAPS,
        "num_hidden_layers": LAYERS,
        "vocab_size": VOCAB,
        "use_conv_bias": True,
        "use_bias": False,
        "tie_word_embeddings": True,
        "layer_norm_epsilon": 1e-5,
        "eos_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    block = array.array("f", [0.01 * ((i * 7919) % 13 - 6) for i in range(4096)]).tobytes()
    header, offset = {}, 0
    for name, shape, _ in _tensors():
        size = 4
        for extent in shape:
            size *= extent
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name in header:
            left = header[name]["data_offsets"][1] - header[name]["data_offsets"][0]
            while left > 0:
                out.write(block[:left])
                left -= len(block)


def _own_bytes(pid):
    """Anonymous and shared memory; files' pages belong to the page cache."""
    fields = dict(
        line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))


def _shards_of(folder):
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        if words[0].endswith(b"krait-shard") and str(folder).encode() in words:
            yield int(entry.name)


@pytest.mark.parametrize("dtype, bytes_each", [("f32", 4), ("bf16", 2)])
def test_a_rank_holds_its_tensors_and_little_more(tmp_path, dtype, bytes_each):
    _write_model(tmp_path)
    peaks, watching = {}, threading.Event()

    def watch():
        while not watching.is_set():
            for pid in _shards_of(tmp_path):
                try:
                    peaks[pid] = max(peaks.get(pid, 0), _own_bytes(pid))
                except (OSError, KeyError):
                    pass
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with Up("--model", tmp_path, "--ranks", 2, "--dtype", dtype) as up:
            up.wait_ready()
            time.sleep(0.3)
    finally:
        watching.set()
        watcher.join()
    tensors = sum(count for _, _, count in _tensors()) * bytes_each
    limit = tensors * 1.15 + 64 * 2**20
    assert len(peaks) == 2, "both ranks must have been seen"
    for pid, peak in peaks.items():
        print(f"rank {pid}: {peak / 2**20:.0f} MiB of at most {limit / 2**20:.0f}")
        assert tensors * 0.9 < peak <= limit
