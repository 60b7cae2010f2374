"""What deploy/up says and leaves where its run directory cannot be written, over small stand-ins for the daemons."""

import os
import re
import subprocess
import sys

import pytest

from launch import FAKE_BUILD, REPOSITORY, UP

sys.path.insert(0, str(REPOSITORY / "deploy" / "launcher"))

import leftovers  # noqa: E402
import terminal  # noqa: E402


def on_a_disk(words, mode, room):
    """Runs `words` where /dev/shm is a disk of 64 KiB that is full but for `room`, then lists it. In a chroot, whose root is
    no mount, no other folder's mount could be kept from showing outside."""
    script = """mount --make-private /dev/shm && mount -t tmpfs -o size=64k tmpfs /dev/shm || exit 99
        cat /dev/zero >/dev/shm/filling 2>/dev/null; truncate -s -"$2" /dev/shm/filling
        mount -o "remount,$1,size=64k" /dev/shm || exit 99
        "${@:3}"; code=$?; ls -A /dev/shm; exit $code"""
    command = ["unshare", "-m", "--propagation", "unchanged", "bash", "-c", script, "-", mode, room, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
@pytest.mark.parametrize(
    "mode, room, words",
    [
        ("rw", "0", "launcher.json cannot be written: No space left on device"),
        ("ro", "0", "Read-only file system"),
        ("rw", "4K", "cannot be written: No space left on device|only \\d+ bytes are free on that disk"),
    ],
)
def test_a_full_or_read_only_disk_is_named_in_a_sentence(mode, room, words):
    run_dir = "/dev/shm/run"
    up = [UP, "--build-dir", FAKE_BUILD, "--port", 0, "--run-dir", run_dir, "--ready-timeout", 5, "--", "true"]
    done = on_a_disk(up, mode, room)
    assert done.returncode == 1, done.stderr
    assert run_dir in done.stderr and re.search(words, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert room != "0" or done.stdout.split() == ["filling"], "nothing is left"


def test_no_record_is_left_half_written(tmp_path):
    (tmp_path / "cluster.json.new").touch()
    (tmp_path / "cluster.json").mkdir()
    with pytest.raises(terminal.Failure, match="cluster.json cannot be written: Is a directory"):
        leftovers.write_record(tmp_path, "cluster.json", {})
    assert not (tmp_path / "cluster.json.new").exists()
    (tmp_path / "cluster.json.new").touch()
    leftovers.clear_run_dir(tmp_path, created=False)
    assert not (tmp_path / "cluster.json.new").exists()
