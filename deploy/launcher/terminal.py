"""What the launcher says: a line for each stage, with the seconds since it began; a moving line on a terminal."""

import contextlib
import os
import time


class Failure(Exception):
    """An operating error: said to the user as it stands, exit code 1."""


@contextlib.contextmanager
def failing_as(what):
    """Whatever the system refuses inside becomes a Failure that begins with `what`: a full or read-only disk, mostly."""
    try:
        yield
    except OSError as error:
        raise Failure(f"{what}: {error.strerror or error}") from None


def counted(count, noun):
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Terminal:
    def __init__(self, stream):
        self._stream = stream
        self._moving = stream.isatty()
        self._start = time.monotonic()
        self._shown = ""
        self._last_heartbeat = self._start

    def elapsed(self):
        return time.monotonic() - self._start

    def say(self, stage, text):
        """A line that stays."""
        self._clear()
        self._write(f"[{self.elapsed():7.1f} s] {stage:<9} {text}\n")

    def progress(self, stage, text):
        """A line that the next one replaces; where nothing can be replaced, at most one every ten seconds."""
        line = f"[{self.elapsed():7.1f} s] {stage:<9} {text}"
        if self._moving:
            width = max(20, _columns(self._stream) - 1)
            self._clear()
            self._shown = line[:width]
            self._write(self._shown)
        elif time.monotonic() - self._last_heartbeat >= 10:
            self._last_heartbeat = time.monotonic()
            self._write(line + "\n")

    def raw(self, text):
        self._clear()
        self._write(text)

    def _clear(self):
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = ""

    def _write(self, text):
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # Nobody reads our words, or there is no room for them; the cluster must still be stopped cleanly.
            self._stream = open("/dev/null", "w", encoding="utf-8")
            self._moving = False


def _columns(stream):
    try:
        # Some terminals say 0: they do not know.
        return os.get_terminal_size(stream.fileno()).columns or 120
    except (OSError, ValueError):
        return 120
