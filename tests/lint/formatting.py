"""clang-format has nothing to change in any C++ file, by the repository's .clang-format."""

import pathlib
import re
import subprocess
import sys

from source_files import CPP_SUFFIXES, source_files

_COMPLAINT = re.compile(r"^(.*?:\d+):\d+: error:")


def clang_format():
    """The pinned one of the test environment, beside this Python."""
    return pathlib.Path(sys.executable).parent / "clang-format"


def errors_in(root, paths):
    """One complaint a file: its first line that would change."""
    if not paths:
        return []
    done = subprocess.run(
        [clang_format(), "--dry-run", "--Werror", f"--style=file:{root}/.clang-format", *paths],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    first = {}
    for line in done.stderr.splitlines():
        match = _COMPLAINT.match(line)
        if match:
            path, _, number = match[1].rpartition(":")
            first.setdefault(path, f"{path}:{number}: not as clang-format writes it")
    if done.returncode != 0 and not first:
        return [f"clang-format: {done.stderr.strip()}"]
    return list(first.values())


def check(root):
    return errors_in(root, [str(path) for path in source_files(root, CPP_SUFFIXES)])
