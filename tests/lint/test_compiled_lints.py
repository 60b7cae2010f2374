"""The lints that read C++ as a compiler does, shown something bad. What takes minutes is asked of the whole repository
by whole_tree.py."""

import json
import pathlib

import pytest

import compiled
import cppcheck
import headers
import tidy
from compiled import Unit

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = ("-std=c++20", "-I.")


def test_cppcheck_has_nothing_to_say():
    assert "\n".join(cppcheck.check(ROOT)) == ""


def test_cppcheck_finds_a_bad_file(tmp_path):
    (tmp_path / "good.cc").write_text("int f(int x) { return x; }\n", encoding="utf-8")
    (tmp_path / "bad.cc").write_text("int f() {\n  int a[2] = {1, 2};\n  return a[2];\n}\n", encoding="utf-8")
    (tmp_path / "why.txt").write_text("# none\n", encoding="utf-8")
    found = cppcheck.errors_in(tmp_path, ["good.cc", "bad.cc"], tmp_path / "why.txt")
    assert len(found) == 1 and found[0].startswith("bad.cc:3: arrayIndexOutOfBounds"), found


def test_every_suppression_of_cppcheck_has_its_reason():
    lines = (ROOT / cppcheck.SUPPRESSIONS).read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    for line in lines:
        path = line.partition(":")[2]
        assert line.startswith("# ") or not path or list(ROOT.glob(path)), f"{line}: there is no such file"


BAD = """namespace krait {
struct Base {
  virtual int size() const { return 0; }
};
struct BadName_t final : Base {
  int size() const { return 1; }
};
}  // namespace krait
"""


def _tidy_tree(root, files):
    (root / ".clang-tidy").write_bytes((ROOT / ".clang-tidy").read_bytes())
    for name, text in files.items():
        (root / "common" / name).parent.mkdir(exist_ok=True)
        (root / "common" / name).write_text(text, encoding="utf-8")
    units = [Unit(f"common/{name}", ("-std=c++20", f"-I{root}")) for name in sorted(files) if name.endswith(".cc")]
    return tidy.errors_in(root, units, root / "together")


def test_tidy_finds_bad_files_and_headers(tmp_path):
    found = _tidy_tree(
        tmp_path,
        {
            "a.cc": BAD,
            "b.cc": '#include "common/b.h"\nnamespace krait {\nint b() { return 2; }\n}\n',
            "b.h": "#pragma once\n#include <string>\ninline int of(std::string text) { return text.empty(); }\n",
        },
    )
    expected = ("modernize-use-override", "readability-identifier-naming", "performance-unnecessary-value-param")
    for check in expected:
        assert any(check in error for error in found), found
    assert {error.split(":")[0] for error in found} == {"common/a.cc", "common/b.h"}


def test_tidy_takes_what_is_right_also_where_files_share_names(tmp_path):
    alike = "namespace krait {{\nnamespace {{\nint own() {{ return {0}; }}\n}}\nint f{0}() {{ return own(); }}\n}}\n"
    assert _tidy_tree(tmp_path, {f"{n}.cc": alike.format(n) for n in range(3)}) == []
    assert len(list((tmp_path / "together").glob("*.cc"))) == 3


def test_tidy_finds_out_which_files_clash(tmp_path):
    """Names that only the compiler sees, here by a macro."""
    text = "#define OWN(name) int name = 0\nnamespace krait {{\nOWN(same);\n}}\n#undef OWN\n"
    for name in ("a.cc", "b.cc", "c.cc"):
        (tmp_path / name).write_text(text.format() if name != "c.cc" else "int c = 0;\n", encoding="utf-8")
    units = [Unit(name, FLAGS) for name in ("a.cc", "b.cc", "c.cc")]
    found = [[unit.path for unit in batch] for _, batch in tidy.batches(tmp_path, units, tmp_path)]
    assert sorted(map(sorted, found)) == [["a.cc", "c.cc"], ["b.cc"]]


def test_tidy_tells_of_a_file_that_does_not_compile(tmp_path):
    found = _tidy_tree(tmp_path, {"a.cc": "int f( {\n", "b.cc": "int g() { return 1; }\n"})
    assert len(found) == 1 and found[0].startswith("common/a.cc:1:"), found


def test_headers_finds_one_that_needs_another(tmp_path):
    (tmp_path / "good.h").write_text("#pragma once\n#include <string>\ninline std::string f() { return {}; }\n")
    (tmp_path / "bad.h").write_text("#pragma once\ninline std::string f() { return {}; }\n")
    found = headers.errors_in(tmp_path, ["good.h", "bad.h"], [Unit("a.cc", FLAGS)])
    assert len(found) == 1 and found[0].startswith("bad.h: does not compile alone: ")


def test_headers_get_the_flags_of_their_room():
    units = [Unit("common/a.cc", ("-A",)), Unit("common/wire/a.cc", ("-B",)), Unit("kernels/a.cc", ("-C",))]
    assert [headers.flags_for(path, units) for path in ("common/wire/x.h", "common/x.h")] == [("-B",), ("-A",)]


@pytest.mark.parametrize("compiler", ["/usr/bin/c++", "ccache /usr/bin/c++"])
def test_units_have_the_flags_that_carry_meaning(tmp_path, compiler):
    build = tmp_path / "build"
    build.mkdir()
    source = str(tmp_path / "a.cc")
    command = (
        f"{compiler} -DX=1 -isystem /inc -I/x -O3 -g1 -Wall -std=c++20 -Winvalid-pch -include /pch -o a.o -c {source}"
    )
    entries = [{"directory": str(build), "file": source, "command": command}]
    entries += [
        {"directory": str(build), "file": name, "command": "c++ -c x"} for name in ("generated.cc", "/else/x.cc")
    ]
    (build / "compile_commands.json").write_text(json.dumps(entries), encoding="utf-8")
    assert compiled.units(tmp_path, build) == [Unit("a.cc", ("-DX=1", "-isystem", "/inc", "-I/x", "-std=c++20"))]
