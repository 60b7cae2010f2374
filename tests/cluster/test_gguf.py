"""GGUF files, written by llama.cpp's own package, in place of folders: the same bits, the same texts, and errors that name
what is wrong."""

import json
import os
import pathlib
import subprocess

import gguf
import pytest

from gguf_files import add_tokenizer, read_folder, worth, write, write_folder, write_gguf
from launch import Up, run_up
from reference import DEMO_MODEL, golden_model, golden_prompts
from rest import complete, model_name, post

BIN = pathlib.Path(os.environ["KRAIT_TEST_BUILD_DIR"]) / "bin"
TOKENIZERS = pathlib.Path(os.environ["KRAIT_TEST_BUILD_DIR"]) / "golden" / "tokenizers"
PROMPT = "It is a truth universally acknowledged, that"
CHATML = "{% for m in messages %}{{ bos_token }}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


def folder_of(model):
    return DEMO_MODEL if model == "demo" else golden_model(model)


def demo_tokenizer():
    return json.loads((DEMO_MODEL / "tokenizer.json").read_text(encoding="utf-8"))


def answers(model, path, *options):
    """What a cluster says of a file or folder, as far as its logits can be seen: log-probabilities of every position."""
    prompts = [[5, 9, 300, 17, 2, 44, 1, 80], [7] * 3]
    if model != "demo":
        prompts += [prompt.ids for prompt in golden_prompts(model)[:2]]
    fields = {"temperature": 0, "max_tokens": 12, "logprobs": 20, "echo": True, "ignore_eos": True, "return_token_ids": True}
    with Up("--model", path, *options) as up:
        up.wait_ready()
        choices = complete(up.url, prompt=prompts, **fields)["choices"]
        assert up.stop() == 0
    return [(choice["token_ids"], choice["logprobs"]) for choice in choices]


@pytest.mark.parametrize(
    "model, kind, options",
    [
        ("mamba", "F32", ["--ranks", 2]),
        ("mamba", "Q8_0", ["--ranks", 4, "--threads", 1]),
        ("mamba", "Q4_0", ["--ranks", 1]),
        ("falcon_mamba", "F16", ["--ranks", 2]),
        ("falcon_mamba", "Q8_0", ["--ranks", 1, "--dtype", "int8"]),
        ("mamba2", "F32", ["--ranks", 2]),
        ("mamba2", "BF16", ["--ranks", 2, "--dtype", "bf16"]),
        ("mamba2", "Q4_0", ["--ranks", 2]),
        ("demo", "BF16", ["--ranks", 2]),
        ("demo", "Q6_K", ["--ranks", 2]),
        ("demo", "Q4_0", ["--ranks", 1, "--dtype", "int4"]),
    ],
)
def test_a_file_has_the_bits_of_the_floats_that_it_holds(tmp_path, model, kind, options):
    config, tensors = read_folder(folder_of(model))
    path = write_gguf(tmp_path / f"{model}.gguf", config, tensors, kind)
    folder = write_folder(tmp_path / "worth", config, worth(tensors, kind))
    got = answers(model, path, *options)
    assert got == answers(model, folder, *options)
    if model != "demo" and kind == "F32":
        for (ids, _), prompt in zip(got[2:], golden_prompts(model), strict=False):
            assert ids[-12:] == prompt.greedy[:12], "what transformers says"


@pytest.fixture(scope="module")
def demo_file(tmp_path_factory):
    """The demo model in llama.cpp's spelling, with its tokenizer and a template."""
    config, tensors = read_folder(DEMO_MODEL)
    path = tmp_path_factory.mktemp("demo") / "austen.gguf"
    return write_gguf(path, config, tensors, "BF16", demo_tokenizer(), chat_template=CHATML)


def test_texts_and_chat_come_from_the_same_file(demo, demo_file):
    fields = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0}
    with Up("--model", demo_file, "--ranks", 2) as up:
        up.wait_ready()
        assert model_name(up.url) == "austen"
        whole = complete(up.url, **fields)["choices"][0]
        assert whole["text"] == complete(demo.url, **fields)["choices"][0]["text"]
        messages = [{"role": "user", "content": "Mr. Darcy <|endoftext|> smiled"}]
        status, _, chat = post(up.url, "/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 16})
        assert status == 200, chat
        # The template's own token is one, that of the message is text.
        text = post(up.url, "/tokenize", {"prompt": "user: Mr. Darcy "})[2]["tokens"]
        assert chat["usage"]["prompt_tokens"] > len(text) + 5
        ids = [0, *post(up.url, "/tokenize", {"prompt": "user: hi\nassistant:"})[2]["tokens"]]
        hello = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0, "max_tokens": 8}
        said = post(up.url, "/v1/chat/completions", hello)[2]
        assert said["usage"]["prompt_tokens"] == len(ids)
        same = complete(up.url, prompt=ids, max_tokens=8, temperature=0)["choices"][0]["text"]
        assert said["choices"][0]["message"]["content"] == same
        assert up.stop() == 0


def test_deploy_up_shows_a_sample_of_it(demo_file):
    with Up("--model", demo_file, "--ranks", 1, sample=True) as up:
        up.wait_ready()
        up.wait_said("Ctrl-C stops it")
        assert "Once upon a time," in up.said
        assert up.stop() == 0


@pytest.mark.parametrize("name, pre", [("gpt-neox", "mpt"), ("falcon", "falcon"), ("mistral", "")])
def test_published_tokenizers_survive_the_format(tmp_path, name, pre):
    writer = gguf.GGUFWriter(tmp_path / "t.gguf", "mamba")
    document = json.loads((TOKENIZERS / f"{name}.json").read_text(encoding="utf-8"))
    add_tokenizer(writer, document, pre=pre, vocab_size=len(document["model"]["vocab"]) + 40, add_bos=False)
    path = write(writer, tmp_path / "t.gguf")
    lines = (TOKENIZERS / f"{name}.cases.jsonl").read_text(encoding="utf-8").splitlines()
    texts = "".join(json.dumps({"text": json.loads(line)["text"]}) + "\n" for line in lines)
    done = subprocess.run([BIN / "krait-tokenize", path], input=texts, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    got = done.stdout.splitlines()
    assert len(got) == len(lines)
    for line, said in zip(lines, got, strict=True):
        expected, found = json.loads(line), json.loads(said)
        assert {key: expected[key] for key in found} == found, expected["text"]


def test_a_token_before_every_text_is_added_where_the_file_says_so(tmp_path):
    document = json.loads((TOKENIZERS / "mistral.json").read_text(encoding="utf-8"))
    for add_bos, expected in ((None, [1, 22557]), (False, [22557])):
        writer = gguf.GGUFWriter(tmp_path / "t.gguf", "mamba2")
        add_tokenizer(writer, document, add_bos=add_bos)
        writer.add_bos_token_id(1)
        path = write(writer, tmp_path / "t.gguf")
        done = subprocess.run(
            [BIN / "krait-tokenize", path], input='{"text": "Hello"}\n', capture_output=True, text=True, check=True
        )
        assert json.loads(done.stdout)["special_ids"] == expected, "SentencePiece's files ask for it unless they say no"


def run_program(program, path, run_dir):
    options = {"krait-shard": ["--rank", "0", "--world", "1"], "krait-coordinator": ["--group", "g0", "--port", "0"]}
    words = [BIN / program, "--model", path, "--run-dir", run_dir, *options[program]]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "damage, words",
    [
        (lambda raw: raw[:20], "ends at byte 20"),
        (lambda raw: raw[:400], "ends at byte 400"),
        (lambda raw: raw[:-40], "of the data on, which are"),
        (lambda raw: raw + bytes(64), "bytes after the last tensor"),
        (lambda raw: raw.replace(b"blk.0.ssm_a", b"blk.0.ssm_b"), "tensor 'blk.0.ssm_a' is missing"),
        (lambda raw: raw.replace(b"mamba.ssm.inner_size", b"mamba.ssm.outer_size"), "mamba.ssm.inner_size is missing"),
        (lambda raw: raw.replace(b"GGUF\3", b"GGUF\1"), "GGUF's version 1"),
    ],
)
@pytest.mark.parametrize("program", ["krait-shard", "krait-coordinator"])
def test_a_damaged_file_is_refused(demo_file, tmp_path, program, damage, words):
    path = tmp_path / "bad.gguf"
    path.write_bytes(damage(demo_file.read_bytes()))
    assert path.read_bytes() != demo_file.read_bytes()
    done = run_program(program, path, tmp_path)
    assert done.returncode == 1 and done.stdout == "", done.stderr
    last = done.stderr.splitlines()[-1]
    assert "stopped: " in last and f"{path}: " in last and words in last, done.stderr


def test_a_tokenizer_that_is_not_known_is_refused_by_its_name_and_another_may_be_given(tmp_path):
    config, tensors = read_folder(DEMO_MODEL)
    path = write_gguf(tmp_path / "m.gguf", config, tensors, "BF16", demo_tokenizer(), pre="qwen2")
    done = run_program("krait-coordinator", path, tmp_path)
    assert done.returncode == 1
    assert "key 'tokenizer.ggml.pre' is 'qwen2'; of gpt2's these are served: mpt" in done.stderr.splitlines()[-1]
    with Up("--model", path, "--ranks", 1, "--tokenizer", DEMO_MODEL / "tokenizer.json") as up:
        up.wait_ready()
        assert complete(up.url, prompt=PROMPT, max_tokens=4)["choices"][0]["text"]
        assert up.stop() == 0


def test_a_file_without_a_tokenizer_serves_token_ids(tmp_path):
    config, tensors = read_folder(golden_model("mamba"))
    path = write_gguf(tmp_path / "m.gguf", config, tensors)
    with Up("--model", path, "--ranks", 1, sample=True) as up:
        up.wait_ready()
        up.wait_said("has no tokenizer: only prompts of token ids are served")
        assert post(up.url, "/v1/completions", {"prompt": "text"})[0] == 400
        assert len(complete(up.url, prompt=[1, 2, 3], max_tokens=4, return_token_ids=True)["choices"]) == 1
        assert up.stop() == 0


def tool_json(program, model, *options):
    words = [BIN / program, "--model", model, "--json", *options]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_tools_take_such_files(demo_file, tmp_path):
    text = tmp_path / "text"
    text.write_text("Mr. Darcy was not sorry to have seen her at Rosings.<|endoftext|>Emma smiled.\n", encoding="utf-8")
    # The demo model's folder holds bfloat16, so file and folder are one model.
    for dtype in ("f32", "int8"):
        options = ("--text", text, "--dtype", dtype)
        file, folder = (tool_json("krait-perplexity", model, *options) for model in (demo_file, DEMO_MODEL))
        assert file["sequences"] == 2 and file["tokens"] > 15
        assert {**file, "seconds": 0, "tokens_per_s": 0} == {**folder, "seconds": 0, "tokens_per_s": 0}
    report = tool_json("krait-bench", demo_file, "--prompt", "40", "--generate", "8", "--batch", "1,2", "--repeat", "1")
    assert report["model"] == "austen"
    assert [phase["phase"] for phase in report["phases"]] == ["prefill", "decode", "decode", "mixed"]


def test_krait_perplexity_says_that_a_file_has_no_tokenizer(tmp_path):
    config, tensors = read_folder(golden_model("mamba"))
    path = write_gguf(tmp_path / "m.gguf", config, tensors)
    (tmp_path / "text").write_text("Emma", encoding="utf-8")
    words = [BIN / "krait-perplexity", "--model", path, "--text", tmp_path / "text"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and done.stderr == f"krait-perplexity: {path} has no tokenizer\n"


def test_what_is_no_gguf_file_is_told_before_anything_is_built(tmp_path):
    (tmp_path / "m.gguf").write_text("{}", encoding="utf-8")
    done = run_up("--model", tmp_path / "m.gguf", "--", "true", build_first=True)
    assert done.returncode == 2
    assert "a file, but no GGUF file" in done.stderr and "build" not in done.stderr
