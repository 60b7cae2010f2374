"""The stages of tests/run after the packages: build, virtual environment, C++ and Python tests, the closing count."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "deploy" / "launcher"), str(REPOSITORY / "tests")]

import count  # noqa: E402
from build import PRESET_DIR, build, jobs  # noqa: E402
from stop import Stop, StopRequested  # noqa: E402
from terminal import Failure, Terminal  # noqa: E402

VENV = REPOSITORY / "build" / "venv"
REQUIREMENTS = REPOSITORY / "tests" / "requirements.txt"
REPORTS = PRESET_DIR / "reports"
PYTHON_SUITES = ("lint", "launcher", "cluster")


def parse(arguments):
    p = argparse.ArgumentParser(
        prog="tests/run", allow_abbrev=False, description="Build everything and run every test."
    )
    p.add_argument("--long", action="store_true", help="also what takes longer")
    p.add_argument("--only", action="append", choices=["unit", *PYTHON_SUITES], help="these suites only; repeatable")
    p.add_argument("-k", metavar="WORDS", help="Python tests that match, as pytest's -k; C++ tests, as ctest's -R")
    return p.parse_args(arguments)


class Stages:
    """Runs stages one after the other and remembers how long each took."""

    def __init__(self, terminal):
        self._terminal = terminal
        self.times = [("packages", float(os.environ.get("KRAIT_TEST_INSTALL_S", "0")))]

    def run(self, name, work):
        self._terminal.say(name, "begins")
        began = time.monotonic()
        try:
            return work()
        finally:
            self.times.append((name, time.monotonic() - began))


def start_venv():
    """A process that makes the virtual environment while the compilers run; None when it is there."""
    mark = VENV / "installed.txt"
    if mark.exists() and mark.read_text(encoding="utf-8") == REQUIREMENTS.read_text(encoding="utf-8"):
        return None
    shutil.rmtree(VENV, ignore_errors=True)
    script = (
        f'/usr/bin/python3 -m venv "{VENV}" && '
        f'"{VENV}/bin/pip" install -q --disable-pip-version-check -r "{REQUIREMENTS}" && cp "{REQUIREMENTS}" "{mark}"'
    )
    return subprocess.Popen(
        ["bash", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish_venv(process):
    if process is None:
        return
    output, _ = process.communicate(timeout=600)
    if process.returncode != 0:
        raise Failure("the Python test packages cannot be installed:\n" + output[-3000:])


def test_environment(options):
    """Prometheus' tools are found; with --long, tests that draw cases at random draw more of them."""
    tools = REPOSITORY / "build" / "tools" / "prometheus"
    return dict(
        os.environ,
        PATH=f"{tools}{os.pathsep}{os.environ['PATH']}",
        KRAIT_TEST_LONG="1" if options.long else "",
    )


def run_unit(options):
    folder = REPORTS / "unit"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = ["ctest", "--preset", "release", f"-j{jobs()}", "--output-junit", str(folder / "ctest.xml")]
    command += [] if options.long else ["-LE", "^long$"]
    command += ["-R", options.k, "--no-tests=ignore"] if options.k else []
    environment = dict(test_environment(options), GTEST_OUTPUT=f"xml:{folder}/gtest/", GTEST_COLOR="no")
    code = subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode
    return count.of_ctest(folder / "ctest.xml", folder / "gtest").including_exit(code, "ctest")


def run_python(suite, options):
    report = REPORTS / f"{suite}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    folder = REPOSITORY / "tests" / ("lint" if suite == "lint" else "cluster")
    # The launcher's tests need no built daemons and tell of faults that would drown in the cluster's.
    files = {"lint": [folder], "launcher": [folder / "test_launcher.py"]}.get(
        suite, sorted(set(folder.glob("test_*.py")) - {folder / "test_launcher.py"})
    )
    command = [
        VENV / "bin" / "python",
        "-X",
        "utf8",
        "-B",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-ra",
        "--durations=5",
        "--rootdir",
        REPOSITORY / "tests",
        f"--junitxml={report}",
        *files,
    ]
    command += ["-k", options.k] if options.k else []
    environment = dict(
        test_environment(options),
        KRAIT_TEST_BUILD_DIR=os.environ.get("KRAIT_TEST_BUILD_DIR", str(PRESET_DIR)),
    )
    code = subprocess.run([str(word) for word in command], cwd=REPOSITORY, env=environment, check=False).returncode
    return count.of_pytest(report).including_exit(code if code != 5 or not options.k else 0, f"pytest {suite}")


def run_suites(options, stages, terminal, stop):
    total = count.Count()
    for suite in options.only or ("lint", "unit", "launcher", "cluster"):
        stop.check()
        work = (lambda: run_unit(options)) if suite == "unit" else (lambda s=suite: run_python(s, options))
        found = stages.run(suite, work)
        if not options.k and found.passed + found.failed == 0:
            found.failed += 1
            found.notes.append(f"{suite}: no test ran")
        terminal.say(suite, str(found))
        total = total + found
    return total


def main(arguments):
    options = parse(arguments)
    terminal = Terminal(sys.stdout)
    stop = Stop()
    stages = Stages(terminal)
    venv = start_venv()
    total = count.Count()
    try:
        stages.run("build", lambda: build(terminal, stop, targets=()))
        stages.run("venv", lambda: finish_venv(venv))
        total = run_suites(options, stages, terminal, stop)
    except Failure as failure:
        terminal.say("failed", str(failure))
        total.failed += 1
    except StopRequested:
        terminal.say("stopped", "by a signal, before every test had run")
        total.failed += 1
    finally:
        if venv is not None and venv.poll() is None:
            venv.terminate()
            venv.wait()
    for note in total.notes:
        print("  " + note)
    print(
        "stages: "
        + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in stages.times)
        + f"; together {sum(seconds for _, seconds in stages.times):.0f} s"
    )
    print(total, flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
