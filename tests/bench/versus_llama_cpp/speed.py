"""Prefill and decoding, turn by turn: llama.cpp, Krait, llama.cpp, Krait ... in one run, and the machine's read rate before
each pair. Medians of turns; ratios are medians of the pairs' own."""

import random
import statistics
import threading
import time

import numpy as np

from models import KINDS, VOCAB, weights_file
from sides import Krait, Llama

READ_BYTES = 256 << 20
LOADS = (
    ("prefill 512", lambda side, tokens: 512 / side.prefill_s(tokens(512))),
    ("prefill 2048", lambda side, tokens: 2048 / side.prefill_s(tokens(2048))),
    ("decode 1", lambda side, tokens: 1 / side.step_s(1, tokens(16), 48)),
    ("decode 32", lambda side, tokens: 32 / side.step_s(32, tokens(16), 24)),
)


class ReadRate:
    """GB/s at which so many threads sum up memory that no cache holds."""

    def __init__(self, threads):
        self._parts = [np.ones(READ_BYTES // 8 // threads) for _ in range(threads)]

    def gbytes(self):
        workers = [threading.Thread(target=part.sum) for part in self._parts]
        began = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return READ_BYTES / (time.perf_counter() - began) / 1e9


def compare(shape, kind, threads, turns, wanted):
    """Prints one line a load, of those whose name begins with one of `wanted`."""
    path = weights_file(shape, kind)
    draw = random.Random(5)

    def tokens(count):
        return [draw.randrange(1, VOCAB - 10) for _ in range(count)]

    rate = ReadRate(threads)
    with Llama(path, threads) as peer, Krait(path, threads, KINDS[kind]) as own:
        for name, load in LOADS:
            if not name.startswith(tuple(wanted)):
                continue
            for side in (peer, own):
                load(side, tokens)  # not counted: pages, caches, what a scheduler learns
            rates, theirs, ours = [], [], []
            for _ in range(turns):
                rates.append(rate.gbytes())
                theirs.append(load(peer, tokens))
                ours.append(load(own, tokens))
            ratio = statistics.median(b / a for a, b in zip(theirs, ours, strict=True))
            print(
                f"{shape:5} {kind:5}/{KINDS[kind]:5} {name:13} llama.cpp {statistics.median(theirs):8.1f} t/s  "
                f"Krait {statistics.median(ours):8.1f} t/s  ratio {ratio:5.2f}  "
                f"({min(b / a for a, b in zip(theirs, ours, strict=True)):.2f}-"
                f"{max(b / a for a, b in zip(theirs, ours, strict=True)):.2f})  "
                f"memory {statistics.median(rates):5.1f} GB/s ({min(rates):.1f}-{max(rates):.1f})",
                flush=True,
            )
