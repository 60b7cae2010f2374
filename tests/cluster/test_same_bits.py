"""The exactness contract over REST: log-probabilities compared as JSON text, so every bit of the double counts."""

import concurrent.futures
import random

import pytest

from launch import Up, wait_for
from reference import GREEDY_TOKENS, golden_model, golden_prompts
from rest import complete, load, metrics, model_name

OTHERS = 31
# Of a log-probability: a log-softmax adds the errors of logits, which are within 3e-5 (Zamba 3e-4, Zamba2 1e-4).
TOLERANCES = {"mamba": 1e-4, "falcon_mamba": 1e-4, "mamba2": 1e-4, "zamba": 1e-3, "zamba2": 3e-4}
OTHER_FAMILIES = [family for family in TOLERANCES if family != "mamba"]


@pytest.fixture(scope="module")
def prompts():
    return golden_prompts("mamba")


def ask(url, prompt):
    choice = complete(
        url,
        prompt=prompt.ids,
        max_tokens=GREEDY_TOKENS,
        temperature=0,
        logprobs=5,
        echo=True,
        ignore_eos=True,
        return_token_ids=True,
    )["choices"][0]
    return (
        choice["token_ids"][-GREEDY_TOKENS:],
        choice["logprobs"]["token_logprobs"],
        choice["logprobs"]["top_logprobs"],
    )


def check_against_the_reference(url, family):
    worst = 0.0
    for prompt in golden_prompts(family):
        tokens, logprobs, _ = ask(url, prompt)
        assert tokens == prompt.greedy
        assert len(logprobs) == len(prompt.logprobs) and logprobs[0] is None
        worst = max([worst, *(abs(got - want) for got, want in zip(logprobs[1:], prompt.logprobs[1:]))])
    print(f"used {worst / TOLERANCES[family]:.3f} of the tolerance")
    assert worst < TOLERANCES[family]


def check_among_others(up, prompts):
    alone = [ask(up.url, prompt) for prompt in prompts]
    with concurrent.futures.ThreadPoolExecutor(OTHERS + len(prompts)) as pool:
        noise = [pool.submit(_noise, up.url, prompts[0].vocab, seed) for seed in range(OTHERS)]
        crowded = [pool.submit(ask, up.url, prompt) for prompt in prompts * 2]
        noise += [pool.submit(_noise, up.url, prompts[0].vocab, OTHERS + seed) for seed in range(OTHERS)]
        for index, future in enumerate(crowded):
            assert future.result() == alone[index % len(prompts)]
        for future in noise:
            future.result()
    wait_for(lambda: load(up) == (0, 0), "the cluster to be idle")


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_the_golden_model_as_served(clusters, ranks):
    check_against_the_reference(clusters("mamba", ranks).url, "mamba")


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("family", OTHER_FAMILIES)
def test_every_family_as_served_alone_and_among_others(family, ranks):
    with Up("--model", golden_model(family), "--ranks", ranks) as up:
        up.wait_ready()
        check_against_the_reference(up.url, family)
        check_among_others(up, golden_prompts(family))


@pytest.mark.parametrize("family", ["mamba", "zamba2"])
def test_ranks_of_unequal_speed_hold_unequal_parts(family):
    with Up("--model", golden_model(family), "--ranks", 3, "--shares", "3,1,2") as up:
        up.wait_ready()
        check_against_the_reference(up.url, family)
        held = []

        def known():
            held[:] = [metrics(up.process_of("shard", rank)["metrics_url"])["krait_weight_bytes"] for rank in range(3)]
            return all(held)

        wait_for(known, "every rank to tell what it holds")
        assert held[0] > held[2] > held[1]


@pytest.mark.parametrize("family", ["mamba", "zamba2"])
def test_choices_that_read_their_prompt_once_have_the_bits_of_those_that_read_it_alone(family):
    prompt = max(golden_prompts(family), key=lambda prompt: len(prompt.ids)).ids
    fields = {"prompt": prompt, "n": 3, "max_tokens": 20, "temperature": 1, "seed": 5, "logprobs": 3, "ignore_eos": True}

    def answer_of(up, asked):
        """The choices, and how many rows of prompts all of those asked for have taken so far."""
        choices = complete(up.url, **fields)["choices"]
        shard = up.process_of("shard", 0)["metrics_url"]
        generated = {'krait_tokens_total{kind="generated"}': 60 * asked}
        wait_for(lambda: generated.items() <= metrics(shard).items(), "all tokens to be counted")
        return choices, metrics(shard)['krait_tokens_total{kind="prompt"}']

    model = ("--model", golden_model(family), "--ranks", 2)
    with Up(*model, "--slots", 1) as up:
        up.wait_ready()
        alone, rows = answer_of(up, 1)
        assert rows == 3 * len(prompt), "one after the other"
    # In small steps the first has not read everything before the others are there, or not often.
    with Up(*model, "--slots", 8, "--max-step-ms", "0.1") as up:
        up.wait_ready()
        for asked in range(1, 20):
            choices, rows = answer_of(up, asked)
            assert choices == alone
            if rows < asked * 3 * len(prompt):
                return
        pytest.fail("no choice went on from another's state")


def test_a_model_of_the_download_cache_is_served_by_its_name(tmp_path, monkeypatch):
    kept = tmp_path / "models--org--small"
    (kept / "refs").mkdir(parents=True)
    (kept / "snapshots").mkdir()
    (kept / "refs" / "main").write_text("abc")
    (kept / "snapshots" / "abc").symlink_to(golden_model("mamba"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with Up("--model", "org/small", "--ranks", 1) as up:
        up.wait_ready()
        assert model_name(up.url) == "org/small"


def _noise(url, vocab, seed):
    """A request of random length that comes and goes beside the one that is watched."""
    rng = random.Random(seed)
    complete(
        url,
        prompt=[rng.randrange(3, vocab) for _ in range(rng.randint(1, 200))],
        max_tokens=rng.randint(1, 60),
        temperature=1,
        seed=seed,
    )


@pytest.mark.parametrize("ranks, threads", [(1, 1), (2, 1), (2, 2), (4, 1)])
def test_alone_and_among_others(clusters, prompts, ranks, threads):
    up = clusters("mamba", ranks, threads=threads)
    check_among_others(up, prompts)


@pytest.mark.parametrize("ranks, threads", [(2, 1), (2, 2), (4, 1)])
def test_the_same_bits_at_every_number_of_ranks(clusters, prompts, ranks, threads):
    one, several = clusters("mamba", 1).url, clusters("mamba", ranks, threads=threads).url
    for prompt in prompts:
        assert ask(one, prompt) == ask(several, prompt)


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_quantized_weights_have_the_same_bits_at_every_number_of_ranks(clusters, prompts, dtype):
    one, two = (clusters("mamba", ranks, "--dtype", dtype) for ranks in (1, 2))
    for prompt in prompts:
        assert ask(one.url, prompt) == ask(two.url, prompt)
    fingerprint = complete(one.url, prompt=prompts[0].ids, max_tokens=1)["system_fingerprint"]
    assert f"-{dtype}-" in fingerprint


def test_the_demo_model_samples_the_same_text_on_one_rank_and_two(clusters, demo):
    fields = {"prompt": "Mr. Darcy", "max_tokens": 60, "temperature": 1, "seed": 4, "logprobs": 2}
    one = complete(clusters("demo", 1).url, **fields)["choices"]
    two = complete(demo.url, **fields)["choices"]
    assert one == two


def test_short_steps_change_no_bit(clusters, prompts):
    """A step budget of a moment cuts every prefill into the smallest chunks."""
    whole, chunked = clusters("mamba", 2).url, clusters("mamba", 2, "--max-step-ms", "0.1").url
    for prompt in prompts:
        assert ask(whole, prompt) == ask(chunked, prompt)
