"""What a rank takes while it loads and serves: its tensors in the run's type, its states, 15 % and 64 MiB. And what a
long prompt takes: 4 bytes a token where it waits to be read, nothing elsewhere. Pages of files do not count."""

import concurrent.futures
import os
import pathlib
import statistics
import threading
import time

import pytest

from flood import resident_bytes
from launch import Up
from made_model import INNER, LAYERS, STATE, TAPS, tensors, VOCAB, write_model
from reference import DEMO_MODEL
from rest import complete, post

SLOTS = 8
LONG_TOKENS = 1_000_000 if os.environ.get("KRAIT_TEST_LONG") else 300_000
DEMO_VOCAB = 4096


def _shards_of(folder):
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        if words[0].endswith(b"krait-shard") and str(folder).encode() in words:
            yield int(entry.name)


# Scales and what stays float32 or int8 included.
@pytest.mark.parametrize("dtype, bytes_each", [("f32", 4), ("bf16", 2), ("int8", 1.05), ("int4", 0.75)])
def test_a_rank_holds_its_tensors_and_little_more(tmp_path, dtype, bytes_each):
    write_model(tmp_path)
    peaks, watching = {}, threading.Event()

    def watch():
        while not watching.is_set():
            for pid in _shards_of(tmp_path):
                try:
                    peaks[pid] = max(peaks.get(pid, 0), resident_bytes(pid))
                except (OSError, KeyError):
                    pass
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with Up("--model", tmp_path, "--ranks", 2, "--dtype", dtype, "--slots", SLOTS) as up:
            up.wait_ready()
            prompts = [[(i * 7 + n) % VOCAB for i in range(300)] for n in range(SLOTS)]
            answer = complete(up.url, prompt=prompts, max_tokens=8, ignore_eos=True)
            assert answer["usage"]["completion_tokens"] == SLOTS * 8
    finally:
        watching.set()
        watcher.join()
    weights = sum(count for _, _, count in tensors()) * bytes_each
    held = weights + SLOTS * LAYERS * INNER // 2 * (STATE + TAPS - 1) * 4
    limit = held * 1.15 + 64 * 2**20
    assert len(peaks) == 2, "both ranks must have been seen"
    for pid, peak in peaks.items():
        print(f"rank {pid}: {peak / 2**20:.0f} MiB of at most {limit / 2**20:.0f}")
        assert weights * 0.9 < peak <= limit


def samples_while(up, work):
    """{(role, rank): [bytes of its own, again and again while work() runs]}"""
    processes = {(p["role"], p["rank"]): p["pid"] for p in up.document["processes"]}
    found = {name: [] for name in processes}
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        while not done.done():
            for name, pid in processes.items():
                found[name].append(resident_bytes(pid))
            time.sleep(0.01)
        done.result()
    return found


def test_a_long_prompt_takes_four_bytes_a_token():
    with Up("--model", DEMO_MODEL, "--ranks", 2, "--threads", 1, "--dtype", "bf16", "--slots", 2) as up:
        up.wait_ready()

        def ask(tokens):
            ids = [(i * 7919) % DEMO_VOCAB for i in range(tokens)]
            fields = {"prompt": ids, "max_tokens": 2, "ignore_eos": True}
            status, _, answer = post(up.url, "/v1/completions", fields, timeout=900)
            assert status == 200 and answer["usage"]["prompt_tokens"] == tokens, answer

        before = {name: max(values) for name, values in samples_while(up, lambda: ask(4000)).items()}
        during = samples_while(up, lambda: ask(LONG_TOKENS))
    held = 4 * LONG_TOKENS
    for name, values in during.items():
        # Most of the time is the reading of the prompt; while the request comes in, its text and message are there too.
        growth = statistics.median(values) - before[name]
        allowed = 0.25 * held + (held if name != ("shard", 1) else 0)
        print(f"{name}: {growth / LONG_TOKENS:.2f} bytes a token, most {(max(values) - before[name]) / LONG_TOKENS:.2f}")
        assert growth <= allowed, name
