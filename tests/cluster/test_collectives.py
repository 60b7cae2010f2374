"""How ranks add, as an operator chooses it: over TCP, and with parts of hidden sums in fewer bits."""

import json

import pytest

from reference import DEMO_MODEL
from rest import complete

REFERENCE = json.loads((DEMO_MODEL / "reference.json").read_text(encoding="utf-8"))
# Rank 0 listens at a port of the system's choice; the other ranks do not look at the option.
TCP = ("--shard-arg=--collectives-address", "--shard-arg=127.0.0.1:0")


def fingerprint_and_ids(cluster):
    case = REFERENCE["greedy"][0]
    fields = {"max_tokens": len(case["ids"]), "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    answer = complete(cluster.url, prompt=case["prompt"], **fields)
    return answer["system_fingerprint"], answer["choices"][0]["token_ids"]


def test_sums_over_tcp_give_the_bits_of_shared_memory(clusters, demo):
    assert fingerprint_and_ids(clusters("demo", 3, *TCP))[1] == REFERENCE["greedy"][0]["ids"]
    assert fingerprint_and_ids(clusters("demo", 2, *TCP)) == fingerprint_and_ids(demo)


@pytest.mark.parametrize("transport", [(), TCP], ids=["shared_memory", "tcp"])
def test_a_codec_is_part_of_how_a_group_computes(clusters, demo, transport):
    fingerprint, ids = fingerprint_and_ids(clusters("demo", 2, "--collectives", "int8", *transport))
    assert "-int8x2-" in fingerprint
    assert fingerprint.replace("-int8x2", "") == fingerprint_and_ids(demo)[0]
    assert len(ids) == len(REFERENCE["greedy"][0]["ids"])
