"""SIGINT, SIGTERM and SIGHUP become one request to stop, seen at chosen places only: never between starting a process
and noting it down."""

import contextlib
import signal
import time


class StopRequested(BaseException):
    """Not an Exception: nothing that mends operating errors may swallow it."""


class Stop:
    def __init__(self):
        self.count = 0
        self.number = 0  # of the last signal
        self._raising = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)

    def _note(self, number, frame):
        del frame
        self.count += 1
        self.number = number
        if self._raising:
            self._raising = False
            raise StopRequested()

    def check(self):
        if self.count:
            raise StopRequested()

    def pause(self, seconds):
        self.check()
        with self.interruptible():
            time.sleep(seconds)

    @contextlib.contextmanager
    def interruptible(self):
        """Inside, a signal raises at once: for waits that start no process."""
        try:
            self._raising = True
            self.check()
            yield
        finally:
            self._raising = False
