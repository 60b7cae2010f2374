"""Ranks that hold the whole model each: sequences live at one of them, and a long prompt is read by all."""

import concurrent.futures
import os
import signal
import threading
import time

import pytest

from launch import Up, wait_for
from rest import Stream, complete, metrics, model_name, post

WHOLE = ("--weights", "whole")
# Over TCP every rank has a host's way of meeting the others; rank 0 listens where the system likes.
TCP = ("--shard-arg=--collectives-address", "--shard-arg=127.0.0.1:0")
LONG = [17 + (7 * i * i) % 400 for i in range(3000)]


def tokens_of(cluster, prompt, **fields):
    fields = {"max_tokens": 12, "temperature": 0, "ignore_eos": True, "return_token_ids": True, **fields}
    return complete(cluster.url, prompt=prompt, **fields)["choices"][0]["token_ids"]


def shared_tokens(cluster):
    return metrics(cluster.process_of("shard", 0)["metrics_url"])["krait_shared_prompt_tokens_total"]


@pytest.mark.parametrize("transport", [(), TCP], ids=["shared_memory", "tcp"])
def test_a_prompt_that_ranks_share_gives_the_tokens_of_one_rank(clusters, transport):
    whole = clusters("demo", 2, *WHOLE, *transport)
    before = shared_tokens(whole)
    expected = tokens_of(clusters("demo", 1), LONG)
    assert tokens_of(whole, LONG) == expected
    wait_for(lambda: shared_tokens(whole) - before == len(LONG), "the prompt's tokens in the metric")
    sampled = {"temperature": 1, "seed": 5, "n": 2, "repetition_penalty": 1.3}
    assert tokens_of(whole, LONG, **sampled) == tokens_of(clusters("demo", 1), LONG, **sampled)


def test_sequences_of_both_ranks_run_side_by_side(clusters):
    whole, one = clusters("demo", 2, *WHOLE), clusters("demo", 1)
    prompts = [LONG[i : i + 20 + i] for i in range(12)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        together = list(pool.map(lambda prompt: tokens_of(whole, prompt), prompts))
    assert together == [tokens_of(one, prompt) for prompt in prompts]


def test_nobody_shares_where_that_is_not_wanted(clusters):
    never = clusters("demo", 2, *WHOLE, "--prefill-split", "never")
    assert tokens_of(never, LONG) == tokens_of(clusters("demo", 1), LONG)
    assert shared_tokens(never) == 0


@pytest.mark.parametrize("family", ["zamba", "zamba2", "mamba2", "falcon_mamba"])
def test_every_family_runs_with_whole_weights(clusters, family):
    prompt = [1 + i % 97 for i in range(1500)]
    assert tokens_of(clusters(family, 2, *WHOLE), prompt) == tokens_of(clusters(family, 1), prompt)


def test_a_rank_that_dies_in_a_shared_prompt_ends_it_with_an_error():
    with Up("--ranks", 2, *WHOLE) as up:
        up.wait_ready()
        answers = []
        fields = {"model": model_name(up.url), "prompt": LONG * 100, "max_tokens": 4}
        asking = threading.Thread(target=lambda: answers.append(post(up.url, "/v1/completions", fields)))
        asking.start()
        wait_for(lambda: shared_tokens(up) > 0, "a shared step")
        os.kill(up.process_of("shard", 1)["pid"], signal.SIGKILL)
        asking.join(60)
        assert answers and answers[0][0] in (500, 503), answers


def test_who_leaves_in_a_shared_prompt_makes_room(clusters):
    whole = clusters("demo", 2, *WHOLE)
    expected = tokens_of(clusters("demo", 1), LONG)
    stream = Stream(whole.url, prompt=LONG * 60, max_tokens=4)
    time.sleep(0.3)
    stream.drop()
    assert tokens_of(whole, LONG) == expected
