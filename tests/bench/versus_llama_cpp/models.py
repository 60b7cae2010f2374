"""The models that both sides run: the same GGUF files."""

import json
import lzma

import numpy as np

from gguf_files import read_folder, write_gguf
from launch import REPOSITORY

FOLDER = REPOSITORY / "build" / "llama" / "models"
DEMO = REPOSITORY / "deploy" / "demo_model"
# The published sizes of Mamba; the weights are drawn, which costs both sides the same.
SHAPES = {"130m": (768, 24), "370m": (1024, 48), "1.4b": (2048, 48)}
VOCAB = 50_280
# A type of file and what Krait keeps of it in memory.
KINDS = {"BF16": "bf16", "Q8_0": "int8", "Q4_0": "int4"}


def weights_file(shape, kind, with_tokenizer=True):
    """build/llama/models/SHAPE-KIND.gguf, made where it is missing."""
    path = FOLDER / f"{shape}-{kind}{'' if with_tokenizer else '-ids'}.gguf"
    if path.exists():
        return path
    FOLDER.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    if shape == "demo":
        config, tensors = read_folder(DEMO)
        tokenizer = json.loads((DEMO / "tokenizer.json").read_text(encoding="utf-8"))
    else:
        config, tensors = _drawn(*SHAPES[shape])
        packed = REPOSITORY / "tests" / "golden" / "tokenizers" / "gpt-neox.json.xz"
        tokenizer = json.loads(lzma.decompress(packed.read_bytes()))
    write_gguf(fresh, config, tensors, kind, tokenizer if with_tokenizer else None)
    fresh.rename(path)
    return path


def _drawn(hidden, layers):
    inner, state, rank, taps = 2 * hidden, 16, (hidden + 15) // 16, 4
    config = {
        "model_type": "mamba", "hidden_size": hidden, "intermediate_size": inner, "state_size": state, "vocab_size": VOCAB,
        "time_step_rank": rank, "conv_kernel": taps, "num_hidden_layers": layers, "layer_norm_epsilon": 1e-5,
        "bos_token_id": 0, "eos_token_id": 0,
    }  # fmt: skip
    random = np.random.default_rng(1)

    def uniform(*shape):
        return (random.random(shape, np.float32) * 2 - 1) * np.float32((3 / shape[-1]) ** 0.5)

    tensors = {"backbone.embeddings.weight": uniform(VOCAB, hidden), "backbone.norm_f.weight": np.ones(hidden, np.float32)}
    for layer in range(layers):
        at = f"backbone.layers.{layer}."
        tensors[at + "norm.weight"] = np.ones(hidden, np.float32)
        tensors[at + "mixer.in_proj.weight"] = uniform(2 * inner, hidden)
        tensors[at + "mixer.conv1d.weight"] = uniform(inner, 1, taps)
        tensors[at + "mixer.conv1d.bias"] = np.zeros(inner, np.float32)
        tensors[at + "mixer.x_proj.weight"] = uniform(rank + 2 * state, inner)
        tensors[at + "mixer.dt_proj.weight"] = uniform(inner, rank)
        tensors[at + "mixer.dt_proj.bias"] = random.uniform(-5, -2, inner).astype(np.float32)
        tensors[at + "mixer.A_log"] = np.log(np.tile(np.arange(1, state + 1, dtype=np.float32), (inner, 1)))
        tensors[at + "mixer.D"] = np.ones(inner, np.float32)
        tensors[at + "mixer.out_proj.weight"] = uniform(hidden, inner)
    return config, tensors


def held_out():
    """Text that the demo model was not trained on."""
    return lzma.decompress((DEMO / "held_out.txt.xz").read_bytes()).decode()
