"""A Mamba with random weights, of a size that a test chooses: big enough to be seen while it loads or reads a prompt."""

import array
import json
import random
import struct

HIDDEN, INNER, STATE, RANK, TAPS, LAYERS, VOCAB = 768, 1536, 16, 48, 4, 10, 20_000


def tensors():
    """(name, shape, elements that a rank of two holds)"""
    yield "backbone.embeddings.weight", (
        VOCAB,
        HIDDEN,
    ), VOCAB // 2 * HIDDEN  # as lm_head; look-ups use the file's pages
    yield "backbone.norm_f.weight", (HIDDEN,), HIDDEN
    for layer in range(LAYERS):
        at = f"backbone.layers.{layer}."
        yield at + "norm.weight", (HIDDEN,), HIDDEN
        for name, shape in (
            ("in_proj.weight", (2 * INNER, HIDDEN)),
            ("conv1d.weight", (INNER, 1, TAPS)),
            ("conv1d.bias", (INNER,)),
            ("x_proj.weight", (RANK + 2 * STATE, INNER)),
            ("dt_proj.weight", (INNER, RANK)),
            ("dt_proj.bias", (INNER,)),
            ("A_log", (INNER, STATE)),
            ("D", (INNER,)),
            ("out_proj.weight", (HIDDEN, INNER)),
        ):
            count = 1
            for extent in shape:
                count *= extent
            yield at + "mixer." + name, shape, count // 2


def write_model(folder):
    config = {
        "model_type": "mamba",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "state_size": STATE,
        "time_step_rank": RANK,
        "conv_kernel": TAPS,
        "num_hidden_layers": LAYERS,
        "vocab_size": VOCAB,
        "use_conv_bias": True,
        "use_bias": False,
        "tie_word_embeddings": True,
        "layer_norm_epsilon": 1e-5,
        "eos_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    draw = random.Random(1)
    block = array.array("f", [draw.gauss(0, 0.03) for _ in range(65_521)]).tobytes()  # a prime: rows differ
    header, offset = {}, 0
    for name, shape, _ in tensors():
        size = 4
        for extent in shape:
            size *= extent
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name in header:
            left = header[name]["data_offsets"][1] - header[name]["data_offsets"][0]
            while left > 0:
                out.write(block[:left])
                left -= len(block)
    return folder
