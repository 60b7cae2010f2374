"""Ten thousand nasty texts, and every character, on every pipeline: Hugging Face's tokenizers gives the same."""

import os
import pathlib
import re
import subprocess

import python_packages

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
VENV = REPOSITORY / "build" / "tokenizers"
TEXTS = 10_000
SEED = 6  # of the texts; another one draws others


def test_every_pipeline_gives_what_tokenizers_gives():
    problem = python_packages.make(VENV, HERE / "requirements_tokenizers.txt", timeout_s=600)
    assert not problem, "tokenizers cannot be installed:\n" + problem
    build = pathlib.Path(os.environ["KRAIT_TEST_BUILD_DIR"])
    command = [VENV / "bin" / "python", "-X", "utf8", "-B", HERE / "with_tokenizers.py"]
    command += [build / "bin" / "krait-tokenizer-lines", build / "golden" / "tokenizers", TEXTS, SEED]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, encoding="utf-8", check=False, timeout=3600
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    equal = re.findall(r"^.*: (\d+) of \1 equal", done.stdout, re.MULTILINE)
    assert len(equal) >= 50 and min(map(int, equal)) >= TEXTS
