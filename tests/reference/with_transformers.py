"""Compares the logits that krait-random-models left in a folder with transformers' (the whole forward, float32).

  with_transformers.py FOLDER

Prints a line for each model: family-seed, the largest difference relative to 1 + |logit|, and what had to be done by hand
to make transformers take it. Exit code 1 if one is above the family's tolerance. Not run by the test environment's Python:
it needs torch and transformers."""

import array
import json
import pathlib
import sys

import safetensors.torch
import torch
import transformers

# float32 in another order of operations. Zamba's scale of attention makes larger scores, and so larger differences.
TOLERANCES = {"mamba": 1e-4, "falcon_mamba": 1e-4, "mamba2": 1e-4, "state_spaces": 1e-4, "zamba": 5e-4, "zamba2": 3e-4}
SHARED = {"zamba": "shared_transf", "zamba2": "shared_transformer"}


def read(path, kind):
    values = array.array(kind)
    values.frombytes(path.read_bytes())
    return torch.tensor(values.tolist(), dtype=torch.float32 if kind == "f" else torch.long)


def stored_tensors(folder):
    tensors = {}
    for file in folder.glob("*.safetensors"):
        tensors |= safetensors.torch.load_file(file)
    return tensors


def complete(tensors, config):
    """What transformers' modules hold and the file does not: the tied lm_head, and a shared block's other places."""
    if config.tie_word_embeddings:
        tensors["lm_head.weight"] = next(tensors[name] for name in tensors if "embed" in name)
    if config.model_type not in SHARED:
        return tensors
    hybrids = [layer for layer, kind in enumerate(config.layers_block_type) if kind == "hybrid"]
    blocks = getattr(config, "num_mem_blocks", 1)
    for index, layer in enumerate(hybrids[blocks:], blocks):
        ours, first = (f"model.layers.{at}.{SHARED[config.model_type]}." for at in (layer, hybrids[index % blocks]))
        for name in [name for name in tensors if name.startswith(first)]:
            tensors[ours + name.removeprefix(first)] = tensors[name]
    return tensors


def build(config, tensors):
    """A model of which every module has weights of its own, filled in here. Returns also what was left at zero."""
    tensors = complete(tensors, config)
    config.tie_word_embeddings = False
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected, unexpected
    # A model of before transformers may have no adapters of the MLP; adapters of zeros add nothing.
    assert all("gate_up_proj_adapter_list" in name for name in missing), missing
    with torch.no_grad():
        for name in missing:
            model.get_parameter(name).zero_()
    return model, ", adapters of zeros" if missing else ""


def load_hybrid(folder):
    model, zeros = build(transformers.AutoConfig.from_pretrained(folder), stored_tensors(folder))
    return model, "blocks shared by hand" + zeros


def load_authors(folder, raw):
    """The layout of Mamba's authors, which transformers does not read: the same under its own names."""
    mixer = raw["ssm_cfg"]
    fields = {
        "vocab_size": -(-raw["vocab_size"] // raw["pad_vocab_size_multiple"]) * raw["pad_vocab_size_multiple"],
        "hidden_size": raw["d_model"],
        "num_hidden_layers": raw["n_layer"],
        "tie_word_embeddings": raw["tie_embeddings"],
        "state_size": mixer["d_state"],
        "conv_kernel": mixer["d_conv"],
        "expand": mixer["expand"],
        "use_bias": mixer["bias"],
        "use_conv_bias": mixer["conv_bias"],
    }
    if mixer["layer"] == "Mamba2":
        heads = {"head_dim": mixer["headdim"], "num_heads": mixer["expand"] * raw["d_model"] // mixer["headdim"]}
        config = transformers.Mamba2Config(**fields, **heads, n_groups=mixer["ngroups"], chunk_size=16)
    else:
        config = transformers.MambaConfig(**fields, time_step_rank=mixer["dt_rank"])
    tensors = stored_tensors(folder)
    tensors["backbone.embeddings.weight"] = tensors.pop("backbone.embedding.weight")
    return build(config, tensors)[0], "under its names"


def load(folder, raw):
    if "model_type" not in raw:
        return load_authors(folder, raw)
    try:
        model, loaded = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True
        )
    except (ValueError, RuntimeError):
        # It cannot tie the block of a Zamba with one hybrid layer to others, as there are none.
        if raw["model_type"] not in SHARED:
            raise
        return load_hybrid(folder)
    # It shares blocks only where lm_head is tied as well.
    return load_hybrid(folder) if loaded["missing_keys"] else (model, "")


def main():
    torch.set_num_threads(1)  # for models this small others would only get in the way
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    failed = False
    for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        family = folder.name.rpartition("-")[0]
        model, by_hand = load(folder, json.loads((folder / "config.json").read_text(encoding="utf-8")))
        model.eval()
        ids = read(folder / "ids.bin", "i")[None]
        with torch.no_grad():
            want = model(ids, use_cache=False).logits[0].double()
        got = read(folder / "logits.bin", "f").reshape(want.shape).double()
        worst = ((got - want).abs() / (1 + want.abs())).max().item()
        bad = not worst <= TOLERANCES[family]
        failed = failed or bad
        print(f"{folder.name}: {worst:.2g}{f' ({by_hand})' if by_hand else ''}{'  FAILED' if bad else ''}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
