"""Compares the logits that krait-random-models left in a folder with transformers' (the whole forward, float32).

  with_transformers.py FOLDER

Prints a line for each model: family-seed, the largest difference relative to 1 + |logit|. Exit code 1 if one is above the
family's tolerance. Not run by the test environment's Python: it needs torch and transformers."""

import array
import json
import pathlib
import sys

import torch
import transformers

# float32 in another order of operations. Zamba's scale of attention makes larger scores, and so larger differences.
TOLERANCES = {"mamba": 1e-4, "falcon_mamba": 1e-4, "mamba2": 1e-4, "zamba": 5e-4, "zamba2": 3e-4}


def read(path, kind):
    values = array.array(kind)
    values.frombytes(path.read_bytes())
    return torch.tensor(values.tolist(), dtype=torch.float32 if kind == "f" else torch.long)


def main():
    transformers.logging.set_verbosity_error()
    failed = False
    for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        family = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        ids = read(folder / "ids.bin", "i")[None]
        with torch.no_grad():
            want = model(ids, use_cache=False).logits[0].double()
        got = read(folder / "logits.bin", "f").reshape(want.shape).double()
        worst = ((got - want).abs() / (1 + want.abs())).max().item()
        bad = not worst <= TOLERANCES[family]
        failed = failed or bad
        print(f"{folder.name}: {worst:.2g}{'  FAILED' if bad else ''}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
