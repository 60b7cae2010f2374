"""Virtual environments of pinned packages, each made once and made anew when its list changes."""

import shutil
import subprocess


def start(folder, requirements):
    """A process that makes the environment in `folder`; None when it is there."""
    mark = folder / "installed.txt"
    if mark.exists() and mark.read_text(encoding="utf-8") == requirements.read_text(encoding="utf-8"):
        return None
    shutil.rmtree(folder, ignore_errors=True)
    script = (
        f'/usr/bin/python3 -m venv "{folder}" && '
        f'"{folder}/bin/pip" install -q --disable-pip-version-check -r "{requirements}" && cp "{requirements}" "{mark}"'
    )
    return subprocess.Popen(
        ["bash", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(process, timeout_s):
    """Waits for it. Returns what went wrong, or nothing."""
    if process is None:
        return ""
    output, _ = process.communicate(timeout=timeout_s)
    return output[-3000:] or "pip failed" if process.returncode != 0 else ""


def make(folder, requirements, timeout_s):
    """Both: the environment is there when it returns. Returns what went wrong, or nothing."""
    return finish(start(folder, requirements), timeout_s)
