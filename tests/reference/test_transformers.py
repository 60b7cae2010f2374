"""Random models of every family: transformers computes the same logits."""

import os
import pathlib
import shutil
import subprocess

import python_packages
import pytest

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
SEEDS = 24
VENV = REPOSITORY / "build" / "transformers"
VENV_BYTES = 10 << 30  # with what pip keeps on the way


def _skip(why):
    pytest.skip(f"random models were NOT compared with transformers: {why}")


def _python():
    """A Python with torch and transformers: the one that was named, else one of our own."""
    named = os.environ.get("KRAIT_TRANSFORMERS_PYTHON")
    if named:
        return named
    if not (VENV / "installed.txt").exists() and shutil.disk_usage(REPOSITORY).free < VENV_BYTES:
        _skip(f"torch wants {VENV_BYTES >> 30} GB of disk")
    problem = python_packages.make(VENV, HERE / "requirements.txt", timeout_s=3600)
    if problem:
        _skip(f"they cannot be installed: {problem.strip().splitlines()[-1]}")
    return VENV / "bin" / "python"


def test_random_models_have_transformers_logits(tmp_path):
    python = _python()
    programs = pathlib.Path(os.environ["KRAIT_TEST_BUILD_DIR"]) / "bin"
    subprocess.run([programs / "krait-random-models", tmp_path, str(SEEDS)], check=True, timeout=600)
    done = subprocess.run(
        [python, HERE / "with_transformers.py", tmp_path], capture_output=True, text=True, check=False, timeout=1800
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == len(list(tmp_path.iterdir())) >= 6 * SEEDS, "a line for each model"
