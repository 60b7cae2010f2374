"""krait-bench, run once for each shape, link and mode."""

import json
import pathlib
import shlex
import subprocess
import time

import network

MEMORY = None  # no link: both ranks share memory
_PORT = 7100


class Bench:
    """Runs krait-bench; what one rank alone reaches is measured before the modes of each link."""

    def __init__(self, options):
        self._program = pathlib.Path(options.build_dir) / "bin" / "krait-bench"
        self._common = (
            f"--load prefill --json --max-step-ms 60000 --dtype {options.dtype} --threads {options.threads}".split()
        )
        self._defaults = {"--prompt": str(options.prompt), "--repeat": str(options.repeat)}

    def measure_shape(self, shape, links, modes):
        """One record for each mode at each link and without one, and those of one rank. Links are texts of --links."""
        records = []
        long_alone = {}  # by the mode's size of prompt: too long to be measured again for each link
        for text in [MEMORY, *links]:
            link = text if text is MEMORY else _gbit(text, records)
            alone = {}
            for name, mode_options in modes:
                options = shlex.split(mode_options)
                sizes = tuple(self._sizes(options).items())
                if self._sizes(options)["--prompt"] == self._defaults["--prompt"]:
                    known = alone
                else:
                    known = long_alone
                if sizes not in known:
                    known[sizes] = self._record(shape, link, "one rank", ["--ranks", "1", *_flat(dict(sizes))])
                    records.append(known[sizes])
                record = self._record(shape, link, name, ["--ranks", "2", *self._without_sizes(options), *_flat(dict(sizes))])
                record["times_one_rank"] = record["tokens_per_s"] / known[sizes]["tokens_per_s"]
                records.append(record)
        return records

    def _sizes(self, options):
        sizes = dict(self._defaults)
        for name, value in zip(options, options[1:]):
            if name in sizes:
                sizes[name] = value
        return sizes

    def _without_sizes(self, options):
        kept, skip = [], False
        for word in options:
            if not skip and word not in self._defaults:
                kept.append(word)
            skip = word in self._defaults
        return kept

    def _record(self, shape, link, mode, words):
        begin = time.monotonic()
        if link is MEMORY or mode == "one rank":
            report = self._run(shape, words)
        else:
            with network.linked(link) as names:
                there = ["--collectives-address", f"{network.ADDRESSES[0]}:{_PORT}"]
                for name in names:
                    there += ["--network", name]
                report = self._run(shape, [*words, *there])
        (phase,) = report["phases"]
        profile = phase["profile"]
        waited = sum(ms for name, ms in profile["ms"].items() if name.endswith("_wait"))
        record = {
            "shape": shape,
            "link_gbit": link,
            "mode": mode,
            "options": shlex.join(words),
            "prompt": report["prompt"],
            "tokens_per_s": phase["prompt_tokens_per_s"],
            "runs": phase["runs"]["prompt_tokens_per_s"],
            "sent_bytes_per_token": profile["sent_bytes"] / profile["rows_per_step"],
            "wait_share": waited / profile["step_ms"],
            "cores_used": phase["cores_used"],
            "report": report,
        }
        where = "memory" if link is MEMORY else f"{link:g} Gbit/s"
        print(
            f"{shape} {where} {mode}, {report['prompt']} tokens: {record['tokens_per_s']:.0f} tokens/s, "
            f"waiting {record['wait_share']:.0%}, {time.monotonic() - begin:.1f} s",
            flush=True,
        )
        return record

    def _run(self, shape, words):
        command = [str(self._program), "--shape", shape, *self._common, *words]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"links: {shlex.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)


def _gbit(text, records):
    """A link's speed: as it stands, or by what the mode's bytes are to take beside its computation."""
    mode, colon, percent = text.partition(":")
    if not colon:
        return float(text)
    for record in records:
        if record["mode"] == mode and record["link_gbit"] is MEMORY:
            share = float(percent) / 100
            wire_s = share / (1 - share) / record["tokens_per_s"]
            return round(record["sent_bytes_per_token"] * 8 / wire_s / 1e9, 3)
    raise SystemExit(f"links: '{text}' names no mode that is measured")


def _flat(sizes):
    return [word for pair in sizes.items() for word in pair]
