"""The REST API as a test calls it: plain requests, streams that can be dropped, counts of what a cluster holds."""

import http.client
import json
import math
import socket
import time

from launch import get_json


def post(url, path, body, timeout=120):
    """(status, headers, document). `body` may be bytes that are sent as they are."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=timeout)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.headers, json.loads(response.read())
    finally:
        connection.close()


def complete(url, **fields):
    """A completion that must succeed."""
    status, _, document = post(url, "/v1/completions", {"model": model_name(url), **fields})
    assert status == 200, document
    return document


def model_name(url):
    return get_json(url, "/v1/models")[1]["data"][0]["id"]


class Stream:
    """A streamed completion over a socket of our own, so that it can be dropped at any moment."""

    def __init__(self, url, timeout=60, receive_buffer=None, path="/v1/completions", **fields):
        host, port = url.removeprefix("http://").rsplit(":", 1)
        self._socket = socket.socket()
        if receive_buffer:  # before the connection is made: its window is agreed then
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(timeout)
        self._socket.connect((host, int(port)))
        body = json.dumps({"model": model_name(url), "stream": True, **fields}).encode()
        self._socket.sendall(
            b"POST %s HTTP/1.1\r\nHost: krait\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % (path.encode(), len(body)) + body
        )
        self._response = None

    def _begin(self):
        if self._response is None:
            self._response = http.client.HTTPResponse(self._socket)
            self._response.begin()
        return self._response

    @property
    def status(self):
        return self._begin().status

    def read_event(self, until=math.inf):
        """The next event's document; "[DONE]" at its end; None where the connection ended. TimeoutError when comments are
        all that comes until that time."""
        response = self._begin()
        while True:
            line = response.readline()
            if time.monotonic() > until:
                raise TimeoutError("no event, but comments")
            if not line:
                return None
            if line.startswith(b"data: "):
                text = line[len(b"data: ") :].decode().strip()
                return text if text == "[DONE]" else json.loads(text)

    def read_all(self):
        events = []
        while (event := self.read_event()) is not None:
            events.append(event)
            if event == "[DONE]":
                break
        return events

    def drop(self):
        if self._response is not None:
            self._response.close()
        self._socket.close()


def load(up):
    """(sequences that hold a slot, sequences that wait), over all groups, by /cluster."""
    status, document = get_json(up.url, "/cluster")
    assert status == 200, document
    groups = document["groups"]
    return sum(group["running"] for group in groups), sum(group["waiting"] for group in groups)


def metrics(url):
    """{sample name with labels: value} of one metrics endpoint."""
    host, path = url.removeprefix("http://").split("/", 1)
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.request("GET", "/" + path)
        response = connection.getresponse()
        assert response.status == 200
        text = response.read().decode()
    finally:
        connection.close()
    samples = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            samples[name] = float(value)
    return samples
