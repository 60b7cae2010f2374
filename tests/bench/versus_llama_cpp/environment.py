"""llama.cpp, built on this machine for this machine, under build/llama/: the sources that llama-cpp-python carries, its
library and its server; and a virtual environment with that package, which then uses this library. Python's standard library
only."""

import os
import pathlib
import shutil
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
FOLDER = REPOSITORY / "build" / "llama"
REQUIREMENTS = pathlib.Path(__file__).resolve().parent / "requirements.txt"
PYTHON = FOLDER / "venv" / "bin" / "python"
LIBRARIES = FOLDER / "native" / "bin"
SERVER = LIBRARIES / "llama-server"
# Nothing that a server without TLS and web pages on one machine needs, nothing that is fetched while it is built.
_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=ON -DLLAMA_OPENSSL=OFF -DLLAMA_USE_PREBUILT_UI=OFF "
    "-DLLAMA_BUILD_UI=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF"
).split()


def peer_environment():
    """What the peer runs with: huge pages for what it allocates, as its weights are then (it is told not to map files)."""
    return dict(os.environ, GLIBC_TUNABLES="glibc.malloc.hugetlb=1", LLAMA_CPP_LIB_PATH=str(LIBRARIES))


def make():
    """Installs what is missing; where nothing is, this takes a moment. Compiling takes ten minutes of a processor or more."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    _make_venv()
    _unpack()
    if not (FOLDER / "native" / "build.ninja").exists():
        _run("cmake", "-S", FOLDER / "source", "-B", FOLDER / "native", "-G", "Ninja", *_OPTIONS)
    _run("nice", "ninja", "-C", FOLDER / "native", "llama", "llama-server")


def _make_venv():
    mark = FOLDER / "venv" / "installed.txt"
    if mark.exists() and mark.read_text(encoding="utf-8") == REQUIREMENTS.read_text(encoding="utf-8"):
        return
    shutil.rmtree(FOLDER / "venv", ignore_errors=True)
    _run("/usr/bin/python3", "-m", "venv", FOLDER / "venv")
    # The package without the library, which is built once, with the server.
    _run(PYTHON, "-m", "pip", "install", "-q", "-r", REQUIREMENTS, environment={"CMAKE_ARGS": "-DLLAMA_BUILD=OFF"})
    shutil.copyfile(REQUIREMENTS, mark)


def _unpack():
    if (FOLDER / "source").exists():
        return
    version = next(line for line in REQUIREMENTS.read_text(encoding="utf-8").split() if line.startswith("llama-cpp-python"))
    _run(
        PYTHON, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-python", "-d", FOLDER / "download", version,
        environment={"CMAKE_ARGS": "-DLLAMA_BUILD=OFF"},
    )  # fmt: skip
    (archive,) = (FOLDER / "download").glob("llama_cpp_python-*.tar.gz")
    shutil.rmtree(FOLDER / "unpacked", ignore_errors=True)
    (FOLDER / "unpacked").mkdir()
    _run("tar", "-xzf", archive, "-C", FOLDER / "unpacked")
    (vendored,) = (FOLDER / "unpacked").glob("*/vendor/llama.cpp")
    vendored.rename(FOLDER / "source")
    shutil.rmtree(FOLDER / "unpacked")


def _run(*words, environment=None):
    print("versus_llama_cpp:", *words, file=sys.stderr)
    subprocess.run([str(word) for word in words], check=True, env=dict(os.environ, **(environment or {})), stdout=sys.stderr)
