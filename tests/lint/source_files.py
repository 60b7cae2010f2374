"""The files that the lints read: those of the working tree that git would keep, so build output never counts."""

import pathlib
import subprocess

CPP_SUFFIXES = {".h", ".cc", ".inc", ".cu", ".cuh"}


def tree_files(root):
    """Sorted paths of all files, relative to root, whether committed yet or not."""
    listed = (
        subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .split("\0")
    )
    paths = (pathlib.Path(name) for name in listed if name)
    return sorted({path for path in paths if (root / path).is_file()})


def source_files(root, suffixes):
    return [path for path in tree_files(root) if path.suffix in suffixes]


def read_files(root, suffixes):
    """{path: text} of these, with paths as they are written in an #include."""
    return {path.as_posix(): (root / path).read_text(encoding="utf-8") for path in source_files(root, suffixes)}
