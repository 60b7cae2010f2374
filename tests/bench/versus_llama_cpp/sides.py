"""Both sides, each holding one model and idle until it is asked."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

from environment import LIBRARIES, SERVER, peer_environment
from launch import Up, wait_for
from rest import Stream, post

HERE = os.path.dirname(os.path.abspath(__file__))


class Llama:
    """llama.cpp's library in a process of its own."""

    def __init__(self, path, threads, sequences=32):
        command = [sys.executable, os.path.join(HERE, "llama_worker.py"), path, threads, sequences]
        self._process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=peer_environment()
        )
        assert json.loads(self._process.stdout.readline()) == "ready"

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._process.stdin.close()
        self._process.wait()

    def ask(self, name, *arguments):
        self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "llama.cpp has ended"
        return json.loads(line)

    def prefill_s(self, tokens):
        return self.ask("prefill_s", tokens)

    def step_s(self, sequences, prompt, steps):
        return self.ask("step_s", sequences, prompt, steps)

    def greedy(self, prompt, count):
        return self.ask("greedy", prompt, count)


class Krait:
    """A coordinator and one shard server, over REST: what a client sees, its own time included."""

    def __init__(self, path, threads, dtype):
        self._up = Up("--model", path, "--ranks", 1, "--threads", threads, "--dtype", dtype)

    def __enter__(self):
        self._up.wait_ready()
        self.url = self._up.url
        return self

    def __exit__(self, *unused):
        self._up.__exit__()

    def coordinator_cpu_s(self):
        """Processor time of everything between a client and the shard server: HTTP, JSON, tokenizer, streams."""
        stat = pathlib.Path(f"/proc/{self._up.process_of('coordinator')['pid']}/stat").read_text(encoding="utf-8")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def prefill_s(self, tokens):
        began = time.perf_counter()
        self.complete(tokens, max_tokens=1)
        return time.perf_counter() - began

    def step_s(self, sequences, prompt, steps):
        """Seconds of a step, from when all sequences generate to the end."""
        stream = Stream(
            self.url, prompt=[prompt] * sequences, max_tokens=steps + 1, temperature=0, ignore_eos=True, return_token_ids=True
        )
        counts, began, late = [0] * sequences, None, 0
        for event in iter(stream.read_event, "[DONE]"):
            for choice in event["choices"]:
                tokens = len(choice.get("token_ids") or [])
                counts[choice["index"]] += tokens
                late += tokens if began is not None else 0
            if began is None and all(counts):
                began = time.perf_counter()
        took = time.perf_counter() - began
        stream.drop()
        assert counts == [steps + 1] * sequences, counts
        return took / late * sequences

    def complete(self, prompt, **fields):
        body = {"prompt": prompt, "temperature": 0, "ignore_eos": True, "return_token_ids": True, **fields}
        status, _, document = post(self.url, "/v1/completions", body)
        assert status == 200, document
        return document["choices"][0]

    def greedy(self, prompt, count):
        return self.complete(prompt, max_tokens=count)["token_ids"][-count:]


@contextlib.contextmanager
def llama_server(path, threads, parallel, port=18_080):
    """llama.cpp's own server with that many slots; gives its URL."""
    command = [
        SERVER, "-m", path, "-t", threads, "-tb", threads, "-np", parallel, "-c", parallel * 512, "--port", port,
        "--load-mode", "none", "--cache-ram", 0, "--no-warmup", "--no-ui", "--log-disable",
    ]  # fmt: skip
    environment = dict(peer_environment(), LD_LIBRARY_PATH=str(LIBRARIES))
    with subprocess.Popen(
        [str(word) for word in command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(lambda: _healthy(url, process), "llama-server to be ready", 300)
            yield url
        finally:
            process.terminate()


def _healthy(url, process):
    assert process.poll() is None, f"llama-server ended with {process.returncode}"
    with contextlib.suppress(OSError, ValueError):
        return post(url, "/tokenize", {"content": "a"}, timeout=5)[0] == 200
    return False
