"""Stands in for krait-coordinator and krait-shard where the launcher itself is tested.

KRAIT_FAKE_<COORDINATOR | RANK_r> chooses what it does: "exit N" at once, "silent" (never ready), "die N" (ready, then
exits N after a moment), "deaf" (ignores SIGTERM), "drain N" (has N open requests and ends at the second SIGTERM only),
"fail N" (exits N at SIGTERM). All warn of what is in KRAIT_FAKE_WARNINGS, with | between. KRAIT_FAKE_LOAD_S is how long /ready says 503.
"""

import http.server
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time

WORDS = [" a", " single", " man", "."]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    began = time.monotonic()
    open_requests = 0

    def log_message(self, *args):
        pass

    def _answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/ready":
            loading = time.monotonic() - self.began < float(os.environ.get("KRAIT_FAKE_LOAD_S", "0"))
            self._answer(503 if loading else 200, {"groups": [{"name": "g0", "state": "loading", "detail": "rank 1"}]})
        elif self.path == "/cluster":
            self._answer(200, {"coordinator": {"open_requests": self.open_requests}})
        elif self.path == "/v1/models":
            self._answer(200, {"data": [{"id": "fake"}]})
        else:
            self._answer(404, {})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        for word in WORDS:
            self.wfile.write(f"data: {json.dumps({'choices': [{'text': word}]})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True


def option(name):
    return sys.argv[sys.argv.index("--" + name) + 1]


def on_sigterm(order, number, who):
    told = []
    Handler.open_requests = int(number) if order == "drain" else 0

    def handle(*_):
        told.append(time.monotonic())
        print(f"{who}: told to end, {len(told)}", file=sys.stderr, flush=True)
        if order != "drain" or len(told) > 1:
            os._exit(int(number) if order == "fail" else 0)

    return handle


def main(role):
    who = "COORDINATOR" if role == "coordinator" else "RANK_" + option("rank")
    order, _, number = os.environ.get("KRAIT_FAKE_" + who, "").partition(" ")
    print(f"{who}: started with {' '.join(sys.argv[1:])}", file=sys.stderr, flush=True)
    for text in filter(None, os.environ.get("KRAIT_FAKE_WARNINGS", "").split("|")):
        print(f"2026-01-01T00:00:00.000 W [{who}] {text}", file=sys.stderr, flush=True)
    if order == "exit":
        print(f"{who}: cannot go on, for a reason", file=sys.stderr, flush=True)
        sys.exit(int(number))
    signal.signal(signal.SIGTERM, signal.SIG_IGN if order == "deaf" else on_sigterm(order, number, who))
    endpoint = pathlib.Path(option("run-dir")) / f"{option('group')}-{who.lower()}.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        endpoint.unlink(missing_ok=True)  # of one that died
        listener.bind(str(endpoint))
    ready = {"pid": os.getpid(), "metrics_port": int(option("metrics-port")) or 1}
    if role == "coordinator":
        server = http.server.ThreadingHTTPServer((option("host"), int(option("port"))), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ready["port"] = server.server_address[1]
    if order != "silent":
        print("READY " + json.dumps(ready), flush=True)
    if order == "die":
        time.sleep(0.4)
        print(f"{who}: these are my last words", file=sys.stderr, flush=True)
        os._exit(int(number))
    parent = int(option("watch-parent-pid")) if "--watch-parent-pid" in sys.argv else os.getppid()
    while os.getppid() == parent or order == "deaf":
        time.sleep(0.05)
