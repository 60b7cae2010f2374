"""The files that the lints read: those of the working tree that git would keep, so build output never counts."""

import pathlib
import subprocess

CPP_SUFFIXES = {".h", ".cc", ".cu", ".cuh"}


def source_files(root, suffixes):
    """Sorted paths relative to root, whether committed yet or not."""
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
    return sorted({path for path in paths if path.suffix in suffixes and (root / path).is_file()})
