"""The stages of tests/run after the packages: build, virtual environment, C++ and Python tests, the closing count."""

import argparse
import os
import pathlib
import sys
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "deploy" / "launcher"), str(REPOSITORY / "tests")]

import count  # noqa: E402
import python_packages  # noqa: E402
from stop import Stop, StopRequested  # noqa: E402
from suites import SUITES, VENV  # noqa: E402
from terminal import Failure, Terminal  # noqa: E402

REQUIREMENTS = REPOSITORY / "tests" / "requirements.txt"


def parse(arguments):
    p = argparse.ArgumentParser(
        prog="tests/run", allow_abbrev=False, description="Build everything and run every test."
    )
    p.add_argument("--long", action="store_true", help="also what takes longer")
    names = [suite.name for suite in SUITES]
    p.add_argument("--only", action="append", choices=names, help="these suites only; repeatable")
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


def finish_venv(process):
    problem = python_packages.finish(process, timeout_s=600)
    if problem:
        raise Failure("the Python test packages cannot be installed:\n" + problem)


def chosen(options):
    if options.only:
        return [suite for suite in SUITES if suite.name in options.only]
    return [suite for suite in SUITES if options.long or not suite.only_long]


class Builds:
    """Builds what suites need, each thing once."""

    def __init__(self, stages, terminal, stop):
        self._stages, self._terminal, self._stop = stages, terminal, stop
        self._done = {None}

    def run(self, wanted):
        if wanted not in self._done:
            self._done.add(wanted)
            self._stages.run(f"build {wanted.preset}", lambda: wanted.run(self._terminal, self._stop))


def run_suites(suites, options, stages, terminal, stop, builds):
    total = count.Count()
    for suite in suites:
        stop.check()
        builds.run(suite.build)
        found = stages.run(suite.name, lambda made=suite: made.run(options))
        if not options.k and found.passed + found.failed == 0:
            found.failed += 1
            found.notes.append(f"{suite.name}: no test ran")
        terminal.say(suite.name, str(found))
        total = total + found
    return total


def main(arguments):
    options = parse(arguments)
    terminal = Terminal(sys.stdout)
    stop = Stop()
    stages = Stages(terminal)
    suites, builds = chosen(options), Builds(stages, terminal, stop)
    venv = python_packages.start(VENV, REQUIREMENTS)
    total = count.Count()
    try:
        # The first build before the first suite, whichever needs it: meanwhile the virtual environment is made.
        builds.run(next((suite.build for suite in suites if suite.build), None))
        stages.run("venv", lambda: finish_venv(venv))
        total = run_suites(suites, options, stages, terminal, stop, builds)
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
