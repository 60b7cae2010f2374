"""llama.cpp's library behind lines of JSON: one request a line on standard input, one answer a line on standard output. It
holds one model, with room for several sequences, and times what it is asked for."""

import ctypes
import json
import sys
import time

import llama_cpp as api
import numpy as np

MAX_TOKENS = 2048  # of one decode
quiet = api.llama_log_callback(lambda level, text, data: None)


class Model:
    def __init__(self, path, threads, sequences):
        options = api.llama_model_default_params()
        options.load_mode = api.LLAMA_LOAD_MODE_NONE  # no mapping: weights in memory of its own
        options.n_gpu_layers = 0
        self.model = api.llama_model_load_from_file(str(path).encode(), options)
        assert self.model, path
        self.vocab = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        shape = api.llama_context_default_params()
        shape.n_ctx = MAX_TOKENS * 2
        shape.n_batch = MAX_TOKENS
        shape.n_ubatch = 512
        shape.n_seq_max = sequences
        shape.n_threads = shape.n_threads_batch = threads
        self.context = api.llama_init_from_model(self.model, shape)
        assert self.context
        self.batch = api.llama_batch_init(MAX_TOKENS, 0, 1)

    def clear(self):
        api.llama_memory_clear(api.llama_get_memory(self.context), True)

    def decode(self, rows):
        """`rows` are (token, position, sequence, whether its logits are wanted)."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wanted
        assert api.llama_decode(self.context, batch) == 0
        api.llama_synchronize(self.context)

    def logits(self, row):
        pointer = api.llama_get_logits_ith(self.context, row)
        return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), (self.vocab,))

    def prefill_s(self, tokens):
        self.clear()
        rows = [(token, i, 0, i == len(tokens) - 1) for i, token in enumerate(tokens)]
        began = time.perf_counter()
        self.decode(rows)
        return time.perf_counter() - began

    def step_s(self, sequences, prompt, steps):
        """Seconds of a step of that many sequences. Their tokens are given, so that choosing one costs nothing here."""
        self.clear()
        rows = [(token, i, s, i == len(prompt) - 1) for s in range(sequences) for i, token in enumerate(prompt)]
        self.decode(rows)
        began = time.perf_counter()
        for step in range(steps):
            self.decode([(prompt[step % len(prompt)], len(prompt) + step, s, True) for s in range(sequences)])
        return (time.perf_counter() - began) / steps

    def greedy(self, prompt, count):
        self.clear()
        self.decode([(token, i, 0, i == len(prompt) - 1) for i, token in enumerate(prompt)])
        row, tokens = len(prompt) - 1, []
        for step in range(count):
            tokens.append(int(self.logits(row).argmax()))
            self.decode([(tokens[-1], len(prompt) + step, 0, True)])
            row = 0
        return tokens

    def score(self, tokens, path):
        """Logits of every position, to a file."""
        self.clear()
        self.decode([(token, i, 0, True) for i, token in enumerate(tokens)])
        np.save(path, np.stack([self.logits(i) for i in range(len(tokens))]))


def main():
    api.llama_log_set(quiet, None)
    api.llama_backend_init()
    model = Model(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(model, name)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
