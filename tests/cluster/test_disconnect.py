"""A client that goes away frees what it held, whatever its request was doing."""

import time

import pytest

from rest import Stream, load, metrics
from launch import wait_for

LONG = {"max_tokens": 200_000, "temperature": 0, "ignore_eos": True}
TRIES = 5
FREED_WITHIN_S = 0.1


@pytest.fixture(scope="module")
def one_slot(clusters):
    """One slot, so that whatever still holds it would be seen at once."""
    return clusters("demo", 2, "--slots", "1")


def _seconds_until(condition):
    began = time.monotonic()
    wait_for(condition, "what the request held to be free", 20)
    return time.monotonic() - began


def _decoding(up, stream):
    request = Stream(up.url, prompt="Mr. Darcy", **{**LONG, "stream": stream})
    if stream:
        assert request.status == 200
        request.read_event()
    wait_for(lambda: load(up) == (1, 0), "the request to run")
    if not stream:
        time.sleep(0.05)
    return request


def _prefilling(up):
    request = Stream(up.url, prompt=[7] * 500_000, **LONG)
    wait_for(lambda: load(up) == (1, 0), "the request to run")
    return request


def _fastest(up, begin):
    """Seconds from the drop to an idle cluster, the best of a few tries: the machine may be busy."""
    best = float("inf")
    for _ in range(TRIES):
        request = begin()
        request.drop()
        best = min(best, _seconds_until(lambda: load(up) == (0, 0)))
    return best


@pytest.mark.parametrize("stream", [True, False])
def test_while_decoding(one_slot, stream):
    assert _fastest(one_slot, lambda: _decoding(one_slot, stream)) < FREED_WITHIN_S


def test_while_prefilling(one_slot):
    assert _fastest(one_slot, lambda: _prefilling(one_slot)) < FREED_WITHIN_S


@pytest.mark.parametrize("stream", [True, False])
def test_while_queued(one_slot, stream):
    up = one_slot
    first = _decoding(up, True)
    best = float("inf")
    for _ in range(TRIES):
        second = Stream(up.url, prompt="Mr. Bingley", **{**LONG, "stream": stream})
        wait_for(lambda: load(up) == (1, 1), "the second request to wait")
        second.drop()
        best = min(best, _seconds_until(lambda: load(up) == (1, 0)))
    assert best < FREED_WITHIN_S
    assert first.read_event() is not None, "the request that runs must not notice"
    first.drop()
    wait_for(lambda: load(up) == (0, 0), "the cluster to be idle")


def test_a_slot_that_was_freed_serves_the_next(one_slot):
    request = _decoding(one_slot, True)
    waiting = Stream(one_slot.url, prompt="Mr. Bingley", max_tokens=3, temperature=0)
    request.drop()
    assert waiting.status == 200 and waiting.read_all()[-1] == "[DONE]"


def test_the_leader_says_that_nothing_runs(one_slot):
    idle = {"krait_sequences_running": 0, "krait_sequences_waiting": 0}
    idle |= {'krait_slots{state="used"}': 0, 'krait_slots{state="free"}': 1}
    leader = one_slot.process_of("shard", 0)["metrics_url"]
    wait_for(lambda: idle.items() <= metrics(leader).items(), "the leader's metrics to say so")
