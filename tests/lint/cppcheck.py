"""cppcheck has nothing to say about what is compiled into the programs; what it gets wrong is in
cppcheck_suppressions.txt with a reason. It reads no library's headers, so it is quick, and it does not understand the
tests' macros."""

import subprocess

ROOMS = ("common", "kernels", "shard_server", "coordinator", "deploy")
SUPPRESSIONS = "tests/lint/cppcheck_suppressions.txt"


def errors_in(root, paths, suppressions):
    done = subprocess.run(
        [
            "cppcheck",
            "--enable=warning,performance,portability",
            "--std=c++20",
            "--language=c++",
            "--inline-suppr",
            "--quiet",
            "--error-exitcode=3",
            f"--suppressions-list={suppressions}",
            "--template={file}:{line}: {id}: {message}",
            "-I.",
            "-j2",
            *paths,
        ],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    found = [line for line in done.stderr.splitlines() if line.strip()]
    return found if found or done.returncode == 0 else [f"cppcheck ended with {done.returncode}: {done.stdout[-800:]}"]


def check(root):
    return errors_in(root, ROOMS, root / SUPPRESSIONS)
