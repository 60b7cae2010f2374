"""Many clients at once over raw asyncio streams: what each was answered, when its tokens came, what the daemons hold."""

import asyncio
import json
import os
import pathlib
import statistics
import threading
import time
from dataclasses import dataclass, field


@dataclass
class Answer:
    """What one request got. Times are of time.monotonic()."""

    status: int
    retry_after: str | None = None
    error: dict | None = None
    began: float = 0.0
    ended: float = 0.0
    tokens_at: list = field(default_factory=list)  # when each event with text or tokens came
    complete: bool = False  # [DONE] was read, or the whole answer

    @property
    def first_after(self):
        return self.tokens_at[0] - self.began

    @property
    def lasted(self):
        return self.ended - self.began


class Connection:
    """One keep-alive connection, one request after the other."""

    def __init__(self, url, source="127.0.0.1"):
        self._host, port = url.removeprefix("http://").rsplit(":", 1)
        self._port = int(port)
        self._source = source  # an address of this machine: who a client is, where no keys are asked for
        self._reader = self._writer = None

    async def open(self):
        if self._writer is None or self._writer.is_closing():
            self._reader, self._writer = await asyncio.open_connection(
                self._host, self._port, limit=2**24, local_addr=(self._source, 0)
            )
        return self

    def close(self):
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def _send(self, method, path, body):
        await self.open()
        head = f"{method} {path} HTTP/1.1\r\nHost: krait\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)

    async def _head(self):
        text = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *fields = text.rstrip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in fields)}
        return int(status.split()[1]), headers

    async def get(self, path):
        await self._send("GET", path, b"")
        status, headers = await self._head()
        await self._reader.readexactly(int(headers.get("content-length", 0)))
        return status

    async def complete(self, **fields):
        answer = Answer(0, began=time.monotonic())
        await self._send("POST", "/v1/completions", json.dumps({"stream": True, **fields}).encode())
        answer.status, headers = await self._head()
        answer.retry_after = headers.get("retry-after")
        if "content-length" in headers:
            document = json.loads(await self._reader.readexactly(int(headers["content-length"])))
            answer.error = document.get("error")
            answer.complete = True
        else:
            await self._events(answer)
        answer.ended = time.monotonic()
        if headers.get("connection") == "close":
            self.close()
        return answer

    async def _events(self, answer):
        # A chunk is "size CRLF data CRLF"; events are lines within, so the framing can be read past. All that is there is
        # taken at once: a client that reads line by line would be slower than what it floods, and measure itself.
        rest, last = b"", False
        while data := await self._reader.read(2**16):
            now = time.monotonic()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if line.startswith(b'data: {"error"'):
                    answer.error = json.loads(line[6:])["error"]
                elif line.startswith(b"data: {"):
                    answer.tokens_at.append(now)
                elif line == b"data: [DONE]":
                    answer.complete = True
                elif last:
                    return
                last = line == b"0\r"


async def each_until(end, connection, answers, pause_s, **fields):
    """One client: requests one after the other until `end`; after a refusal it comes again soon, whatever it was told."""
    try:
        while time.monotonic() < end:
            answer = await connection.complete(**fields)
            answers.append(answer)
            if answer.status != 200:
                await asyncio.sleep(pause_s)
    finally:
        connection.close()


def between_tokens(answers):
    """Mean seconds between the tokens of answers that were served."""
    gaps = [
        (answer.tokens_at[-1] - answer.tokens_at[0]) / (len(answer.tokens_at) - 1)
        for answer in answers
        if len(answer.tokens_at) > 1
    ]
    return statistics.fmean(gaps)


def resident_bytes(pid):
    """Memory of its own: pages of files belong to the page cache."""
    fields = dict(
        line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))


def held(up):
    """Per process: memory, descriptors, mapped segments. `up` must have nothing else to do."""

    def of(pid):
        # A segment has no name any more once it is mapped, so folders do not tell.
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
        return resident_bytes(pid), len(os.listdir(f"/proc/{pid}/fd")), maps.count("/dev/shm/krait-")

    return {process["log"]: of(process["pid"]) for process in up.document["processes"]}


class Peaks:
    """with Peaks(up) as peaks: the most memory of each process meanwhile, and what it had before."""

    def __init__(self, up):
        self._pids = {process["log"]: process["pid"] for process in up.document["processes"]}
        self.before = self._now()
        self.peak = dict(self.before)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _now(self):
        return {name: resident_bytes(pid) for name, pid in self._pids.items()}

    def _watch(self):
        while not self._over.wait(0.1):
            for name, value in self._now().items():
                self.peak[name] = max(self.peak[name], value)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *unused):
        self._over.set()
        self._thread.join()

    def grown_mib(self):
        return {name: (self.peak[name] - self.before[name]) / 2**20 for name in self.peak}
