"""The compiler's view of the tree, for tools other than the compiler: each file with its flags, as the last build had
them, without the precompiled header, which only g++ can read."""

import dataclasses
import json
import os
import pathlib
import shlex

# What only g++ knows, or what belongs to the precompiled header or the output.
_DROPPED = {"-Winvalid-pch", "-fpch-preprocess", "-c"}
_DROPPED_WITH_VALUE = {"-include", "-o", "-MF", "-MT", "-MQ"}


@dataclasses.dataclass(frozen=True, order=True)
class Unit:
    """A file, relative to the root, and the flags that tell what it means (no output, no optimization)."""

    path: str
    flags: tuple


def _flags(command, file):
    words = iter(shlex.split(command))
    word = next(words)
    while not word.startswith("-"):  # the compiler, after a cache where there is one
        word = next(words)
    while word is not None:
        if word in _DROPPED_WITH_VALUE:
            next(words, None)
        elif word not in _DROPPED and word != file and not word.startswith(("-O", "-g", "-W", "-M")):
            yield word
        word = next(words, None)


def build_folder(root):
    return pathlib.Path(os.environ.get("KRAIT_TEST_BUILD_DIR", root / "build" / "release"))


def units(root, build):
    """What the last build compiled of the files in the tree, sorted by path."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    found = set()
    for entry in commands:
        file = pathlib.Path(entry["directory"], entry["file"])
        if file.is_relative_to(root) and not file.is_relative_to(build):
            found.add(Unit(file.relative_to(root).as_posix(), tuple(_flags(entry["command"], entry["file"]))))
    return sorted(found)
