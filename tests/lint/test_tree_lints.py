"""The lints that read the tree as a whole, on the repository and on trees that are wrong in one place each."""

import pathlib

import pytest

import reachable
import readmes
import tables
import words
from source_files import read_files, tree_files

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("lint", [reachable, readmes, tables, words], ids=lambda lint: lint.__name__)
def test_the_repository_is_clean(lint):
    assert "\n".join(lint.check(ROOT)) == ""


@pytest.fixture(scope="module")
def tree():
    """What the tables' lint reads of this repository."""
    return read_files(ROOT, {".cc", ".h", ".inc", ".def", ".py", ".yml"})


@pytest.mark.parametrize(
    "check, path, text, complaint",
    [
        ("architectures", "common/model/architectures/lost.cc", "", "lost is in common/model/architectures/ but not"),
        ("architectures", "common/model/architectures.def", "ARCHITECTURE(gone)", "gone is listed but not in"),
        ("blocks", "shard_server/blocks/a.cc", "Result<B> make_a_block(int x) {", "make_a_block is in"),
        (
            "blocks",
            "shard_server/blocks/a.cc",
            "R make_mamba_block(int x) {",
            "belongs into shard_server/blocks/mamba.cc",
        ),
        ("blocks", "shard_server/blocks/blocks.def", "BLOCK(kGone, make_gone_block)", "make_gone_block is listed"),
        ("collectives", "shard_server/collectives/a.cc", "R make_a_communicator(int x) {", "make_a_communicator is in"),
        (
            "collectives",
            "shard_server/collectives/collectives.def",
            'COLLECTIVE("g", make_g_communicator)',
            "is listed",
        ),
        ("endpoints", "coordinator/api/endpoints/a.cc", "void a(Api& api, const http::Request& r) {}", "a is in"),
        ("endpoints", "coordinator/api/endpoints/a.cc", "int a();", "coordinator/api/endpoints/a.cc: has no handler"),
        (
            "endpoints",
            "coordinator/api/endpoints.def",
            'ENDPOINT("GET", "/gone", gone, kOpen)',
            "gone is listed but not",
        ),
        ("metrics", "common/metrics/metric_names.def", 'GAUGE(Shard, kGone, "krait_gone", "x")', "nothing sets kGone"),
        (
            "metrics",
            "dashboards/prometheus/a.yml",
            "rate(krait_step_seconds_total[1m])",
            "no metric is named krait_step_seconds_total",
        ),
        ("metrics", "tests/cluster/a.py", 'x = "krait_slots_bucket"', "no metric is named krait_slots_bucket"),
        ("errors", "common/base/errors.def", 'ERROR(kGone, "gone", 500, "x")', "nothing uses kGone"),
        ("fields", "coordinator/api/completion_fields.def", 'USED(gone, kString, 0, 0, "x")', "nothing uses gone"),
        ("limits", "common/base/limits.h", "inline constexpr int kMaxGone = 1;", "nothing keeps kMaxGone"),
    ],
)
def test_tables_finds(tree, check, path, text, complaint):
    """A row or a file too many, beside all that is right."""
    wrong = dict(tree, **{path: tree.get(path, "") + f"\n{text}\n"})
    found = list(tables.CHECKS[check](wrong))
    assert len(found) == 1 and complaint in found[0], found


def test_tables_takes_the_parts_of_a_histogram(tree):
    used = "krait_step_seconds_bucket krait_step_seconds_sum krait_step_seconds_count krait_epochs_total"
    assert not list(tables.CHECKS["metrics"](dict(tree, **{"dashboards/a.yml": used})))


@pytest.mark.parametrize(
    "line, complaint",
    [
        ("see `gone.h`", "there is no gone.h"),
        ("see `base/gone.h`", "there is no base/gone.h"),
        ("see `tests/unit/gone/`", "there is no tests/unit/gone/"),
        ("see `limits::kMaxGone`", "nothing is named limits::kMaxGone"),
        ("a `GoneType` of `right.h`", "nothing is named GoneType"),
        (
            "`right.h` `common/base/right.h` `tests/unit/` `RightType` `kRight` `NAME.h` `/metrics` `build/x.txt`",
            None,
        ),
    ],
)
def test_readmes_finds(line, complaint):
    there = {"common", "common/base", "common/base/right.h", "tests", "tests/unit", "tests/unit/a.cc"}
    found = list(readmes.errors_in("common/README.md", f"# common\n{line}\n", there, {"RightType", "kRight"}))
    assert found == ([f"common/README.md:2: {complaint}"] if complaint else [])


def test_readmes_misses_a_rooms_readme():
    paths = [
        pathlib.Path(name) for name in ("common/README.md", "common/base/a.h", "kernels/README.md", "kernels/x/a.h")
    ]
    assert readmes.missing(paths) == ["common/base: has no README.md", "kernels/x: has no README.md"]


@pytest.mark.parametrize(
    "line",
    ["// TO" "DO: later", "# FIX" "ME", "see ../" "shared/x", "x = '/wo" "rk/main'", "<" * 7 + " HEAD", "XX" "X"],
)
def test_words_finds(line):
    assert len(list(words.errors_in("a.cc", f"int x;\n{line}\n"))) == 1


def test_words_allows():
    text = 'mkdtemp("krait-XXXXXX");\n#include "a/work/b.h"\nto do: the shared/ folder, homework\n=== a ===\n'
    assert not list(words.errors_in("a.cc", text))


def _tree(**changed):
    """A small tree in which every file is used."""
    files = {
        "CMakeLists.txt": "add_subdirectory(common)\ninclude(rules)\n",
        "deploy/cmake/rules.cmake": "",
        "common/CMakeLists.txt": 'krait_room(a)\nadd_executable(x odd_main.cc)\nfile(GLOB data "*.xz")\n',
        "common/a.cc": '#include "common/a.h"\n#define BODY "common/body.inc"\n',
        "common/a.h": "",
        "common/body.inc": "",
        "common/odd_main.cc": "",
        "common/data.xz": None,
        "common/README.md": "made by `make_data.py`",
        "common/make_data.py": "",
        "tests/run": "exec runner.py",
        "tests/runner.py": "import helper\n",
        "tests/helper.py": "",
        "tests/lint/test_a.py": "from other import x\nopen('cases/one')\n",
        "tests/lint/other.py": "",
        "tests/lint/cases/one": "",
    }
    return {**files, **changed}


def test_reachable_follows_every_kind_of_use():
    assert reachable.errors_in(_tree(), {"common/a.cc"}) == []


@pytest.mark.parametrize(
    "path",
    [
        "common/b.h",
        "common/b.cc",
        "common/b.inc",
        "common/b.xml",
        "common/NOTES.md",
        "common/make_other.py",
        "common/b/CMakeLists.txt",
        "deploy/cmake/other.cmake",
        "tests/lint/unused.py",
        "tests/lint/cases2/one.json",
        "stray.txt",
    ],
)
def test_reachable_finds(path):
    found = reachable.errors_in(_tree(**{path: "b.h a.h"}), {"common/a.cc"})
    assert found == [f"{path}: no build, test or script uses this file"]


def test_reachable_finds_what_is_no_longer_used():
    found = reachable.errors_in(_tree(**{"common/a.cc": "", "tests/runner.py": ""}), {"common/a.cc"})
    assert [error.split(":")[0] for error in found] == ["common/a.h", "common/body.inc", "tests/helper.py"]


def test_there_is_something_to_read():
    assert len(tree_files(ROOT)) > 300
