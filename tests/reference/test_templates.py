"""Chat templates: jinja2 renders the same texts."""

import os
import pathlib
import re
import subprocess

import python_packages
import pytest

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
VENV = REPOSITORY / "build" / "jinja"
SEED = "1"  # other seeds draw other cases


@pytest.fixture(scope="module")
def python():
    problem = python_packages.make(VENV, HERE / "requirements_templates.txt", timeout_s=600)
    assert not problem, problem
    return VENV / "bin" / "python"


@pytest.mark.parametrize(
    ("kind", "count", "texts"),
    [
        # 23 templates, each over 110 conversations of the tree and so many drawn; many templates refuse odd turns.
        ("styles", 300, 6000),
        ("random", 10_000, 10_000),
    ],
)
def test_templates_have_jinjas_text(python, kind, count, texts):
    program = pathlib.Path(os.environ["KRAIT_TEST_BUILD_DIR"]) / "bin" / "krait-render-templates"
    done = subprocess.run(
        [python, "-B", HERE / "with_jinja.py", program, kind, SEED, str(count)],
        capture_output=True, text=True, encoding="utf-8", check=False, timeout=1800,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert int(re.search(r"(\d+) equal", done.stdout)[1]) >= texts
