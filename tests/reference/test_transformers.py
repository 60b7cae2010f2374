"""Random models of every family: transformers computes the same logits."""

import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
SEEDS = 16


def _python():
    python = os.environ.get("KRAIT_TRANSFORMERS_PYTHON", "python3")
    found = subprocess.run([python, "-c", "import torch, transformers"], capture_output=True, check=False)
    return python if found.returncode == 0 else None


def test_random_models_have_transformers_logits(tmp_path):
    python = _python()
    if python is None:
        pytest.skip("no Python with torch and transformers: random models were NOT compared with transformers")
    programs = pathlib.Path(os.environ["KRAIT_TEST_BUILD_DIR"]) / "bin"
    subprocess.run([programs / "krait-random-models", tmp_path, str(SEEDS)], check=True, timeout=300)
    done = subprocess.run(
        [python, HERE / "with_transformers.py", tmp_path], capture_output=True, text=True, check=False, timeout=1200
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == 5 * SEEDS
