"""What deploy/up does before it starts a process: options, ports and packages, and what it refuses in words."""

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import types

import pytest

from launch import FAKE_BUILD, REPOSITORY, run_up

sys.path.insert(0, str(REPOSITORY / "deploy" / "launcher"))

import ports  # noqa: E402
import terminal  # noqa: E402
from ports import port_is_free  # noqa: E402


@pytest.mark.parametrize(
    "command, code, words",
    [
        ("/no/such/program", 127, "no such program"),
        ("no-such-program", 127, "no such program"),
        (str(REPOSITORY / "README.md"), 126, "it is no program"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused_before_anything_starts(fake, command, code, words):
    done = run_up(*fake, "--", command)
    assert done.returncode == code
    assert done.stderr == f"deploy/up: error: cannot run {command}: {words}\n"


def test_a_port_in_use_is_refused_before_anything_starts(fake):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_up(*fake, "--port", port, "--", "true")
    assert done.returncode == 1
    assert f"127.0.0.1:{port} is in use" in done.stderr


@contextlib.contextmanager
def taken_port(first=20_000):
    """A port that somebody listens on, with five free ones after it."""
    for port in range(first, 30_000, 10):
        if all(port_is_free("127.0.0.1", port + i) for i in range(6)):
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", port))
                taken.listen()
                yield port
            return


def test_a_metrics_port_that_was_asked_for_and_is_in_use_is_refused(fake):
    with taken_port() as port:
        done = run_up(*fake, "--metrics-port", port - 1, "--", "true")
        assert done.returncode == 1
        assert f"127.0.0.1:{port} is in use" in done.stderr and "--metrics-port" in done.stderr


@pytest.mark.parametrize("taken", [1, 2])
def test_metrics_ports_that_are_not_the_usual_ones_are_said(monkeypatch, taken):
    with taken_port() as port, socket.socket() as another:
        if taken == 2:
            another.bind(("127.0.0.1", port + 1))
            another.listen()
        monkeypatch.setattr(ports, "FIRST_METRICS_PORT", port)
        said = io.StringIO()
        options = types.SimpleNamespace(metrics_host="127.0.0.1", metrics_port=None, port=8000)
        found = list(ports.metrics_ports(options, terminal.Terminal(said), 3))
        assert found == [port + taken + i for i in range(3)]
        who = f"{port} is" if taken == 1 else f"{port}, {port + 1} are"
        assert f"metrics: {who} in use by others, so the ports are {ports.listed(found)}" in said.getvalue()


@pytest.mark.parametrize("option", ["--host", "--metrics-host"])
def test_an_address_of_another_machine_is_told_from_a_port_in_use(fake, option):
    done = run_up(*fake, option, "192.0.2.1", "--", "true")  # an address of documentation
    assert done.returncode == 1
    assert f"{option} 192.0.2.1: not an address of this machine" in done.stderr and "in use" not in done.stderr


def test_asked_metrics_ports_reach_the_processes(fake):
    with taken_port() as port:
        script = 'cat "$KRAIT_RUN_DIR/cluster.json"'
        done = run_up(*fake, "--metrics-port", port + 1, "--", "bash", "-c", script)
    assert done.returncode == 0, done.stderr
    assert [p["metrics_port"] for p in json.loads(done.stdout)["processes"]] == [port + 1, port + 2, port + 3]


@pytest.mark.parametrize(
    "files, words",
    [
        ({}, "no config.json"),
        ({"config.json": "{}"}, "neither model.safetensors nor"),
        ({"config.json": "{}", "model.safetensors.index.json": "]"}, "index.json cannot be read"),
        ({"config.json": "{}", "model.safetensors.index.json": '{"weight_map": 3}'}, "index.json cannot be read"),
        (
            {"config.json": "{}", "model.safetensors.index.json": '{"weight_map": {"a": "x.safetensors"}}'},
            "names x.safetensors, which is not there",
        ),
    ],
)
def test_a_model_that_is_incomplete_is_refused_before_anything_is_built(tmp_path, files, words):
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = run_up("--model", tmp_path, "--", "true", build_first=True)
    assert done.returncode == 2
    assert words in done.stderr and "build" not in done.stderr


@pytest.mark.parametrize(
    "options, words",
    [
        (["--ranks", "9"], "9 is not between 1 and 8"),
        (["--port", "x"], "'x' is not a number"),
        (["--dtype", "f64"], "--dtype"),
        (["--model", "/no/such/model"], "/no/such/model: no such folder or file"),
        (["--tokenizer", "/no/such/file"], "--tokenizer /no/such/file: no such file"),
        (["--no-such-option"], "--no-such-option"),
        (["--run-dir", ""], "--run-dir: an empty name is none"),
        (["--"], "no command after --"),
        (["--ranks", "2", "--shares", "3,1,1"], "--shares 3,1,1: 3 numbers for 2 ranks"),
        (["--ranks", "1", "--shares", "3,1"], "--shares 3,1: 2 numbers for 1 rank "),
        (["--prefill-split", "2"], "--prefill-split 2 is for ranks with --weights whole"),
        (["--weights", "whole", "--shares", "3,1"], "--shares cuts a model"),
        (["--shares", "3"], "--shares 3: 1 number for 2 ranks"),
        (["--shares", "3,x"], "--shares: '3,x' is no list of numbers"),
        (["--shares", "3,1_0"], "--shares: '3,1_0' is no list of numbers"),
        (["--shares", "3,nan"], "--shares: '3,nan' is no list of numbers"),
        (["--host", "no-such.host"], "--host: unknown host 'no-such.host'"),
        (["--metrics-host", ""], "--metrics-host: unknown host ''"),
    ],
)
def test_bad_options_are_named_in_a_line(fake, options, words):
    done = run_up(*fake, *options)
    assert done.returncode == 2
    assert words in done.stderr and done.stderr.startswith("deploy/up: error: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "files, words",
    [
        ({}, "no such folder or file here, and none downloaded: there is no {kept}"),
        ({"snapshots/abc/config.json": "{}"}, "{kept} is no whole download: it has no refs/main"),
        ({"refs/main": "abc"}, "{kept} is no whole download: refs/main names 'abc', which is not in snapshots"),
        ({"refs/main": "../abc", "abc/config.json": "{}"}, "refs/main names '../abc', which is not in snapshots"),
        ({"refs/main": "abc", "snapshots/abc/config.json": "{}"}, "snapshots/abc: neither model.safetensors nor"),
    ],
)
def test_where_a_model_of_the_cache_was_looked_for_is_said(tmp_path, files, words):
    kept = tmp_path / "models--org--nothere"
    for name, text in files.items():
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        (kept / name).write_text(text, encoding="utf-8")
    cache = {"HF_HUB_CACHE": str(tmp_path)}
    done = run_up("--build-dir", FAKE_BUILD, "--model", "org/nothere", "--", "true", environment=cache)
    assert done.returncode == 2
    assert words.format(kept=kept) in done.stderr


def test_a_run_dir_too_long_for_a_socket_is_refused(fake):
    done = run_up(*fake, "--run-dir", "/tmp/" + "x" * 90, "--", "true")
    assert done.returncode == 1
    assert "is too long" in done.stderr


def test_missing_programs_are_named(fake_model, tmp_path):
    done = run_up("--build-dir", tmp_path, "--model", fake_model, "--", "true")
    assert done.returncode == 1
    assert f"cannot start {tmp_path}/bin/krait-coordinator: No such file" in done.stderr


def packages(script, *arguments, environment=None):
    """What a script says that begins with the functions of packages.sh."""
    words = ["bash", "-c", 'set -eu; . "$0"; ' + script, REPOSITORY / "deploy/launcher/packages.sh", *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=True, env=environment)


def test_missing_packages_are_seen(tmp_path):
    names = tmp_path / "names"
    names.write_text("bash\nno-such-package-here  # why\n", encoding="utf-8")
    assert packages('say_missing "$1"', names).stdout.split() == ["no-such-package-here"]


def test_installing_says_how_far_it_is_where_there_is_no_terminal():
    script = """
      PROGRESS_S=0.5
      id() { echo 0; }
      say_missing() { echo one; echo two; }
      apt_get() {
        if [ "$1" = update ]; then echo "Get:1 lists"; fetched=yes; return 0; fi
        sleep 1
        [ -n "${fetched-}" ] || return 1
        echo "0 upgraded, 3 newly installed, 0 to remove and 0 not upgraded."
        echo "Get:1 one"; echo "Get:2 two"; echo "Unpacking one (1.0) ..."
        sleep 1
      }
      install_packages nowhere"""
    lines = packages(script).stderr.splitlines()
    assert lines[0] == "packages: installing 2 and what they need: one two"
    assert any(line.endswith(" s: reading the lists of packages") for line in lines[1:])
    assert any(line.endswith(" s: of 3 packages 2 are downloaded, 1 unpacked, 0 set up") for line in lines[1:])


@pytest.mark.parametrize("program", ["deploy/up", "tests/run", ".ci/run"])
def test_help_installs_nothing(tmp_path, program):
    asked = tmp_path / "asked"
    stand_in = tmp_path / "dpkg-query"
    stand_in.write_text(f'#!/bin/sh\ntouch {asked}\nshift 3\nprintf "installed %s\\n" "$@"\n', encoding="utf-8")
    stand_in.chmod(0o755)
    environment = dict(os.environ, PATH=f"{tmp_path}:{os.environ['PATH']}")
    for word in ("-h", "--help"):
        words = [REPOSITORY / program, word]
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.startswith("usage: ") and "--" in done.stdout
    assert not asked.exists(), "nobody asked which packages there are"


def test_help_where_there_is_no_python_is_a_line():
    done = packages('PYTHON=/no/such/python; help_first deploy/up no.py --ranks 2 --help; echo went on')
    assert done.stdout.startswith("usage: deploy/up ") and "python3" in done.stdout and done.stdout.count("\n") == 1
    assert packages('help_first deploy/up no.py -- command --help; echo went on').stdout == "went on\n"
