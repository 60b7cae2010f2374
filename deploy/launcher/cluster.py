"""A coordinator and its groups of shard servers on this machine: started, awaited, watched, stopped."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time

import leftovers
import sample
from daemon import Daemon, url_host, WATCH
from options import REPOSITORY
from ports import metrics_ports
from terminal import counted, Failure

START_TIMEOUT_S = 60.0
# Patience with who has been asked to end: ample, because the machine may be busy and a kill cuts answers short.
DRAIN_MARGIN_S = 15.0  # for the coordinator, from giving up its open requests on
SHARD_GRACE_S = 15.0  # once the coordinator is gone, leaders end its requests by themselves
AT_ONCE_S = 10.0  # after the second signal: a daemon gives itself half of it
ASK_AGAIN_S = 0.2
MAX_ANSWER_BYTES = 1 << 20
MAX_WARNINGS = 40  # of a run on the terminal; the logs have all
MAX_WARNING_CHARS = 1000


class Cluster:
    def __init__(self, options, terminal, stop):
        self._options, self._terminal, self._stop = options, terminal, stop
        self._state = "starting"
        self.keep_logs = False  # set where a run went wrong
        self.ended_badly = False  # a process did not end well when it was asked to
        self._warned = set()
        self._answered = 0  # signals that the stop is the answer to: one, or none where it began by itself
        leftovers.sweep_run_dirs()
        leftovers.sweep_segments()
        self.run_dir, self._created = leftovers.make_run_dir(options.run_dir)
        self._start_janitor()
        self.daemons = self._plan()

    # ---- what is started

    def _plan(self):
        o = self._options
        bin_dir = (o.build_dir or REPOSITORY / "build" / "release") / "bin"
        groups = [f"g{index}" for index in range(o.groups)]
        shared = [
            "--run-dir",
            self.run_dir,
            "--model",
            o.model,
            "--metrics-host",
            o.metrics_host,
            WATCH,
            os.getpid(),
        ]
        ports = metrics_ports(o, self._terminal, 1 + o.ranks * o.groups)
        command = [
            bin_dir / "krait-coordinator",
            *shared,
            "--host",
            o.host,
            "--port",
            o.port,
            "--metrics-port",
            next(ports),
        ]
        for group in groups:
            command += ["--group", group]
        command += ["--drain-seconds", o.grace]
        command += _given(o, "served_model_name", "tokenizer", "chat_template", "request_timeout", "api_key_file")
        command += o.coordinator_arg
        daemons = [Daemon(command, self.run_dir, "coordinator")]
        for index, group in enumerate(groups):
            for rank in range(o.ranks):
                command = [bin_dir / "krait-shard", *shared, "--group", group, "--rank", rank, "--world", o.ranks]
                command += ["--host-ranks", o.ranks * o.groups, "--host-index", index * o.ranks + rank, "--dtype", o.dtype, "--threads", o.threads]
                command += ["--metrics-port", next(ports)]
                command += ["--drain-seconds", o.grace]
                command += _given(o, "served_model_name", "weights", "prefill_split", "shares", "slots", "max_queue")
                command += _given(o, "collectives", "collectives_plan", "max_step_ms") + o.shard_arg
                daemons.append(Daemon(command, self.run_dir, "shard", group, rank))
        return daemons

    @property
    def coordinator(self):
        return self.daemons[0]

    @property
    def url(self):
        return f"http://{url_host(self._options.host)}:{self.coordinator.ready['port']}"

    @property
    def metrics_url(self):
        return self.coordinator.record(self._options.metrics_host)["metrics_url"]

    # ---- starting

    def start(self):
        """Returns when every group serves. Raises Failure naming the process that died, or what was waited for."""
        environment = dict(os.environ)
        for daemon in self.daemons:
            daemon.start(environment)
            self.watch(daemon.pid)
        self._terminal.say("start", ", ".join(f"{d.name} (pid {d.pid})" for d in self.daemons))
        self._record()
        last = time.monotonic() + self._options.ready_timeout
        limit = min(time.monotonic() + START_TIMEOUT_S, last)
        while not all([daemon.read_ready() for daemon in self.daemons]):
            silent = [daemon.name for daemon in self.daemons if daemon.ready is None]
            self._step("start", "waiting for " + ", ".join(silent), limit)
        self._record()
        while (waits_for := self._ask_ready()) is not None:
            self._step("load", waits_for, last)
        self._state = "ready"
        self._record()
        self.tell_warnings()

    def _step(self, stage, text, limit):
        for daemon in self.daemons:
            if not daemon.alive:
                raise Failure(daemon.obituary())
        if time.monotonic() > limit:
            raise Failure(
                f"gave up: {text}\n" + "\n".join(f"  {d.name}: {d.log}\n{d.last_words()}" for d in self.daemons)
            )
        self.tell_warnings()
        self._terminal.progress(stage, text)
        self._stop.pause(0.03)

    def _ask_ready(self):
        """None when ready, else what the coordinator waits for."""
        try:
            with self._stop.interruptible():
                status, body = self._get("/ready", timeout_s=5)
            return None if status == 200 else _waits_for(body)
        except (OSError, http.client.HTTPException) as error:
            return f"the coordinator does not answer yet ({error})"

    def _get(self, path, timeout_s, headers=None):
        """(status, body) of the coordinator's answer."""
        host = url_host(self._options.host).strip("[]")
        connection = http.client.HTTPConnection(host, self.coordinator.ready["port"], timeout=timeout_s)
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.read(MAX_ANSWER_BYTES)
        finally:
            connection.close()

    # ---- running

    def new_deaths(self):
        """Processes that ended since the last call. What was warned of since then goes to the terminal."""
        self.tell_warnings()
        dead = [daemon for daemon in self.daemons if not daemon.alive and not daemon.death_told]
        for daemon in dead:
            daemon.death_told = True
        if dead:
            leftovers.sweep_segments()
            if self._state == "ready":
                self._state = "degraded"
            try:
                self._record()
            except Failure as failure:  # what runs goes on
                self._terminal.say("note", str(failure))
        return dead

    def tell_warnings(self):
        """What the daemons' logs warn of goes to the terminal, each thing once: two that differ in numbers are one, as
        all ranks warn of their model and who waits says so again and again."""
        for daemon in self.daemons:
            for text in daemon.new_warnings():
                kind = re.sub(r"\d+", "", text)
                if kind in self._warned or len(self._warned) > MAX_WARNINGS:
                    continue
                self._warned.add(kind)
                full = len(self._warned) > MAX_WARNINGS
                told = "further kinds of warnings stand in the logs only" if full else text[:MAX_WARNING_CHARS]
                self._terminal.say("warning", f"{daemon.name}: {told}")

    @property
    def any_died(self):
        return any(daemon.death_told for daemon in self.daemons)

    def _record(self):
        """cluster.json and Prometheus' list of targets. Raises Failure where the disk takes no more."""
        o = self._options
        started = self.coordinator.ready is not None
        document = {
            "state": self._state,
            "launcher_pid": os.getpid(),
            "run_dir": str(self.run_dir),
            "url": self.url if started else None,
            "metrics_url": self.metrics_url if started else None,
            "model": str(o.model),
            "dtype": o.dtype,
            "ranks": o.ranks,
            "groups": o.groups,
            "threads": o.threads,
            "processes": [daemon.record(o.metrics_host) for daemon in self.daemons if daemon.pid],
        }
        targets = [
            {
                "targets": [f"{url_host(o.metrics_host)}:{d.ready['metrics_port']}"],
                "labels": {"role": d.role, "group": d.group or "", "rank": "" if d.rank is None else str(d.rank)},
            }
            for d in self.daemons
            if d.ready
        ]
        leftovers.write_record(self.run_dir, "cluster.json", document)
        leftovers.write_record(self.run_dir, "prometheus-targets.json", targets)

    # ---- stopping

    def shut_down(self):
        """Coordinator first, so that open requests can finish on the ranks; then those; what does not go is killed.
        Returns where the logs are kept, or None."""
        self._state = "stopping"
        self._answered = min(1, self._stop.count)
        with contextlib.suppress(Failure):  # The run directory is gone or full: that must not keep processes alive.
            self._record()
        if not self._in_haste and (count := self._open_requests()):
            self._terminal.say(
                "stop",
                f"{counted(count, 'open request')} may finish, for up to {self._options.grace:g} s; "
                f"{'another' if self._answered else 'a'} Ctrl-C ends {'it' if count == 1 else 'them'} at once",
            )
        self._end([self.coordinator], self._options.grace + DRAIN_MARGIN_S)
        self._end(self.daemons[1:], SHARD_GRACE_S)
        self.tell_warnings()
        leftovers.sweep_segments()
        kept = self._keep_logs() if self.keep_logs or self.any_died or self.ended_badly else None
        leftovers.clear_run_dir(self.run_dir, self._created and kept is None)
        self._janitor.stdin.close()
        self._janitor.wait()
        return kept

    @property
    def _in_haste(self):
        """Somebody has asked again since the stop began."""
        return self._stop.count > self._answered

    def _open_requests(self):
        """How many requests the coordinator would have to wait for; None where it does not say."""
        if not self.coordinator.alive or self.coordinator.ready is None:
            return None
        try:
            _, body = self._get("/cluster", 2, sample.key_header(self._options))
            return int(json.loads(body)["coordinator"]["open_requests"])
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            return None

    def _end(self, daemons, patience_s):
        """SIGTERM, at which a daemon finishes what is open; again in haste, at which it ends at once; then SIGKILL."""
        running = [daemon for daemon in daemons if daemon.alive]
        for daemon in running:
            daemon.send(signal.SIGTERM)
        limit, ask_again = time.monotonic() + patience_s, None
        while any(daemon.alive for daemon in running) and time.monotonic() < limit:
            if self._in_haste and time.monotonic() >= (ask_again or 0):
                # More than once: signals that a process has not taken yet are one to it.
                for daemon in running:
                    daemon.send(signal.SIGTERM)
                limit = limit if ask_again else min(limit, time.monotonic() + AT_ONCE_S)
                ask_again = time.monotonic() + ASK_AGAIN_S
            time.sleep(0.02)
        for daemon in running:
            if daemon.alive:
                self._terminal.say("stop", f"{daemon.name} (pid {daemon.pid}) did not stop in time and is killed")
                daemon.send(signal.SIGKILL)
                daemon.process.wait()
                self.ended_badly = True
            elif daemon.process.returncode not in (0, -signal.SIGTERM):
                self._terminal.say("died", daemon.obituary())
                self.ended_badly = True

    def _keep_logs(self):
        if self._created:
            leftovers.keep_logs(self.run_dir)
            with contextlib.suppress(Failure):  # a dead janitor removes nothing
                self._tell_janitor({"run_dir": str(self.run_dir), "created": False})
        return self.run_dir / "logs"

    # ---- the janitor

    def _start_janitor(self):
        script = REPOSITORY / "deploy" / "launcher" / "janitor.py"
        self._janitor = subprocess.Popen(
            [sys.executable, "-X", "utf8", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        self._janitor.stdout.readline()
        self._tell_janitor({"run_dir": str(self.run_dir), "created": self._created})

    def watch(self, pid):
        self._tell_janitor({"watch": pid})

    def _tell_janitor(self, order):
        try:
            self._janitor.stdin.write(json.dumps(order) + "\n")
            self._janitor.stdin.flush()
        except BrokenPipeError:
            raise Failure("the launcher's janitor process has died") from None


def _waits_for(body):
    """The coordinator's 503 from /ready in words, such as "g0 is loading: rank 1 of 2"."""
    text = body.decode(errors="replace").strip()
    try:
        groups = json.loads(text)["groups"]
        waiting = [group for group in groups if group["state"] != "serving"]
        return ", ".join(f"{g['name']} is {g['state']}" + (f": {g['detail']}" if g["detail"] else "") for g in waiting)
    except (ValueError, KeyError, TypeError):
        return text[:300]


def _given(options, *names):
    words = []
    for name in names:
        if getattr(options, name) is not None:
            words += ["--" + name.replace("_", "-"), getattr(options, name)]
    return words
