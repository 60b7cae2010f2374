"""Each lint on the repository, and on something bad that it must find."""

import pathlib
import subprocess

import pytest

import formatting
import rooms
import sizes
from source_files import source_files

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("lint", [rooms, sizes, formatting], ids=lambda lint: lint.__name__)
def test_the_repository_is_clean(lint):
    assert "\n".join(lint.check(ROOT)) == ""


def test_there_is_something_to_read():
    assert len(source_files(ROOT, {".h", ".cc"})) > 20


@pytest.mark.parametrize(
    "path, line",
    [
        ("common/base/a.h", '#include "common/tensor/dtype.h"'),
        ("common/transport/a.cc", '#include "common/wire/messages.h"'),
        ("kernels/gemm/a.cc", '#include "common/model/partition.h"'),
        ("shard_server/state/a.cc", '#include "shard_server/blocks/mamba.h"'),
        ("shard_server/state/a.cc", '#include "shard_server/collectives/communicator.h"'),
        ("shard_server/blocks/a.cc", '  #  include "shard_server/engine/engine.h"'),
        ("shard_server/service/a.cc", '#include "coordinator/http/server.h"'),
        ("coordinator/http/a.cc", '#include "coordinator/tokenizer/tokenizer.h"'),
        ("coordinator/requests/a.cc", '#include "coordinator/http/server.h"'),
        ("coordinator/requests/a.cc", '#include "coordinator/api/server.h"'),
        ("coordinator/api/a.cc", '#include "kernels/device/stream.h"'),
        ("coordinator/api/a.cc", '#include "../requests/core.h"'),
        ("somewhere/a.cc", '#include "common/base/check.h"'),
        ("coordinator/api/a.cc", "#include <boost/beast/http.hpp>"),
        ("coordinator/requests/a.cc", "#include <zmq.hpp>"),
        ("shard_server/service/a.cc", "#include <capnp/message.h>"),
        ("shard_server/service/a.cc", '#include "common/wire/cluster.capnp.h"'),
        ("shard_server/engine/a.cc", "#include <prometheus/counter.h>"),
        ("common/base/a.cc", "#include <gtest/gtest.h>"),
        ("shard_server/blocks/a.cc", "#include <cuda_runtime.h>"),
    ],
)
def test_rooms_finds(path, line):
    assert len(list(rooms.errors_in(path, f"#include <vector>\n{line}\n"))) == 1


@pytest.mark.parametrize(
    "path, line",
    [
        ("shard_server/engine/a.cc", '#include "shard_server/blocks/mamba.h"'),
        ("shard_server/shard_main.cc", '#include "shard_server/service/service.h"'),
        ("coordinator/api/a.cc", '#include "coordinator/http/server.h"'),
        ("coordinator/http/a.cc", "#include <boost/asio/awaitable.hpp>"),
        ("common/wire/codec.cc", "#include <capnp/message.h>"),
        ("tests/unit/common/wire/a_test.cc", '#include "shard_server/engine/engine.h"'),
        ("deploy/tools/a_main.cc", '#include "coordinator/tokenizer/tokenizer.h"'),
    ],
)
def test_rooms_allows(path, line):
    assert not list(rooms.errors_in(path, line))


def _function(name, lines, inside=""):
    return f"int {name}(int x) {{\n" + f"  x += 1;{inside}\n" * (lines - 2) + "}\n"


def test_sizes_finds_a_long_function():
    text = (
        "namespace krait {\nclass A final {\n public:\n"
        + _function("member", 71)
        + "};\n"
        + 'const char* kText = "{{{";  // {{\n'
        + _function("short_one", 70)
        + "struct B { int x = 0; };\nint table[] = {\n"
        + "  1,\n" * 90
        + "};\n"
        + _function("long_one", 72, " if (x) { --x; }")
        + "A::A(int x) : a_(x) {\n"
        + "  go();\n" * 80
        + "}\n}  // namespace krait\n"
    )
    assert sizes.oversize("a.cc", text) == {"a.cc member": 71, "a.cc long_one": 72, "a.cc A::A": 82}


def test_sizes_finds_a_long_file_and_python():
    assert sizes.oversize("a.h", "int x;\n" * 401) == {"a.h": 401}
    assert sizes.oversize("a.h", "int x;\n" * 400) == {}
    assert sizes.oversize("a.py", "def f():\n" + "    pass\n" * 70) == {"a.py f": 71}


def test_sizes_is_a_ratchet():
    allowed = sizes.read_allowed("# why\na.cc 450\nb.cc f 80\n")
    assert allowed == {"a.cc": 450, "b.cc f": 80}
    assert sizes.compare({"a.cc": 450, "b.cc f": 80}, allowed) == []
    assert len(sizes.compare({"a.cc": 451, "b.cc f": 79, "c.cc": 401}, allowed)) == 3
    assert len(sizes.compare({}, allowed)) == 2


def test_formatting_finds_a_bad_file(tmp_path):
    (tmp_path / ".clang-format").write_bytes((ROOT / ".clang-format").read_bytes())
    (tmp_path / "good.cc").write_text("int f() {\n  return 1;\n}\n", encoding="utf-8")
    (tmp_path / "bad.cc").write_text("int x;\nint  f( ){return 1;}\n", encoding="utf-8")
    assert formatting.errors_in(tmp_path, ["good.cc", "bad.cc"]) == ["bad.cc:2: not as clang-format writes it"]


def test_source_files_leaves_out_what_git_ignores(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in (".gitignore", "a.cc", "build/b.cc", "c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("/build/\n", encoding="utf-8")
    assert list(map(str, source_files(tmp_path, {".cc"}))) == ["a.cc"]
