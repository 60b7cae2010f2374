import contextlib
import os
import pathlib
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
# By hand, without tests/run: what the preset release built.
os.environ.setdefault("KRAIT_TEST_BUILD_DIR", str(pathlib.Path(__file__).resolve().parents[2] / "build" / "release"))

from launch import FAKE_BUILD, Up, segments  # noqa: E402
from reference import DEMO_MODEL, golden_model  # noqa: E402


@pytest.fixture(scope="session")
def clusters():
    """clusters(model, ranks, *options, threads=1): a running one, started when first asked for, shared by all tests."""
    with contextlib.ExitStack() as running:
        known = {}

        def get(model, ranks, *options, threads=1):
            key = (model, ranks, threads, options)
            if key not in known:
                folder = DEMO_MODEL if model == "demo" else golden_model(model)
                up = running.enter_context(Up("--model", folder, "--ranks", ranks, "--threads", threads, *options))
                known[key] = up.wait_ready()
            return known[key]

        yield get


@pytest.fixture(scope="session")
def demo(clusters):
    """The demo model on two shard servers."""
    return clusters("demo", 2)


@pytest.fixture(scope="session")
def fake_model():
    """A folder that the launcher takes for a model's."""
    with tempfile.TemporaryDirectory(prefix="kt-model-") as path:
        for name, text in (("config.json", "{}"), ("model.safetensors", ""), ("tokenizer.json", "{}")):
            (pathlib.Path(path) / name).write_text(text, encoding="utf-8")
        yield path


@pytest.fixture
def fake(fake_model):
    """Options of deploy/up over stand-ins for the daemons."""
    return ["--build-dir", FAKE_BUILD, "--model", fake_model]


@pytest.fixture(scope="session", autouse=True)
def no_segments_are_left():
    before = segments()
    yield
    assert [name for name in segments() if name not in before] == []
