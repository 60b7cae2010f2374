"""HTTP over a socket of our own: what no well-behaved client library would send."""

import http.client
import json
import socket


class _KeepsOpen:
    """http.client closes what it has read to its end; the connection of several answers goes on."""

    def __init__(self, file):
        self._file = file

    def makefile(self, *unused):
        return self

    def __getattr__(self, name):
        return getattr(self._file, name)

    def close(self):
        pass


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def document(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error object, once it has OpenAI's form."""
        error = self.document["error"]
        assert self.headers["content-type"] == "application/json"
        assert set(error) == {"message", "type", "param", "code"}, error
        assert error["message"] and error["type"] and error["code"], error
        return error


class Raw:
    """with Raw(url) as connection: send bytes, read answers, see how it ends."""

    def __init__(self, url, timeout=60):
        host, port = url.removeprefix("http://").rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout)
        self._file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._file.close()
        self.socket.close()

    def send(self, data):
        """False where the server has ended the connection before it took all."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def answer(self, method="POST"):
        response = http.client.HTTPResponse(_KeepsOpen(self._file), method=method)
        response.begin()
        return Answer(response)

    def ended(self):
        """Whether the server ends the connection without another byte."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True


def request(path, body=b"", *headers, method="POST", version="1.1"):
    """The bytes of an honest request; `headers` are lines."""
    lines = [f"{method} {path} HTTP/{version}", "Host: krait", *headers]
    if method == "POST" and not any(line.lower().startswith("content-length") for line in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "".join(line + "\r\n" for line in lines).encode("latin-1") + b"\r\n" + body


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)
