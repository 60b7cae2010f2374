"""The suites of tests/run, as data: what each needs built, how it runs, and when. A new one is an entry of SUITES."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import typing

import count
from build import REPOSITORY, build, jobs, preset_dir
from fuzz import fuzzing

VENV = REPOSITORY / "build" / "venv"


@dataclasses.dataclass(frozen=True)
class Build:
    """Programs of a CMake preset: all of them, these targets, or those of the ctest tests that match."""

    preset: str
    targets: tuple = ()
    tests: str = ""

    def run(self, terminal, stop):
        # A test program is named as its test.
        names = (lambda: test_names(self.preset, self.tests)) if self.tests else self.targets
        build(terminal, stop, names, self.preset)


def test_names(preset, *patterns):
    """The ctest tests of a configured preset that match all of the expressions."""
    command = ["ctest", "--preset", preset, "--show-only=json-v1"]
    listed = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True).stdout
    names = [test["name"] for test in json.loads(listed)["tests"]]
    return [name for name in names if all(re.search(pattern, name) for pattern in patterns)]


@dataclasses.dataclass(frozen=True)
class Suite:
    name: str
    run: typing.Callable  # (the options of tests/run) -> count.Count
    build: Build | None = Build("release")
    only_long: bool = False  # not a part of a plain tests/run


def test_environment(options):
    """Prometheus' tools are found; with --long, tests that draw cases at random draw more of them."""
    tools = REPOSITORY / "build" / "tools" / "prometheus"
    return dict(
        os.environ,
        PATH=f"{tools}{os.pathsep}{os.environ['PATH']}",
        KRAIT_TEST_LONG="1" if options.long else "",
    )


def ctest(preset="release", tests="", draws_more=True):
    """C++ tests of a preset, those that match. `draws_more`: --long means more to them."""

    def run(options):
        folder = preset_dir(preset) / "reports" / "unit"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        command = ["ctest", "--preset", preset, f"-j{jobs()}", "--output-junit", str(folder / "ctest.xml")]
        command += [] if options.long and draws_more else ["-LE", "^long$"]
        if options.k or tests:
            names = test_names(preset, tests, options.k or "")
            command += ["-R", f"^({'|'.join(names) or 'none'})$", "--no-tests=ignore"]
        environment = dict(test_environment(options), GTEST_OUTPUT=f"xml:{folder}/gtest/", GTEST_COLOR="no")
        environment["KRAIT_TEST_LONG"] = environment["KRAIT_TEST_LONG"] if draws_more else ""
        code = subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode
        return count.of_ctest(folder / "ctest.xml", folder / "gtest").including_exit(code, "ctest")

    return run


def pytest(name, glob, without=""):
    """Python tests: the files of tests/ that match one pattern and not the other."""

    def run(options):
        report = preset_dir("release") / "reports" / f"{name}.xml"
        report.parent.mkdir(parents=True, exist_ok=True)
        report.unlink(missing_ok=True)
        files = sorted(path for path in (REPOSITORY / "tests").glob(glob) if not path.match(without or "-"))
        command = [VENV / "bin" / "python", "-X", "utf8", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-ra"]
        command += ["--durations=5", "--rootdir", REPOSITORY / "tests", f"--junitxml={report}", *files]
        command += ["-k", options.k] if options.k else []
        environment = dict(
            test_environment(options),
            KRAIT_TEST_BUILD_DIR=os.environ.get("KRAIT_TEST_BUILD_DIR", str(preset_dir("release"))),
        )
        code = subprocess.run([str(word) for word in command], cwd=REPOSITORY, env=environment, check=False).returncode
        return count.of_pytest(report).including_exit(code if code != 5 or not options.k else 0, f"pytest {name}")

    return run


# Where threads meet; the other rooms have none, or leave them to these.
THREADED = (
    "^(unit_(cluster|common_transport|common_metrics|kernels_device|coordinator_(api|http|requests)|"
    "shard_server_(collectives|scheduler|service))|conformance_collectives)$"
)

SUITES = (
    Suite("lint", pytest("lint", "lint/test_*.py")),  # built first: the build knows what is compiled, and how
    Suite("whole_tree", pytest("whole_tree", "lint/whole_tree.py"), only_long=True),
    Suite("unit", ctest()),
    # The launcher's tests need no built daemons and tell of faults that would drown in the cluster's.
    Suite("launcher", pytest("launcher", "cluster/test_launcher*.py"), build=None),
    Suite("cluster", pytest("cluster", "cluster/test_*.py", without="test_launcher*.py")),
    Suite("transformers", pytest("transformers", "reference/test_transformers.py"), only_long=True),
    Suite("templates", pytest("templates", "reference/test_templates.py"), only_long=True),
    Suite("tokenizers", pytest("tokenizers", "reference/test_tokenizers.py"), only_long=True),
    Suite("fuzz", fuzzing.run, Build("fuzz", targets=("krait_fuzz",))),
    # Under sanitizers --long draws no more cases: tests/support/draws.h says how many.
    Suite("address", ctest("asan", draws_more=False), Build("asan", tests="."), only_long=True),
    Suite("thread", ctest("tsan", THREADED, draws_more=False), Build("tsan", tests=THREADED), only_long=True),
)
