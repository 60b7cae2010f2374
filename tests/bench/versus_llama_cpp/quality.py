"""The same answers, on the bundled model: equal greedy tokens in float32, and in fewer bits how far each side's distribution
is from llama.cpp's own in float32, over text that is given."""

import pathlib
import tempfile

import numpy as np

from models import KINDS, held_out, weights_file
from rest import post
from sides import Krait, Llama

PROMPTS = ("It is a truth universally acknowledged, that", "Mr. Darcy", "Emma was", "The morning after the ball,")
GREEDY_TOKENS = 48
TEXT_TOKENS = 1024
TOP = 20  # alternatives that the API names


def check(threads):
    with Llama(weights_file("demo", "F32"), threads) as peer, Krait(weights_file("demo", "F32"), threads, "f32") as own:
        ids = [post(own.url, "/tokenize", {"prompt": prompt})[2]["tokens"] for prompt in PROMPTS]
        same = sum(peer.greedy(prompt, GREEDY_TOKENS) == own.greedy(prompt, GREEDY_TOKENS) for prompt in ids)
        print(f"greedy tokens in float32: {same} of {len(ids)} prompts equal, {GREEDY_TOKENS} tokens each", flush=True)
        tokens = post(own.url, "/tokenize", {"prompt": held_out()[: TEXT_TOKENS * 8]})[2]["tokens"][:TEXT_TOKENS]
        exact = _log_softmax(_logits(peer, tokens))
    with Krait(_by_ids("F32"), threads, "f32") as own:
        print(_line("F32/f32", exact, None, _named(own, tokens)), flush=True)
    for kind, dtype in KINDS.items():
        with Llama(weights_file("demo", kind), threads) as peer, Krait(_by_ids(kind), threads, dtype) as own:
            print(_line(f"{kind}/{dtype}", exact, _log_softmax(_logits(peer, tokens)), _named(own, tokens)), flush=True)


def _by_ids(kind):
    """Without a tokenizer the API names tokens by their ids, so that no two have one name."""
    return weights_file("demo", kind, with_tokenizer=False)


def _logits(peer, tokens):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "logits.npy"
        peer.ask("score", tokens, str(path))
        return np.load(path).astype(np.float64)


def _log_softmax(logits):
    logits = logits - logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def _named(own, tokens):
    """Of each position but the last: {token id: log-probability} of the most likely next tokens."""
    found = own.complete(tokens, echo=True, logprobs=TOP, max_tokens=1)["logprobs"]["top_logprobs"][1 : len(tokens)]
    return [{int(name.removeprefix("token_id:")): value for name, value in entry.items()} for entry in found]


def _line(name, exact, peer, own):
    """Agreement on the most likely token, and a lower bound of the Kullback-Leibler divergence from `exact`: over the tokens
    that Krait names, and one outcome for all others. The same outcomes for both sides."""
    figures = {"llama.cpp": [[], []], "Krait": [[], []]}
    for position, named in enumerate(own):
        ids = list(named)
        p = _outcomes(exact[position, ids])
        sides = {"Krait": np.array(list(named.values()))}
        if peer is not None:
            sides["llama.cpp"] = peer[position, ids]
        for side, logs in sides.items():
            best = ids[int(np.argmax(logs))] if side == "Krait" else int(peer[position].argmax())
            figures[side][0].append(best == exact[position].argmax())
            figures[side][1].append(float((p * np.log(p / _outcomes(logs))).sum()))
    parts = [
        f"{side}: top-1 agrees at {100 * np.mean(agree):6.2f} %, KL {np.mean(divergence):.2e}"
        for side, (agree, divergence) in figures.items()
        if agree
    ]
    return f"{name:10} over {len(own)} positions of text, against llama.cpp in float32:  " + ";  ".join(parts)


def _outcomes(logs):
    p = np.exp(logs)
    return np.append(p, max(1e-12, 1 - p.sum()))
