#!/usr/bin/env python3
"""Writes the seeds of corpus/ again: small sound inputs of every harness whose input is a format, and some that are nearly
sound. Needs nothing but the tree. Inputs that fuzzers found lie beside them and are left alone."""

import json
import lzma
import pathlib
import struct

FOLDER = pathlib.Path(__file__).resolve().parent
GOLDEN = FOLDER.parent / "golden"


def write(harness, name, content):
    path = FOLDER / "corpus" / harness / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def safetensors():
    def file(header, data):
        text = json.dumps(header, separators=(",", ":")).encode()
        return struct.pack("<Q", len(text)) + text + data

    two = {
        "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
        "__metadata__": {"format": "pt"},
    }
    write("safetensors", "two", file(two, bytes(range(32))))
    write("safetensors", "empty", file({"e": {"dtype": "I8", "shape": [0], "data_offsets": [0, 0]}}, b""))
    write("safetensors", "scalar", file({"s": {"dtype": "F16", "shape": [], "data_offsets": [0, 2]}}, b"ab"))
    # A long name in a short file: a change hits the name more often than what is around it.
    write("safetensors", "name", file({"a" * 12: {"dtype": "I8", "shape": [0], "data_offsets": [0, 0]}}, b""))
    huge = {"h": {"dtype": "U8", "shape": [1 << 20, 1 << 20], "data_offsets": [0, 1 << 40]}}
    write("safetensors", "huge_header", b"H" + struct.pack("<Q", 1 << 42) + json.dumps(huge).encode())


def gguf():
    u8, i32, u32, f32, flag, text, array = 0, 5, 4, 6, 7, 8, 9

    def words(value):
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def entry(key, kind, value):
        return words(key) + struct.pack("<I", kind) + value

    def many(kind, values):
        return struct.pack("<IQ", kind, len(values)) + b"".join(values)

    def number(value):
        return struct.pack("<I", value)

    def file(keys, tensors=()):
        """Tensors are (name, type, axes from the innermost, bytes)."""
        head, data = b"".join(keys), b""
        for name, kind, axes, content in tensors:
            data += bytes(-len(data) % 32)
            head += words(name) + struct.pack(f"<I{len(axes)}QIQ", len(axes), *axes, kind, len(data))
            data += content
        head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + head
        return head + (bytes(-len(head) % 32) + data if tensors else b"")

    write("gguf", "empty", file([]))
    # A long name in a short file: a change hits the name more often than what is around it.
    write("gguf", "name", file([], [("a" * 12, 0, [0], b"")]))
    nested = many(array, [many(u8, [b"x", b"y"]), many(text, [words("z")])])
    flags = [entry("general.alignment", u32, number(32)), entry("nested", array, nested), entry("f", flag, b"\1")]
    write("gguf", "tensors", file(flags, [("a", 0, [3, 2], bytes(24)), ("b", 8, [32], bytes(34)), ("c", 14, [256, 1], bytes(210))]))
    sizes = {"embedding_length": 4, "block_count": 1, "ssm.conv_kernel": 4, "ssm.inner_size": 8, "ssm.state_size": 2}
    sizes.update({"ssm.time_step_rank": 2, "ssm.group_count": 1})
    model = [entry("general.architecture", text, words("mamba2"))]
    model += [entry(f"mamba2.{key}", u32, number(value)) for key, value in sizes.items()]
    model += [entry("mamba2.attention.layer_norm_rms_epsilon", f32, struct.pack("<f", 1e-5))]
    write("gguf", "config", file(model, [("token_embd.weight", 1, [4, 3], bytes(24))]))
    for kind, tokens, more in (
        ("gpt2", ["a", "b", "ab", "\u0120", "<s>", "[PAD5]"], [entry("tokenizer.ggml.pre", text, words("mpt")), entry("tokenizer.ggml.merges", array, many(text, [words("a b")]))]),
        ("llama", ["<unk>", "a", "b", "ab", "<s>", "\u2581"], [entry("tokenizer.ggml.scores", array, many(f32, [struct.pack("<f", -n) for n in range(6)]))]),
    ):  # fmt: skip
        types = [2 if token == "<unk>" else 3 if token == "<s>" else 5 if "PAD" in token else 1 for token in tokens]
        keys = [
            entry("tokenizer.ggml.model", text, words(kind)),
            entry("tokenizer.ggml.tokens", array, many(text, [words(token) for token in tokens])),
            entry("tokenizer.ggml.token_type", array, many(i32, [struct.pack("<i", number) for number in types])),
            entry("tokenizer.ggml.bos_token_id", u32, number(4)),
            entry("tokenizer.ggml.add_bos_token", flag, b"\1"),
        ]
        write("gguf", kind, file(keys + more))


def shard_index():
    shards = {"a.weight": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    write("shard_index", "two", json.dumps({"metadata": {"total_size": 8}, "weight_map": shards}))
    write("shard_index", "name", json.dumps({"weight_map": {"a" * 12: "a.safetensors"}}, separators=(",", ":")))
    write("shard_index", "outside", json.dumps({"weight_map": {"a": "../model.safetensors"}}))


def config():
    for folder in sorted((GOLDEN / "models").iterdir()):
        if (folder / "config.json").exists():
            text = json.dumps(json.loads((folder / "config.json").read_text()))
            generation = folder / "generation_config.json"
            write("config", folder.name, text + ("\0" + generation.read_text() if generation.exists() else ""))
    model = json.loads((GOLDEN / "models" / "mamba" / "config.json").read_text())
    write("config", "infinity", json.dumps(dict(model, time_step_limit=[0.0, float("inf")], time_step_rank="auto")))
    write("config", "large", json.dumps(dict(model, hidden_size=1 << 17, intermediate_size=1 << 17, vocab_size=1 << 22)))


def small(pipeline):
    """The pipeline with a vocabulary of a few dozen tokens: a mutation then meets the pipeline more often than the list."""
    model = pipeline["model"]
    special = {token["content"] for token in pipeline["added_tokens"]}
    letters = set("abehlot .,1") | {"\u0120", "\u2581", "\u00c3", "\u00a9", "<0x0A>", "<0xC3>", "<0xA9>", "<0xE2>"}
    kept = [token for token in model["vocab"] if token in special or token in letters]
    merges = []
    for merge in model["merges"]:
        left, right = merge if isinstance(merge, list) else merge.split(" ", 1)
        if left in kept and right in kept and left + right in model["vocab"] and len(merges) < 12:
            merges.append(merge)
            kept += [left + right] if left + right not in kept else []
    ids = {token: number for number, token in enumerate(kept)}
    for token in pipeline["added_tokens"]:
        ids.setdefault(token["content"], len(ids))
        token["id"] = ids[token["content"]]
    model.update(vocab={token: ids[token] for token in kept}, merges=merges)
    _renumber(pipeline.get("post_processor"), ids)
    return json.dumps(pipeline, separators=(",", ":"), ensure_ascii=False)


def _renumber(part, ids):
    if isinstance(part, list):
        for item in part:
            _renumber(item, ids)
    elif isinstance(part, dict):
        for token, entry in (part.get("special_tokens") or {}).items():
            entry["ids"] = [ids.get(token, 0)]
        for value in part.values():
            _renumber(value, ids)


def tokenizer():
    lines = lzma.decompress((GOLDEN / "tokenizers" / "pipelines.jsonl.xz").read_bytes()).decode().splitlines()
    text = "hello, the \u00e9l\u00e9 <s>all</s> at 11.\n\u4e16"
    for line in lines:
        case = json.loads(line)
        name = "".join(c if c.isalnum() else "_" for c in case["name"])
        write("tokenizer", name, small(case["tokenizer"]) + "\0" + text)


def template():
    for name in ("chatml", "llama3", "vicuna", "generation_tags", "call_blocks", "gemma"):
        write("template", name, (GOLDEN / "templates" / "styles" / f"{name}.jinja").read_bytes())
    words = {"s": "Aa <|x|> \u00e9\n", "n": [1, -2.5, None, True], "d": {"b": 1, "a": "z"}, "big": 9007199254740993}
    parts = {
        "filters": "{{ s | upper | trim | replace('A', 'b') }}{{ n | join(',') }}{{ d | dictsort }}{{ d | tojson(indent=2) }}",
        "format": "{{ '%5.2f|%-4s|%x' % (n[1], s[:2], big) }}{{ '{:>8}'.format(s[1]) }}{{ strftime_now('%Y') }}",
        "loops": "{%- for k, v in d.items() if v -%}{{ loop.index0 }}{{ k ~ v }}{% else %}-{% endfor -%}",
        "macros": "{% macro m(a, b=2) %}{{ a * b }}{% endmacro %}{% set ns = namespace(x=1) %}{% set ns.x = m(3) %}{{ ns.x }}",
        "cyclers": "{% set c = cycler('a', s) %}{% set j = joiner('|') %}{{ c.next() }}{{ j() }}{{ j() }}{{ c.current }}{{ s | e }}"
        "{{ d | urlencode }} {{ d | attr('items') is callable }} and more",
        "frames": "{% for i in n %}{% set q %}{{ s }}{% if i %}{% continue %}{% endif %}{% endset %}{{ q ~ s | e }}{% endfor %}"
        "{% set s = 1 %}{% print s %}",
        "slices": "{{ s[::-1] }}{{ n[1:3] }}{{ s.split()[0].title() }}{{ d.a is string and 1 in n }}{{ -big // 7 ** 2 }}",
    }
    for name, source in parts.items():
        write("template", name, source + "\0" + json.dumps(words))


def wire():
    # An odd first byte: kind, seed, list length, and changes as (place, value).
    for kind in range(18):
        write("wire", f"kind_{kind:02}", struct.pack("<BBHB", 1, kind, 7 * kind + 1, 5))
    write("wire", "changed", struct.pack("<BBHB", 1, 2, 3, 4) + struct.pack("<HBB", 40, 1, 255))
    write("wire", "cut", struct.pack("<BBHB", 1, 6, 3, 4) + struct.pack("<HB", 64, 0))


def http():
    limits = bytes([200, 15, 60])
    post = b"POST /v1/completions?a=%20b HTTP/1.1\r\nHost: krait\r\nContent-Length: 11\r\n\r\nhello world"
    chunks = (
        b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
        b"5\r\nhello\r\n1;name=value\r\n \r\n0\r\nx-trailer: t\r\n\r\n"
    )
    get = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\r\n\r\nGET /2 HTTP/1.0\r\n\r\nGET http://h/3?q HTTP/1.1\r\nHost: h\r\n\r\n"
    for name, content in {"post": post, "chunks": chunks, "pipelined": get}.items():
        write("http", name, limits + bytes([0]) + content)
        write("http", f"{name}_in_pieces", limits + bytes([3, 0, 6, 30]) + content)
    write("http", "tls", limits + bytes([0]) + b"\x16\x03\x01\x02\x00\x01\x00")
    write("http", "small_limits", bytes([0, 0, 0, 0]) + post)


def completion():
    every = {
        "model": "m", "prompt": "he", "max_tokens": 4, "min_tokens": 1, "temperature": 0.5, "top_p": 0.9, "top_k": 5,
        "min_p": 0.1, "seed": -7, "n": 2, "best_of": 2, "stop": ["h", "e"], "stop_token_ids": [3], "ignore_eos": True,
        "include_stop_str_in_output": True, "skip_special_tokens": False, "add_special_tokens": False, "echo": True,
        "logprobs": 1, "presence_penalty": 1, "frequency_penalty": -1, "repetition_penalty": 1.1,
        "logit_bias": {"7": -100}, "stream": True, "stream_options": {"include_usage": True}, "return_token_ids": True,
        "user": "u", "suffix": "", "mine": 1,
    }  # fmt: skip
    write("completion", "every_field", b"1" + json.dumps(every).encode())
    bodies = {
        "text": {"prompt": "h\u00e9 \ud83d\ude00!"},
        "texts": {"prompt": ["a", "b"], "stop": "x"},
        "ids": {"prompt": [1, 2, 3]},
        "letters": {"prompt": "a" * 12},
        "lists_of_ids": {"prompt": [[1], [2, 3]], "seed": 18446744073709551615},
        "wrong": {"prompt": "a", "temperature": "hot"},
    }
    for name, body in bodies.items():
        write("completion", name, (b"0" if "ids" in name else b"1") + json.dumps(body).encode())


def scheduler():
    # Operations as the harness reads them: slots, queue, step ms, rows; then submits, plans and results.
    submit = bytes([0, 0, 0, 20]) + bytes(range(20)) + bytes([0, 8, 0, 0, 2, 5, 9, 0, 0])
    late = bytes([0, 1, 0, 30]) + bytes(range(30)) + bytes([0, 11, 0, 3, 0, 3, 20, 1])
    run = bytes([7, 0, 7, 0, 10, 100])
    write("scheduler", "one", bytes([3, 4, 20, 40]) + submit + run * 12)
    write("scheduler", "several", bytes([1, 4, 2, 10]) + submit + late + submit + run * 4 + submit + run * 30)
    write("scheduler", "cancels", bytes([3, 4, 2, 10]) + submit + late + run * 3 + bytes([4, 0]) + run * 9)
    write("scheduler", "deadline", bytes([2, 4, 2, 10]) + late + late + run + bytes([6, 30]) + run)
    write("scheduler", "drain", bytes([2, 4, 2, 10]) + submit + late + run + bytes([15, 1]) + submit + run * 9)
    write("scheduler", "lost", bytes([2, 4, 2, 10]) + submit + late + run + bytes([13, 0, 14, 0, 15, 240]))


if __name__ == "__main__":
    for make in (safetensors, gguf, shard_index, config, tokenizer, template, wire, http, completion, scheduler):
        make()
