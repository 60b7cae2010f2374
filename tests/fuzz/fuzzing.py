"""The fuzzers of the preset `fuzz`: each over its corpus for some seconds, and once with a fault planted that it must find."""

import os
import shutil
import subprocess
import time

import count
from build import REPOSITORY, jobs, preset_dir

FOLDER = REPOSITORY / "tests" / "fuzz"
SMOKE_S = 3
LONG_S = 60
CANARY_S = 240  # at most; most planted faults are found in a second or two, one in a hundred takes a minute
INPUT_S = 10  # one input that takes longer is a find
MEMORY_MIB = 1024  # so is one that takes more


class Fuzzer:
    """One run of one fuzzer, beside others."""

    def __init__(self, name, seconds, planted):
        self.name, self.planted = name, planted
        self.case = f"{name} finds what is planted" if planted else name
        self.work = preset_dir("fuzz") / ("canary" if planted else "finds") / name
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / "new").mkdir(parents=True)
        inputs = [FOLDER / kind / name for kind in ("corpus", "found")]
        command = [
            program(name),
            f"-max_total_time={seconds}",
            f"-timeout={INPUT_S}",
            f"-rss_limit_mb={MEMORY_MIB}",
            f"-artifact_prefix={self.work}/",
            "-print_final_stats=1",
            self.work / "new",
            *(folder for folder in inputs if folder.is_dir()),
        ]
        self.log = self.work / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(planted),
            )
        self.until = time.monotonic() + seconds + 60

    def running(self):
        if self.process.poll() is None and time.monotonic() > self.until:
            self.process.kill()
            self.process.wait()
        return self.process.poll() is None

    def finds(self):
        kinds = ("crash", "timeout", "oom", "leak")
        return sorted(path for path in self.work.iterdir() if path.name.split("-")[0] in kinds)

    def verdict(self):
        """What is wrong, or nothing."""
        finds, text = self.finds(), self.log.read_text(encoding="utf-8", errors="replace")
        if not self.planted:
            if self.process.returncode == 0 and "stat::number_of_executed_units" in text:
                return ""
            return "".join(f"\n  {path}\n  replay: {program(self.name)} {path}" for path in finds) or text[-2000:]
        if self.process.returncode == 0 or not finds:
            return "it was not found"
        if "INITED" not in text:
            return "the corpus itself holds it"
        # It is the planted fault and nothing else that ends the program on that input.
        ends = [
            subprocess.run([program(self.name), finds[0]], env=environment(there), capture_output=True, check=False)
            for there in (True, False)
        ]
        return "" if ends[0].returncode != 0 and ends[1].returncode == 0 else f"another fault: {finds[0]}"


def program(name):
    return preset_dir("fuzz") / "bin" / f"fuzz_{name}"


def environment(planted):
    kept = {key: value for key, value in os.environ.items() if key != "KRAIT_FUZZ_CANARY"}
    return dict(kept, **({"KRAIT_FUZZ_CANARY": "1"} if planted else {}))


def names():
    return sorted(path.name.removesuffix("_fuzz.cc") for path in FOLDER.glob("*_fuzz.cc"))


def run(options):
    seconds = LONG_S if options.long else SMOKE_S
    wanted = [name for name in names() if not options.k or options.k in name]
    waiting = [(name, CANARY_S, True) for name in wanted] + [(name, seconds, False) for name in wanted]
    total, running = count.Count(), []
    while waiting or running:
        while waiting and len(running) < jobs():
            running.append(Fuzzer(*waiting.pop(0)))
        time.sleep(0.05)
        for fuzzer in [fuzzer for fuzzer in running if not fuzzer.running()]:
            running.remove(fuzzer)
            wrong = fuzzer.verdict()
            total.add(f"fuzz: {fuzzer.case}", "failed" if wrong else "passed", wrong)
            print(f"  {fuzzer.case}: {wrong or _figures(fuzzer)}", flush=True)
    return total


def _figures(fuzzer):
    """What libFuzzer says at the end: inputs run, and the newest line of its progress (coverage, corpus)."""
    lines = fuzzer.log.read_text(encoding="utf-8", errors="replace").splitlines()
    runs = [line.split()[-1] for line in lines if line.startswith("stat::number_of_executed_units")]
    progress = [line for line in lines if line.startswith("#")]
    return f"{runs[0] if runs else '?'} inputs; {progress[-1] if progress else ''}"
