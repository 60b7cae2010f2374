"""How ranks add, as an operator chooses it: over TCP, and with parts of hidden sums in fewer bits."""

import json
import lzma
import os
import pathlib
import re
import subprocess

import pytest

from launch import wait_for
from reference import DEMO_MODEL
from rest import complete, metrics

BIN = pathlib.Path(os.environ["KRAIT_TEST_BUILD_DIR"]) / "bin"

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


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """What krait-tune writes for the demo model on two ranks."""
    folder = tmp_path_factory.mktemp("tune")
    text = folder / "text.txt"
    text.write_bytes(lzma.decompress((DEMO_MODEL / "held_out.txt.xz").read_bytes())[:5000])
    words = [BIN / "krait-tune", "--model", DEMO_MODEL, "--ranks", "2", "--quality", text, "--out", folder / "plan.json"]
    subprocess.run(list(map(str, words)), check=True, capture_output=True, timeout=300)
    return folder / "plan.json"


def sums_by_codec(cluster, rank):
    url = cluster.process_of("shard", rank)["metrics_url"]
    counts = {}
    for name, value in metrics(url).items():
        found = re.fullmatch(r'krait_collectives_total\{(?=.*op="all_reduce").*codec="([^"]*)".*\}', name)
        if found and value > 0:
            counts[found[1]] = value
    return counts


@pytest.mark.parametrize("transport", [(), TCP], ids=["shared_memory", "tcp"])
def test_auto_gives_every_sum_the_codec_that_krait_tune_chose(clusters, demo, plan, transport):
    cluster = clusters("demo", 2, "--collectives", "auto", "--collectives-plan", plan, *transport)
    fingerprint, ids = fingerprint_and_ids(cluster)
    assert len(ids) == len(REFERENCE["greedy"][0]["ids"])
    chosen = [entry["codec"] for entry in json.loads(plan.read_text(encoding="utf-8"))["sums"]]
    assert set(chosen) != {"exact"}
    name = re.search(r"-aligned-(.+)x2-", fingerprint)[1]
    assert name.startswith("plan-") == (len(set(chosen)) > 1)
    assert fingerprint.replace(f"-{name}x2", "") == fingerprint_and_ids(demo)[0]
    # x_proj's sums are exact, one a layer, as many as hidden ones.
    shares = {codec: chosen.count(codec) + (len(chosen) if codec == "exact" else 0) for codec in {"exact", *chosen}}
    for rank in (0, 1):
        url = cluster.process_of("shard", rank)["metrics_url"]
        wait_for(lambda url=url: metrics(url).get(f'krait_collective_plan_info{{plan="{name}"}}') == 1, name, 10)

        def is_counted(rank=rank):
            counts = sums_by_codec(cluster, rank)
            steps = {counts[codec] / shares[codec] for codec in counts if codec in shares}
            return set(counts) == set(shares) and len(steps) == 1

        wait_for(is_counted, f"sums of rank {rank} in {shares}", 10)
    if transport:
        assert (fingerprint, ids) == fingerprint_and_ids(clusters("demo", 2, "--collectives", "auto", "--collectives-plan", plan))


def test_a_plan_of_another_group_is_refused(plan, tmp_path):
    words = [BIN / "krait-shard", "--run-dir", tmp_path, "--model", DEMO_MODEL, "--collectives", "auto"]

    def refusal(*more):
        done = subprocess.run(
            list(map(str, [*words, *more])), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False
        )
        assert done.returncode == 1, done.stderr
        return done.stderr.splitlines()[-1]

    said = refusal("--world", 4, "--collectives-plan", plan)
    assert f"{plan}: world: made for 2 ranks, this group has 4" in said
    assert "dtype: made for weights of f32" in refusal("--world", 2, "--dtype", "int8", "--collectives-plan", plan)
    assert f"{tmp_path}/none" in refusal("--world", 2, "--collectives-plan", f"{tmp_path}/none")
    assert "collectives-2.json" in refusal("--world", 2)


def test_fast_says_that_it_gives_the_contract_up(clusters):
    cluster = clusters("demo", 2, "--collectives", "fast")
    assert "-fastx2-" in fingerprint_and_ids(cluster)[0]
    log = pathlib.Path(cluster.process_of("shard", 0)["log"]).read_text(encoding="utf-8")
    assert "--collectives fast" in log


@pytest.mark.parametrize("family, ranks", [("mamba", 2), ("mamba", 3), ("mamba2", 3), ("zamba2", 2)])
def test_halves_of_a_prompt_that_take_turns_over_tcp_give_the_bits_of_shared_memory(clusters, family, ranks):
    prompt = [1 + (5 * i * i) % 101 for i in range(300)]
    fields = {"max_tokens": 8, "temperature": 0, "ignore_eos": True, "return_token_ids": True, "logprobs": 2}
    answers = [
        complete(clusters(family, ranks, *transport).url, prompt=prompt, **fields)["choices"][0] for transport in ((), TCP)
    ]
    assert answers[0]["token_ids"] == answers[1]["token_ids"]
    assert answers[0]["logprobs"] == answers[1]["logprobs"]
