"""Clients of two servers: llama.cpp's own, and Krait's coordinator with one shard server. Each client sends its requests one
after the other; every request has tokens of its own, so that no cache helps."""

import http.client
import json
import random
import statistics
import threading
import time

from models import KINDS, VOCAB, weights_file
from sides import Krait, llama_server

PROMPT_TOKENS, NEW_TOKENS = 128, 64


class LlamaRequests:
    path = "/completion"

    @staticmethod
    def body(prompt):
        fields = {"n_predict": NEW_TOKENS, "ignore_eos": True, "temperature": 0, "stream": True, "cache_prompt": False}
        return {"prompt": prompt, "return_tokens": True, **fields}

    @staticmethod
    def read(event):
        """(tokens that came with it, how many there were in all or None). A token that ends inside a character comes with
        none: the next event stands for both."""
        return (0, event["tokens_predicted"]) if event.get("stop") else (1, None)


class KraitRequests:
    path = "/v1/completions"

    @staticmethod
    def body(prompt):
        fields = {"max_tokens": NEW_TOKENS, "ignore_eos": True, "temperature": 0, "stream": True}
        return {"prompt": prompt, "return_token_ids": True, "stream_options": {"include_usage": True}, **fields}

    @staticmethod
    def read(event):
        if "usage" in event and event["usage"]:
            return 0, event["usage"]["completion_tokens"]
        return sum(len(choice.get("token_ids") or []) for choice in event["choices"]), None


def _request(url, kind, prompt):
    """Times at which tokens came, and when it was sent."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=600)
    sent, times, total = time.perf_counter(), [], None
    connection.request("POST", kind.path, json.dumps(kind.body(prompt)), {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    for line in response:
        if line.startswith(b"data: ") and b"[DONE]" not in line:
            came, said = kind.read(json.loads(line[6:]))
            times += [time.perf_counter()] * came
            total = said if said is not None else total
    connection.close()
    assert total == NEW_TOKENS and times, total
    return sent, times


def _round(url, kind, clients, requests, seed):
    """(tokens/s, first token p50 in s, between tokens p99 in s)"""
    done, draw = [], random.Random(seed)
    prompts = [[[draw.randrange(1, VOCAB - 10) for _ in range(PROMPT_TOKENS)] for _ in range(requests)] for _ in range(clients)]

    def client(mine):
        for prompt in mine:
            done.append(_request(url, kind, prompt))

    threads = [threading.Thread(target=client, args=(mine,)) for mine in prompts]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    assert len(done) == clients * requests, "a request failed"
    first = statistics.median(times[0] - sent for sent, times in done)
    gaps = sorted(b - a for _, times in done for a, b in zip(times, times[1:], strict=False))
    return clients * requests * NEW_TOKENS / took, first, gaps[int(len(gaps) * 0.99)]


def compare(shape, kind, threads, turns, counts):
    """Prints one line for each side at each count of clients: medians of the turns, which alternate."""
    path = weights_file(shape, kind)
    with llama_server(path, threads, max(counts)) as peer, Krait(path, threads, KINDS[kind]) as own:
        for clients in counts:
            requests = 2 if clients > 1 else 4
            sides = ((peer, LlamaRequests), (own.url, KraitRequests))
            rounds = {name: [] for name in ("llama.cpp", "Krait")}
            shares = []  # of a processor, what the coordinator took
            for turn in range(turns + 1):
                for name, (url, requests_of) in zip(rounds, sides, strict=True):
                    cpu_s, began = own.coordinator_cpu_s(), time.perf_counter()
                    figures = _round(url, requests_of, clients, requests, turn)
                    if turn > 0:  # the first warms up
                        rounds[name].append(figures)
                    if turn > 0 and name == "Krait":
                        shares.append((own.coordinator_cpu_s() - cpu_s) / (time.perf_counter() - began))
            for name, found in rounds.items():
                speed, first, gap = (statistics.median(column) for column in zip(*found, strict=True))
                print(
                    f"{shape:5} {kind:5}/{KINDS[kind]:5} {clients:2} clients  {name:9} {speed:7.1f} tokens/s  first token "
                    f"p50 {first * 1e3:7.0f} ms  between tokens p99 {gap * 1e3:6.0f} ms",
                    flush=True,
                )
            print(f"{'':24} the coordinator took {statistics.median(shares):.1%} of a processor", flush=True)
