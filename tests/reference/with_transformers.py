"""Compares the logits that krait-random-models left in a folder with transformers' (the whole forward, float32).

  with_transformers.py FOLDER

Prints a line for each model: family-seed, the largest difference relative to 1 + |logit|. Exit code 1 if one is above the
family's tolerance, or if too few of a family's could be compared: transformers cannot build a Zamba with one hybrid layer,
nor k and v adapters beside fewer key heads, and does not share Zamba2's blocks where lm_head is not tied. Not run by the test environment's Python: it needs torch and transformers."""

import array
import collections
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
    transformers.utils.logging.disable_progress_bar()
    failed = False
    compared = collections.Counter()
    models = collections.Counter()
    for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        family = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
        models[family] += 1
        try:
            model, loaded = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype=torch.float32, output_loading_info=True
            )
        except (ValueError, RuntimeError) as error:
            print(f"{folder.name}: NOT compared, transformers cannot build it: {str(error)[:100]}", flush=True)
            continue
        if loaded["missing_keys"]:
            print(f"{folder.name}: NOT compared, transformers leaves {len(loaded['missing_keys'])} tensors as they come")
            continue
        model.eval()
        compared[family] += 1
        ids = read(folder / "ids.bin", "i")[None]
        with torch.no_grad():
            want = model(ids, use_cache=False).logits[0].double()
        got = read(folder / "logits.bin", "f").reshape(want.shape).double()
        worst = ((got - want).abs() / (1 + want.abs())).max().item()
        bad = not worst <= TOLERANCES[family]
        failed = failed or bad
        print(f"{folder.name}: {worst:.2g}{'  FAILED' if bad else ''}", flush=True)
    return 1 if failed or any(4 * compared[family] < count for family, count in models.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
