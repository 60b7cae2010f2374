"""What a rank takes while it loads: its tensors in the run's type, 15 % and 64 MiB. Pages of files do not count."""

import pathlib
import threading
import time

import pytest

from launch import Up
from made_model import tensors, write_model


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


# Scales and what stays float32 or int8 included.
@pytest.mark.parametrize("dtype, bytes_each", [("f32", 4), ("bf16", 2), ("int8", 1.05), ("int4", 0.75)])
def test_a_rank_holds_its_tensors_and_little_more(tmp_path, dtype, bytes_each):
    write_model(tmp_path)
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
    held = sum(count for _, _, count in tensors()) * bytes_each
    limit = held * 1.15 + 64 * 2**20
    assert len(peaks) == 2, "both ranks must have been seen"
    for pid, peak in peaks.items():
        print(f"rank {pid}: {peak / 2**20:.0f} MiB of at most {limit / 2**20:.0f}")
        assert held * 0.9 < peak <= limit
