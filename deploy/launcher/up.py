"""The launcher behind deploy/up: build, start, wait, show, stay, stop. See deploy/README.md."""

import os
import signal
import subprocess
import sys
import time

import options as command_line
import ports
import sample
from build import build
from cluster import Cluster
from daemon import die_with_parent
from stop import Stop, StopRequested
from terminal import counted, Failure, Terminal

COMMAND_GRACE_S = 5.0


def _run_command(options, cluster, terminal, stop):
    """The user's command beside the cluster. Returns its exit code as a shell would tell it."""
    environment = dict(
        os.environ, KRAIT_URL=cluster.url, KRAIT_METRICS_URL=cluster.metrics_url, KRAIT_RUN_DIR=str(cluster.run_dir)
    )
    try:
        process = subprocess.Popen(options.command, env=environment, preexec_fn=die_with_parent)
    except OSError as error:
        raise Failure(f"cannot run {options.command[0]}: {error.strerror}") from None
    cluster.watch(process.pid)
    try:
        while process.poll() is None:
            _tell_deaths(cluster, terminal)
            stop.pause(0.02)
        _tell_deaths(cluster, terminal)
    finally:
        if process.poll() is None:
            _end_command(process)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _end_command(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(COMMAND_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tell_deaths(cluster, terminal):
    for daemon in cluster.new_deaths():
        terminal.say("died", daemon.obituary())


def _stay(cluster, terminal, stop):
    """Until a signal. A lost rank leaves the rest up: the coordinator tells clients, and metrics can be read."""
    while True:
        _tell_deaths(cluster, terminal)
        if not cluster.coordinator.alive:
            raise Failure("the coordinator is gone, so nothing can be served")
        stop.pause(0.1)


def _introduce(options, cluster, terminal):
    lines = [f"API      {cluster.url}/v1"]
    for daemon in cluster.daemons:
        lines.append(f"metrics  {daemon.record(options.metrics_host)['metrics_url']}  {daemon.name}")
    lines.append(f"logs     {cluster.run_dir}/logs")
    terminal.raw("".join(f"  {line}\n" for line in lines))


def _serve(options, cluster, terminal, stop):
    cluster.start()
    size = f"{counted(options.groups, 'group')} of {counted(options.ranks, 'rank')}"
    terminal.say("ready", f"{size}, {counted(options.threads, 'thread')} a rank, {options.dtype}")
    if options.command:
        return _run_command(options, cluster, terminal, stop)
    port = cluster.coordinator.ready["port"]
    with stop.interruptible():
        can_sample = sample.can_sample(options, port)
    if not can_sample:
        terminal.say("note", f"{options.model} has no tokenizer: only prompts of token ids are served")
    if can_sample and not options.no_sample:
        with stop.interruptible():
            error = sample.show(options, port, terminal.raw)
        if error:
            _tell_deaths(cluster, terminal)
            raise Failure(f"the sample completion failed: {error}")
    _introduce(options, cluster, terminal)
    terminal.raw("  Ctrl-C stops it.\n")
    return _stay(cluster, terminal, stop)


def _run_cluster(options, terminal, stop):
    cluster = None
    code = 1
    try:
        cluster = Cluster(options, terminal, stop)
        code = _serve(options, cluster, terminal, stop)
    except StopRequested:
        code = 1 if cluster is not None and cluster.any_died else 0
        if options.command:
            code = 128 + stop.number
    except Failure as failure:
        terminal.say("failed", str(failure))
        if cluster is not None:
            cluster.keep_logs = True
    finally:
        if cluster is not None:
            began = time.monotonic()
            kept = cluster.shut_down()
            code = code or int(cluster.ended_badly)
            if not options.command or kept:
                terminal.say(
                    "stopped",
                    f"everything, in {time.monotonic() - began:.1f} s" + (f"; logs kept in {kept}" if kept else ""),
                )
    return code


def main(arguments):
    options = command_line.parse(arguments)
    terminal = Terminal(sys.stderr if options.command else sys.stdout)
    stop = Stop()
    try:
        ports.require(options.host, [options.port], "--host", "choose another with --port, or --port 0 for any")
        if options.build_dir is None:
            build(terminal, stop)
    except Failure as failure:
        terminal.say("failed", str(failure))
        return 1
    except StopRequested:
        terminal.say("stopped", "before anything was started")
        return 130
    return _run_cluster(options, terminal, stop)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
