"""No file outside the build: whatever lies in the tree is compiled, included, imported, run, or read by something that
is. What the compilers read is known from compile_commands.json of the last build; the rest is followed from the entry
points by the names that files mention."""

import ast
import pathlib
import re

import compiled
from source_files import tree_files

ENTRIES = {
    ".ci/run",
    ".clang-format",
    ".clang-tidy",
    ".gitignore",
    "CMakeLists.txt",
    "CMakePresets.json",
    "deploy/up",
    "tests/bench/links/run",
    "tests/bench/versus_llama_cpp/run",
    "tests/run",
}
# These are reached by the compiler or by name in a CMakeLists.txt, never because some text happens to mention them.
_COMPILED = {".cc", ".h", ".inc", ".def", ".cu", ".cuh"}
_SOURCE = _COMPILED | {".py", ".sh", ".cmake", ".capnp", ".md"}
# Also of a macro that stands for a file: what is compiled once for each instruction path is included that way.
_INCLUDE = re.compile(r'^\s*#\s*(?:include|define\s+\w+)\s+"([^"]+)"', re.MULTILINE)
_WORD = re.compile(r"[\w.-]+")


def _is_test(path):
    """pytest finds these by itself."""
    parts = path.split("/")
    return (
        len(parts) == 3 and parts[0] == "tests" and (parts[2] == "conftest.py" or re.match(r"test_.*\.py$", parts[2]))
    )


def _is_python(path, text):
    return path.endswith(".py") or re.match(r"#!.*\bpython3?\b", text)


def _imports(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (f"{alias.name}.py" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield f"{node.module}.py"


def _from_cmake(path, text, others):
    """What a CMakeLists.txt or module takes in: sub-folders, modules, files by name or stem, files by a pattern."""
    folder = path.rpartition("/")[0]
    inside = f"{folder}/" if folder else ""
    words = set(_WORD.findall(text)) | {part for word in re.findall(r"[\w./-]+", text) for part in word.split("/")}
    patterns = [pattern for pattern in re.findall(r'"([^"\s]*\*[^"\s]*)"', text) if not pattern.endswith(".cc")]
    patterns = [re.sub(r"^\$\{\w+\}/", "", pattern) for pattern in patterns]
    for other in others:
        file = pathlib.PurePosixPath(other)
        if file.suffix == ".cmake" and file.stem in words:
            yield other
        elif other.startswith(inside):
            if file.name == "CMakeLists.txt" and file.parent.name in words:
                yield other
            elif file.name in words or (file.suffix in {".cc", ".cu"} and file.stem in words):
                yield other
            elif any(file.match(pattern) for pattern in patterns):
                yield other


def _from_text(path, text, others):
    """What a script or a piece of data names."""
    words = set(_WORD.findall(text)) | (set(_imports(text)) if _is_python(path, text) else set())
    for other in others:
        file = pathlib.PurePosixPath(other)
        if file.suffix not in _COMPILED | {".md"} and file.name in words and file.name != "CMakeLists.txt":
            yield other
        elif file.suffix not in _SOURCE and any(parent.name in words for parent in list(file.parents)[:-2]):
            yield other


def _from_readme(path, text, others):
    """A README may show a script that people run by hand."""
    words = set(_WORD.findall(text))
    folder = path.rpartition("/")[0]
    for other in others:
        if other.startswith(folder) and other.endswith(".py") and other.rpartition("/")[2] in words:
            yield other


def _named_by(path, text, others):
    name = pathlib.PurePosixPath(path)
    if name.name == "README.md":
        return _from_readme(path, text, others)
    if name.name == "CMakeLists.txt" or name.suffix == ".cmake":
        return _from_cmake(path, text, others)
    if name.suffix in _COMPILED:
        found = set(_INCLUDE.findall(text))
        return [other for other in others if other in found] + list(_from_text(path, text, others))
    return _from_text(path, text, others)


def errors_in(files, units):
    """files: {path: text, None where it is not text}."""
    reached = {path for path in files if path in ENTRIES | units or path.endswith("README.md") or _is_test(path)}
    waiting = sorted(reached)
    while waiting:
        path = waiting.pop()
        if files[path] is None:
            continue
        found = set(_named_by(path, files[path], [other for other in files if other not in reached]))
        reached |= found
        waiting += sorted(found)
    return [f"{path}: no build, test or script uses this file" for path in files if path not in reached]


def _text(path):
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size < 1 << 20 else None
    except UnicodeDecodeError:
        return None


def check(root):
    files = {path.as_posix(): _text(root / path) for path in tree_files(root)}
    units = compiled.units(root, compiled.build_folder(root))
    return errors_in(files, {unit.path for unit in units})
