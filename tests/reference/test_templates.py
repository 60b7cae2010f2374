"""Chat templates: jinja2 renders the same texts."""

import os
import pathlib
import re
import subprocess

import environments
import pytest

HERE = pathlib.Path(__file__).resolve().parent
SEED = "1"  # other seeds draw other cases


@pytest.mark.parametrize(
    ("kind", "count", "texts"),
    [
        ("styles", 300, 6000),  # 23 templates, each over 110 conversations of the tree and so many drawn; many refuse odd turns
        ("random", 10_000, 10_000),
    ],
)
def test_templates_have_jinjas_text(kind, count, texts):
    program = pathlib.Path(os.environ["KRAIT_TEST_BUILD_DIR"]) / "bin" / "krait-render-templates"
    done = subprocess.run(
        [environments.python_with("templates"), HERE / "with_jinja.py", program, kind, SEED, str(count)],
        capture_output=True, text=True, encoding="utf-8", check=False, timeout=1800,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert int(re.search(r"(\d+) equal", done.stdout)[1]) >= texts
