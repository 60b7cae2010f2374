"""Virtual environments of this folder's tests, each with what a file beside this one pins."""

import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build" / "environments"


def python_with(name):
    """The Python that has the packages of requirements_NAME.txt; they are installed the first time."""
    requirements, folder = HERE / f"requirements_{name}.txt", FOLDER / name
    mark = folder / "installed.txt"
    if not mark.exists() or mark.read_text(encoding="utf-8") != requirements.read_text(encoding="utf-8"):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["/usr/bin/python3", "-m", "venv", folder], check=True)
        pip = [folder / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "-r", requirements]
        subprocess.run(pip, check=True, timeout=600)
        shutil.copy(requirements, mark)
    return folder / "bin" / "python"
