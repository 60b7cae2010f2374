"""References computed elsewhere: the golden checkpoints of the build folder, the demo model's continuations."""

import array
import json
import math
import os
import pathlib
import struct

from launch import REPOSITORY

DEMO_MODEL = REPOSITORY / "deploy" / "demo_model"
GREEDY_TOKENS = 24


def golden_model(name):
    return pathlib.Path(os.environ["KRAIT_TEST_BUILD_DIR"]) / "golden" / "models" / name


def read_safetensors(path):
    """{name: (shape, flat array)} of a file of F32 and I32 tensors."""
    raw = path.read_bytes()
    size = struct.unpack_from("<Q", raw)[0]
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            values = array.array({"F32": "f", "I32": "i"}[entry["dtype"]])
            values.frombytes(raw[8 + size + begin : 8 + size + end])
            tensors[name] = (entry["shape"], values)
    return tensors


def log_softmax_at(row, index):
    top = max(row)
    return row[index] - top - math.log(math.fsum(math.exp(x - top) for x in row))


class GoldenPrompt:
    """One prompt of a golden model: its ids, the greedy tokens after it, and the log-probability of each of both."""

    def __init__(self, tensors, index):
        self.ids = list(tensors[f"p{index}.input_ids"][1])
        self.greedy = list(tensors[f"p{index}.greedy"][1])
        (_, vocab), prompt_rows = tensors[f"p{index}.logits"]
        greedy_rows = tensors[f"p{index}.greedy_logits"][1]

        def at(rows, row, token):
            return log_softmax_at(rows[row * vocab : (row + 1) * vocab], token)

        self.logprobs = [None] + [at(prompt_rows, row, token) for row, token in enumerate(self.ids[1:])]
        self.logprobs += [at(greedy_rows, row, token) for row, token in enumerate(self.greedy)]
        self.vocab = vocab


def golden_prompts(name):
    tensors = read_safetensors(golden_model(name) / "reference.safetensors")
    count = len({key.split(".")[0] for key in tensors})
    return [GoldenPrompt(tensors, index) for index in range(count)]
