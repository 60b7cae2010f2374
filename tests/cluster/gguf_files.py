"""GGUF files of models that are at hand as folders, written by the package of llama.cpp's authors (gguf) as their converter
writes them, and folders of what the elements of such a file are worth."""

import json
import struct

import gguf
import numpy as np

ARCHITECTURES = {"mamba": gguf.MODEL_ARCH.MAMBA, "falcon_mamba": gguf.MODEL_ARCH.MAMBA, "mamba2": gguf.MODEL_ARCH.MAMBA2}
FULL_PRECISION = ("conv1d.weight", ".A_log", ".D", "norm.weight", "norm_f.weight")  # whatever the rest of the file has
READ = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}


def read_folder(folder):
    """(config, {name: float32 array}) of a folder with model.safetensors."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    raw = (folder / "model.safetensors").read_bytes()
    size = struct.unpack_from("<Q", raw)[0]
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        flat = np.frombuffer(raw[8 + size + begin : 8 + size + end], READ[entry["dtype"]])
        if entry["dtype"] == "BF16":
            flat = (flat.astype(np.uint32) << 16).view(np.float32)
        tensors[name] = flat.astype(np.float32).reshape(entry["shape"])
    return config, tensors


def write_folder(folder, config, tensors):
    """A folder of float32. Returns it."""
    header, at = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            out.write(np.ascontiguousarray(values, "<f4").tobytes())
    return folder


def is_matrix(name, values):
    return values.ndim == 2 and not name.endswith(FULL_PRECISION)


def encoded(values, kind):
    """(array as the file has it, type) of a matrix; rows that are no whole blocks stay float32, as in llama.cpp."""
    quantization = gguf.GGMLQuantizationType[kind]
    if values.shape[-1] % gguf.GGML_QUANT_SIZES[quantization][0] != 0:
        return values, gguf.GGMLQuantizationType.F32
    return _q6_k(values) if kind == "Q6_K" else gguf.quants.quantize(values, quantization), quantization


def worth(tensors, kind):
    """The tensors as a file of that kind has them, in float32, by the package's own numpy code."""
    return {
        name: gguf.quants.dequantize(*encoded(values, kind)) if is_matrix(name, values) else values
        for name, values in tensors.items()
    }


def _q6_k(values):
    """Blocks of 256 with a scale for each 16: the package reads them only."""
    groups = values.reshape(-1, 16, 16)
    wanted = np.abs(groups).max(axis=2) / 31
    d = (wanted.max(axis=1) / 127).astype(np.float16)
    step = np.where(d == 0, 1, d).astype(np.float32)[:, None]
    scales = np.clip(np.round(wanted / step), 0, 127)
    unit = step * np.where(scales == 0, 1, scales)
    numbers = (np.clip(np.round(groups / unit[:, :, None]), -32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    low = (numbers[:, :, :2] & 15) | (numbers[:, :, 2:] & 15) << 4
    high = np.bitwise_or.reduce([(numbers[:, :, j] >> 4) << 2 * j for j in range(4)])
    count = len(numbers)
    parts = [low.reshape(count, 128), high.reshape(count, 64), scales.astype(np.int8).view(np.uint8)]
    blocks = np.concatenate([*parts, d[:, None].view(np.uint8)], axis=1)
    return blocks.reshape(values.shape[0], -1)


def write_gguf(path, config, tensors, kind="F32", tokenizer=None, change=None, **more):
    """The model of a config and tensors with Hugging Face's names. `tokenizer` is a tokenizer.json's document, and `more`
    what add_tokenizer takes. `change(writer)` may add what it likes. Returns the path."""
    architecture = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    _add_sizes(writer, config)
    if tokenizer is not None:
        add_tokenizer(writer, tokenizer, config["vocab_size"], **more)
    for token in ("bos", "eos"):
        if config.get(f"{token}_token_id") is not None:
            getattr(writer, f"add_{token}_token_id")(config[f"{token}_token_id"])
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    for name, values in tensors.items():
        # As the converter renames it before it looks the name up.
        known = name.removesuffix("dt_bias") + "dt_proj.bias" if name.endswith("dt_bias") else name
        if config["model_type"] != "mamba2" or not name.endswith("mixer.norm.weight"):
            data = _converted(name, values, config)
        else:
            data = values.reshape(config["n_groups"], -1)
        data, quantization = encoded(data, kind) if is_matrix(name, values) else (data, gguf.GGMLQuantizationType.F32)
        writer.add_tensor(
            names.get_name(known, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(data), raw_dtype=quantization
        )
    if change:
        change(writer)
    return write(writer, path)


def write(writer, path):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_sizes(writer, config):
    second = config["model_type"] == "mamba2"
    inner = config["num_heads"] * config["head_dim"] if second else config["intermediate_size"]
    writer.add_context_length(2**20)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_ssm_conv_kernel(config["conv_kernel"])
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(config["state_size"])
    writer.add_ssm_time_step_rank(config["num_heads"] if second else config["time_step_rank"])
    writer.add_layer_norm_rms_eps(config["layer_norm_epsilon"])
    if second:
        writer.add_ssm_group_count(config["n_groups"])
    else:
        writer.add_ssm_dt_b_c_rms(config["model_type"] == "falcon_mamba")


def _converted(name, values, config):
    if name.endswith(".A_log"):
        values = -np.exp(values.astype(np.float64)).astype(np.float32)
    if name.endswith("conv1d.weight"):
        values = values.squeeze(1)
    if config["model_type"] == "mamba2" and name.endswith((".A_log", ".D")):
        values = values.reshape(-1, 1)
    return values


def add_tokenizer(writer, document, vocab_size=0, pre="mpt", chat_template=None, add_bos=None):
    """The tokenizer of a tokenizer.json: gpt2's kind, or SentencePiece's where it falls back to bytes."""
    model = document["model"]
    pieces = model.get("byte_fallback", False)
    tokens = {number: token for token, number in model["vocab"].items()}
    types = {number: gguf.TokenType.NORMAL for number in tokens}
    if pieces:
        types.update({n: gguf.TokenType.BYTE for n, t in tokens.items() if len(t) == 6 and t.startswith("<0x")})
    for added in document["added_tokens"]:
        tokens[added["id"]] = added["content"]
        types[added["id"]] = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
        if added["content"] == model.get("unk_token"):
            types[added["id"]] = gguf.TokenType.UNKNOWN
    numbers = range(max([vocab_size, *(number + 1 for number in tokens)]))
    writer.add_tokenizer_model("llama" if pieces else "gpt2")
    writer.add_tokenizer_pre("default" if pieces else pre)
    writer.add_token_list([tokens.get(number, f"[PAD{number}]") for number in numbers])
    writer.add_token_types([types.get(number, gguf.TokenType.UNUSED) for number in numbers])
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    if pieces:
        rank = {}
        for number, merge in enumerate(merges):
            rank.setdefault(merge.replace(" ", "", 1), number)
        writer.add_token_scores([-float(rank.get(tokens.get(number), 10**6)) for number in numbers])
    else:
        writer.add_token_merges(merges)
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)
