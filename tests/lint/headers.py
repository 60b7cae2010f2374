"""Each header compiles alone, without the precompiled one: whoever includes it need not know what it needs."""

import concurrent.futures
import os
import subprocess

import compiled
from source_files import source_files


def flags_for(header, units):
    """Those of a file of the same room: of the one whose folder has most in common with the header's."""

    def common(unit):
        return len(os.path.commonprefix([header.split("/")[:-1], unit.path.split("/")[:-1]]))

    return max(units, key=lambda unit: (common(unit), len(unit.flags))).flags


def _error(root, header, flags):
    done = subprocess.run(
        ["c++", "-fsyntax-only", "-w", "-x", "c++", *flags, "-include", header, "/dev/null"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode == 0:
        return None
    first = next((line for line in done.stderr.splitlines() if "error: " in line), done.stderr.strip()[-300:])
    return f"{header}: does not compile alone: {first}"


def errors_in(root, headers, units, processes=2):
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        found = pool.map(lambda header: _error(root, header, flags_for(header, units)), headers)
        return [error for error in found if error]


def check(root):
    headers = [path.as_posix() for path in source_files(root, {".h"})]
    return errors_in(root, headers, compiled.units(root, compiled.build_folder(root)))
