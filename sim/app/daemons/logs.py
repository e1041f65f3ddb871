"""What a process that runs alone logs: lines as klog writes them, by the options of its log.

Turns records of Python's `logging` into lines of `Klog` on streams and in files: INFO has level 0,
DEBUG level 4, and `extra={"v": N}` names another one; `extra={"values": {...}}` makes a structured
message.

Holds: lines of files are on the disk after the flush frequency, and at the end; a file of a log has
the mode 0644, as upstream's; no credentials are logged.

Mirrors  k8s.io/klog v2.70 (Info against InfoS: a message without fields has no quotes).
"""

from __future__ import annotations

import getpass
import logging
import os
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path

from sim.klog import ERROR, FATAL, INFO, STDERR, STDOUT, WARNING, Clocks, Klog
from sim.options.groups.logs import LogFlags
from sim.units import go_quote

_SEVERITY = {
    logging.WARNING: WARNING,
    logging.ERROR: ERROR,
    logging.CRITICAL: FATAL,
}
DETAIL = 4  # the level of debugging messages
REQUESTS = {"httpx": 6, "httpcore": 9}  # from which level on these libraries speak


class Log(logging.Handler):
    """The log of this process.

    flushed: set once the flush frequency has passed for the first time
    """

    def __init__(self, options: LogFlags, program: str) -> None:
        super().__init__()
        self._options = options
        self.flushed = threading.Event()
        self._files: dict[str, int] = {}  # descriptors by path
        begun, host = time.monotonic_ns(), socket.gethostname().partition(".")[0]
        clocks = Clocks(
            time.time_ns() // 1000,
            lambda: time.time_ns() // 1000,
            lambda: (time.monotonic_ns() - begun) // 1000,
            self._later,
        )
        self._klog = Klog(options, self._put, clocks, program, host, os.getpid(), _user())

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, if its file has its level."""
        path = Path(record.pathname)
        where = f"{path.parent.name}/{path.name}:{record.lineno}"
        severity = _SEVERITY.get(record.levelno, INFO)
        level = getattr(record, "v", DETAIL if record.levelno <= logging.DEBUG else 0)
        if severity == INFO and level > self._klog.level(where):
            return
        text, fields = record.getMessage(), getattr(record, "values", {})
        if record.exc_info:
            problem = "".join(traceback.format_exception(*record.exc_info)).rstrip()
            fields = {**fields, "err": problem}
        self._klog.write(severity, where, go_quote(text) if fields else text, text, fields, level)

    def set_verbosity(self, level: int) -> None:
        """Log up to a level from now on."""
        self._klog.verbosity = level
        for name, least in REQUESTS.items():
            logging.getLogger(name).setLevel(logging.DEBUG if level >= least else logging.WARNING)

    def flush(self) -> None:
        """Write what is kept."""
        with self.lock or threading.RLock():
            self._klog.flush()
            for stream in (sys.stdout, sys.stderr):
                with suppress(ValueError, OSError):
                    stream.flush()

    def _later(self, wait_us: int, then: object) -> None:
        def flush() -> None:
            self.flush()
            self.flushed.set()

        timer = threading.Timer(wait_us / 1e6, flush)
        timer.daemon = True
        timer.start()

    def _put(self, name: str, text: str | None) -> None:
        """Take text for a stream or a file; None empties the file."""
        if name in (STDERR, STDOUT):
            print(text or "", end="", file=sys.stdout if name == STDOUT else sys.stderr, flush=True)
            return
        descriptor = self._files.get(name)
        if descriptor is None:
            stored = os.O_APPEND if name == self._options.log_file else os.O_TRUNC
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | stored, 0o644)
            self._files[name] = descriptor
        if text is None:
            os.ftruncate(descriptor, 0)
        else:
            os.write(descriptor, text.encode("utf-8", "replace"))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknownuser"


def begin(options: LogFlags, program: str) -> Log:
    """Write the records of this process as its options say."""
    log = Log(options, program)
    root = logging.getLogger()
    root.handlers[:] = [log]
    root.setLevel(logging.DEBUG)
    log.set_verbosity(options.verbosity)
    return log
