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


def _decoding(url, stream):
    request = Stream(url, prompt="Mr. Darcy", **{**LONG, "stream": stream})
    if stream:
        assert request.status == 200
        request.read_event()
    wait_for(lambda: load(url) == (1, 0), "the request to run")
    if not stream:
        time.sleep(0.05)
    return request


def _prefilling(url):
    request = Stream(url, prompt=[7] * 500_000, **LONG)
    wait_for(lambda: load(url) == (1, 0), "the request to run")
    return request


def _fastest(url, begin):
    """Seconds from the drop to an idle cluster, the best of a few tries: the machine may be busy."""
    best = float("inf")
    for _ in range(TRIES):
        request = begin()
        request.drop()
        best = min(best, _seconds_until(lambda: load(url) == (0, 0)))
    return best


@pytest.mark.parametrize("stream", [True, False])
def test_while_decoding(one_slot, stream):
    assert _fastest(one_slot.url, lambda: _decoding(one_slot.url, stream)) < FREED_WITHIN_S


def test_while_prefilling(one_slot):
    assert _fastest(one_slot.url, lambda: _prefilling(one_slot.url)) < FREED_WITHIN_S


@pytest.mark.parametrize("stream", [True, False])
def test_while_queued(one_slot, stream):
    url = one_slot.url
    first = _decoding(url, True)
    best = float("inf")
    for _ in range(TRIES):
        second = Stream(url, prompt="Mr. Bingley", **{**LONG, "stream": stream})
        wait_for(lambda: load(url) == (1, 1), "the second request to wait")
        second.drop()
        best = min(best, _seconds_until(lambda: load(url) == (1, 0)))
    assert best < FREED_WITHIN_S
    assert first.read_event() is not None, "the request that runs must not notice"
    first.drop()
    wait_for(lambda: load(url) == (0, 0), "the cluster to be idle")


def test_a_slot_that_was_freed_serves_the_next(one_slot):
    request = _decoding(one_slot.url, True)
    waiting = Stream(one_slot.url, prompt="Mr. Bingley", max_tokens=3, temperature=0)
    request.drop()
    assert waiting.status == 200 and waiting.read_all()[-1] == "[DONE]"


def test_the_leader_says_that_nothing_runs(one_slot):
    wait_for(lambda: load(one_slot.url) == (0, 0), "the cluster to be idle")
    leader = metrics(one_slot.process_of("shard", 0)["metrics_url"])
    assert leader["krait_sequences_running"] == leader["krait_sequences_waiting"] == 0
    assert leader['krait_slots{state="used"}'] == 0 and leader['krait_slots{state="free"}'] == 1
