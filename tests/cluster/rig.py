"""A cluster whose processes can be held before they start, killed, stopped, and cut off from each other.

The daemons run behind small scripts. The leader has its sockets in a folder of its own; where the others look for them,
proxies stand, which can stop delivering.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from launch import Up, is_alive, segments, wait_for

GROUP = "g0"
WRAPPER = """#!/bin/bash
# Waits while a file holds it, then becomes the real program; the leader goes to a folder of its own.
args=("$@"); who=coordinator
for ((i = 0; i < $#; ++i)); do [ "${args[i]}" = --rank ] && who="rank-${args[i+1]}"; done
for ((i = 0; i < $#; ++i)); do
  if [ "${args[i]}" = --run-dir ] && [ $who = rank-0 ]; then args[i+1]="%(behind)s"; fi
done
while [ -e "%(gates)s/$who" ]; do read -rt 0.05 <> <(:) || :; done
exec "%(bin)s/$(basename "$0")" "${args[@]}"
"""


class Proxy:
    """Passes bytes between whoever connects to `front` and `back`."""

    def __init__(self, front, back):
        self._front, self._back = front, back
        self._flows = threading.Event()
        self._flows.set()
        self._open = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(front))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(str(self._back))
            except OSError:
                near.close()
                time.sleep(0.02)
                continue
            self._open += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one, other):
        try:
            while data := one.recv(65536):
                self._flows.wait()
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """From now on nothing is delivered; the connections stay."""
        self._flows.clear()

    def heal(self):
        """What was held back arrives now, late."""
        self._flows.set()

    def close(self):
        self._listener.close()
        self._flows.set()
        for end in self._open:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Rig(Up):
    """deploy/up over the scripts and the proxies. `held`: processes that wait before they start."""

    def __init__(self, model, *options, held=()):
        self._aside = pathlib.Path(tempfile.mkdtemp(prefix="ktr-", dir="/tmp"))
        self.behind, self.gates = self._aside / "b", self._aside / "gates"
        programs = self._aside / "bin"
        for folder in (self.behind, self.gates, programs):
            folder.mkdir()
        real = pathlib.Path(os.environ["KRAIT_TEST_BUILD_DIR"]) / "bin"
        for name in ("krait-coordinator", "krait-shard"):
            script = programs / name
            script.write_text(WRAPPER % {"behind": self.behind, "gates": self.gates, "bin": real})
            script.chmod(0o755)
        for name in held:
            (self.gates / name).touch()
        self.started_by_hand, self.proxies, self._seen_pids = [], {}, set()
        self.leader_was_killed = False
        super().__init__("--build-dir", self._aside, "--model", model, *options)
        wait_for(self.read, "cluster.json", 30)
        for name in ("ranks", "coordinators"):
            socket_name = f"{GROUP}-ranks.ipc" if name == "ranks" else f"{GROUP}.ipc"
            self.proxies[name] = Proxy(self.run_dir / socket_name, self.behind / socket_name)

    def __exit__(self, *unused):
        try:
            for process in self.started_by_hand:
                process.kill()
                process.wait()
            for pid in self.read_pids():
                if is_alive(pid):
                    os.kill(pid, signal.SIGCONT)
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGCONT)
            super().__exit__(*unused)
        finally:
            for proxy in self.proxies.values():
                proxy.close()
            shutil.rmtree(self._aside, ignore_errors=True)

    def read_pids(self):
        self.read()
        self._seen_pids |= {p["pid"] for p in self.document.get("processes", [])}
        return self._seen_pids

    def pid_of(self, target):
        """coordinator, leader, rank 1 or launcher."""
        if target == "launcher":
            return self.process.pid
        role, rank = {"coordinator": ("coordinator", None), "leader": ("shard", 0), "rank 1": ("shard", 1)}[target]
        return self.process_of(role, rank)["pid"]

    def release(self, name):
        (self.gates / name).unlink()

    def _proxies_of(self, target):
        names = {"coordinator": ["coordinators"], "rank 1": ["ranks"], "leader": ["ranks", "coordinators"]}
        return [self.proxies[name] for name in names[target]]

    def hurt(self, target, fault):
        if fault == "cut":
            for proxy in self._proxies_of(target):
                proxy.cut()
        else:
            self.leader_was_killed |= (target, fault) == ("leader", "kill")
            os.kill(self.pid_of(target), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[fault])

    def mend(self, target, fault):
        """As a service manager or the network would: a dead shard is started again, the others go on."""
        if fault == "cut":
            for proxy in self._proxies_of(target):
                proxy.heal()
        elif fault == "stop":
            os.kill(self.pid_of(target), signal.SIGCONT)
        else:
            process = self.process_of("shard", 0 if target == "leader" else 1)
            self.start_again(self.commands[process["pid"]])

    def note_commands(self):
        """How the shards were started, while they can be asked."""
        self.commands = {
            p["pid"]: pathlib.Path(f"/proc/{p['pid']}/cmdline").read_text(encoding="utf-8").split("\0")[:-1]
            for p in self.document["processes"]
        }

    def start_again(self, command):
        words = list(command)
        words[words.index("--watch-parent-pid") + 1] = str(os.getpid())
        words[words.index("--metrics-port") + 1] = "0"
        again = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.started_by_hand.append(again)
        self._seen_pids.add(again.pid)

    def end_what_was_started_by_hand(self):
        for process in self.started_by_hand:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0

    def left(self):
        """What is still there of this cluster, after its end."""
        pids = self.read_pids()
        found = [f"process {pid}" for pid in pids if is_alive(pid)]
        # What a killed leader left in the folder that deploy/up does not know of, nobody takes away.
        killed = self.leader_was_killed or "did not stop in time and is killed" in self.said
        for folder in (self.run_dir,) if killed else (self.run_dir, self.behind):
            found += [str(path) for path in folder.iterdir() if path.name != "logs"]
        return found + [name for name in segments() if any(f"-{pid}-" in name for pid in pids)]
