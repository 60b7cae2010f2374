"""The demo model, as served, against what transformers computed on the same weights."""

import json
import lzma

import pytest

from launch import Up
from reference import DEMO_MODEL
from rest import complete, post

REFERENCE = json.loads((DEMO_MODEL / "reference.json").read_text(encoding="utf-8"))
# Log-likelihood sums of thousands of tokens: each may be off by 1e-4, and errors do not all point one way.
NLL_TOLERANCE_PER_TOKEN = 1e-4


@pytest.mark.parametrize("case", REFERENCE["greedy"], ids=lambda case: case["prompt"][:20])
def test_greedy_continuations_equal_the_reference(demo, case):
    fields = {"max_tokens": len(case["ids"]), "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    choice = complete(demo.url, prompt=case["prompt"], **fields)["choices"][0]
    assert choice["token_ids"] == case["ids"]
    assert choice["text"] == case["text"]
    assert complete(demo.url, prompt=case["prompt_ids"], **fields)["choices"][0]["token_ids"] == case["ids"]
    _, _, tokenized = post(demo.url, "/tokenize", {"prompt": case["prompt"]})
    assert tokenized["tokens"] == case["prompt_ids"]


def test_a_held_out_passage_has_the_reference_likelihood(demo):
    passages = lzma.decompress((DEMO_MODEL / "held_out.txt.xz").read_bytes()).decode().split("<|endoftext|>")
    assert len(passages) == len(REFERENCE["passages"])
    wanted = REFERENCE["passages"]
    index = min(range(len(wanted)), key=lambda i: wanted[i]["tokens"])
    _, _, tokenized = post(demo.url, "/tokenize", {"prompt": passages[index]})
    ids = [0, *tokenized["tokens"]]
    choice = complete(demo.url, prompt=ids, max_tokens=0, echo=True, logprobs=0)["choices"][0]
    logprobs = choice["logprobs"]["token_logprobs"]
    assert logprobs[0] is None and len(logprobs) == len(ids) == wanted[index]["tokens"] + 1
    difference = abs(sum(logprobs[1:]) + wanted[index]["nll_sum"])
    print(f"used {difference / (NLL_TOLERANCE_PER_TOKEN * len(ids)):.3f} of the tolerance")
    assert difference < NLL_TOLERANCE_PER_TOKEN * len(ids)


def test_the_sample_is_streamed_to_the_terminal():
    with Up("--ranks", 1, sample=True) as up:
        up.wait_ready()
        up.wait_said("Ctrl-C")
        case = REFERENCE["greedy"][0]
        beginning = case["text"].split("\n")[0]
        assert case["prompt"] + beginning in up.said
        assert up.stop() == 0
