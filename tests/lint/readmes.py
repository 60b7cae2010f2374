"""Each room has a README, and what READMEs name is there: files, folders, limits and types of ours."""

import pathlib
import re

from rooms import MAY_INCLUDE
from source_files import CPP_SUFFIXES, read_files, tree_files

_QUOTED = re.compile(r"`([^`\n]+)`")
_SUFFIXES = ("h", "cc", "inc", "def", "capnp", "cu", "py", "sh", "cmake", "txt", "md")
_FILE = re.compile(rf"^[\w./-]+\.(?:{'|'.join(_SUFFIXES)})$")
_FOLDER = re.compile(r"^(?:[\w.-]+/)+[\w.-]*$")
_PLACEHOLDER = re.compile(r"(?:^|/)_|\b(?:NAME|ROOM|BUILD)")
_NAME = re.compile(r"^(?:\w+::)*(k[A-Z]\w+|[A-Z][a-z]+[A-Z]\w+)$")
# What programs write while they run, seen from the root or from where they run.
_WRITTEN = re.compile(r"^(?:build|run|logs|targets)/")


def rooms(paths):
    """Top-level folders, the rooms of the table of includes, and each folder of kernels and shard_server."""
    folders = {parent.as_posix() for path in paths for parent in path.parents if parent.as_posix() != "."}
    return sorted(
        folder
        for folder in folders
        if not folder.startswith(".")
        and ("/" not in folder or folder in MAY_INCLUDE or re.match(r"^(kernels|shard_server)/\w+$", folder))
    )


def missing(paths):
    there = {path.as_posix() for path in paths}
    return [f"{room}: has no README.md" for room in rooms(paths) if f"{room}/README.md" not in there]


def _exists(target, readme, there):
    """From the README's folder, from the root, or further down in its room; a bare file name may stand anywhere."""
    folder = readme.rpartition("/")[0]
    target = target.rstrip("/")
    if target in there or f"{folder}/{target}" in there:
        return True
    room = f"{folder}/" if folder and "/" in target else ""
    return any(path.startswith(room) and path.endswith("/" + target) for path in there)


def errors_in(readme, text, there, words):
    """there: all files and folders; words: all identifiers of the C++ files."""
    for number, line in enumerate(text.splitlines(), 1):
        for quoted in _QUOTED.findall(line):
            name = _NAME.match(quoted)
            if _FILE.match(quoted) or _FOLDER.match(quoted):
                elsewhere = quoted.startswith("/") or _WRITTEN.match(quoted) or _PLACEHOLDER.search(quoted)
                if not elsewhere and not _exists(quoted, readme, there):
                    yield f"{readme}:{number}: there is no {quoted}"
            elif name and name[1] not in words:
                yield f"{readme}:{number}: nothing is named {quoted}"


def check(root):
    paths = tree_files(root)
    there = {path.as_posix() for path in paths} | {parent.as_posix() for path in paths for parent in path.parents}
    words = set(re.findall(r"\w+", "\n".join(read_files(root, CPP_SUFFIXES | {".def"}).values())))
    found = missing(paths)
    for readme, text in read_files(root, {".md"}).items():
        found += errors_in(readme, text, there, words)
    return found
