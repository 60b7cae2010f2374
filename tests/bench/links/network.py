"""Two network namespaces with one link between them, whose speed is limited both ways. Python's standard library only."""

import contextlib
import os
import subprocess

ADDRESSES = ("10.0.0.1", "10.0.0.2")  # of networks that nobody else is in
_DEVICE = "krait0"
_LEAST_BURST_BYTES = 128 * 1024  # a packet as the sender's kernel hands it over has up to 64 KiB
_QUEUE_BYTES = 4 * 1024 * 1024


@contextlib.contextmanager
def linked(gbit):
    """The names of the two namespaces, for as long as the block runs."""
    names = [f"krait-links-{os.getpid()}-{rank}" for rank in (0, 1)]
    try:
        for name in names:
            _run("ip", "netns", "add", name)
        _run("ip", "link", "add", _DEVICE, "netns", names[0], "type", "veth", "peer", "name", _DEVICE, "netns", names[1])
        burst = max(_LEAST_BURST_BYTES, int(gbit * 1e9 / 8 / 1000))  # a millisecond's bytes
        for name, address in zip(names, ADDRESSES):
            _run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", _DEVICE)
            _run("ip", "-n", name, "link", "set", _DEVICE, "up")
            _run("ip", "-n", name, "link", "set", "lo", "up")
            _run(
                "tc", "-n", name, "qdisc", "add", "dev", _DEVICE, "root", "tbf",
                "rate", f"{round(gbit * 1000)}mbit", "burst", str(burst), "limit", str(burst + _QUEUE_BYTES),
            )  # fmt: skip
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def _run(*words):
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"links: {' '.join(words)}: {done.stderr.strip()}")
