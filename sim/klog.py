"""Lines of logs as klog writes them, for agents in virtual time and processes on the wall clock.

Turns messages with fields into lines of text or of JSON, and hands them to what keeps the streams
and files of the process.

Mirrors  k8s.io/klog v2.70 klog.go: formatHeader, output, rotateFile, flushDaemon, kvListFormat;
         klog_file.go: logName, create; k8s.io/component-base logs/json/json.go (v1.25).
Differs  a file of log-dir is not replaced when it is full.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from sim.options.groups.logs import JSON, SEVERITIES, LogFlags
from sim.units import format_micro_time, go_quote

INFO, WARNING, ERROR, FATAL = range(4)
STDERR, STDOUT = "stderr", "stdout"
PID_WIDTH = 7
MIB = 1 << 20
# Takes the name of a stream or the path of a file, and text; None empties the file.
Output = Callable[[str, str | None], None]


class Ref(NamedTuple):
    """A reference to an object, as klog.KObj makes it."""

    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Clocks(NamedTuple):
    """The time of a log.

    begun_us: the wall clock when it began; wall_us: reads the wall clock
    passed_us: how long it has been there
    later: calls something after a while
    """

    begun_us: int
    wall_us: Callable[[], int]
    passed_us: Callable[[], int]
    later: Callable[[int, Callable[[], None]], object]


class Klog:
    """The log of one process.

    verbosity: up to which level it has messages
    program, host, user, pid: as names of files and headers show them
    """

    __slots__ = (
        "_buffers",
        "_clocks",
        "_host",
        "_options",
        "_output",
        "_pid",
        "_program",
        "_sizes",
        "_user",
        "verbosity",
    )

    def __init__(
        self,
        options: LogFlags,
        output: Output,
        clocks: Clocks,
        program: str,
        host: str,
        pid: int,
        user: str = "root",
    ) -> None:
        self._options, self._output, self._clocks = options, output, clocks
        self._program, self._host, self._pid, self._user = program, host, pid, user
        self.verbosity = options.verbosity
        self._buffers: dict[str, list[str]] = {}
        self._sizes: dict[str, int] = {}

    def info(self, level: int, where: str, text: str, **fields: Any) -> None:
        """Log a message at a level.  where: directory, file and line of its source"""
        if level <= self.level(where):
            self.write(INFO, where, go_quote(text), text, fields, level)

    def error(self, where: str, text: str, problem: str, **fields: Any) -> None:
        """Log an error."""
        self.write(ERROR, where, go_quote(text), text, {"err": problem, **fields})

    def level(self, where: str) -> int:
        """The level up to which a file has messages."""
        options = self._options
        if options.vmodule:
            file = where.rpartition("/")[2].partition(".")[0]
            for pattern, level in options.vmodule:
                if fnmatchcase(file, pattern):
                    return level
        return self.verbosity

    def write(
        self,
        severity: int,
        where: str,
        line: str,
        text: str,
        fields: Mapping[str, Any] = {},
        level: int = 0,
    ) -> None:
        """Write a message.  line: its form in a line of text; text: in JSON"""
        options = self._options
        if options.logging_format == JSON:
            entry = self._json(severity, where, text, fields, level)
            if not options.json_split_stream or severity >= ERROR:
                self._output(STDERR, entry)
            elif options.json_info_buffer:
                self._keep(STDOUT, entry, options.json_info_buffer)
            else:
                self._output(STDOUT, entry)
            return
        header = "" if options.skip_headers else self._header(severity, where)
        shown = "".join(f" {name}={_text(value)}" for name, value in fields.items())
        line = f"{header}{line}{shown}\n"
        if options.log_to_stderr:
            self._output(STDERR, line)
            return
        if options.also_to_stderr or severity >= options.stderr_threshold:
            self._output(STDERR, line)
        if options.log_file:
            self._to_file(options.log_file, line)
            return
        lowest = severity if options.one_output else INFO
        for each in range(severity, lowest - 1, -1):
            self._to_file(self._file(each), line)

    def _header(self, severity: int, where: str) -> str:
        stamp = format_micro_time(self._clocks.wall_us())
        file = where if self._options.add_dir_header else where.rpartition("/")[2]
        day, time = stamp[5:7] + stamp[8:10], stamp[11:26]
        return f"{SEVERITIES[severity][0]}{day} {time} {self._pid:>{PID_WIDTH}} {file}] "

    def _json(self, severity: int, where: str, text: str, fields: Mapping[str, Any], level: int) -> str:
        whole, rest = divmod(self._clocks.wall_us(), 1000)
        stamp = f"{whole}.{rest:03}".rstrip("0").rstrip(".")
        entry = {"caller": where, "msg": text}
        shown = entry | ({"v": level} if severity == INFO else {})
        rows = {**shown, **{name: _plain(value) for name, value in fields.items()}}
        body = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
        return f'{{"ts":{stamp},{body[1:]}\n'

    # --- files ------------------------------------------------------------------------------------

    def _file(self, severity: int) -> str:
        stamp = format_micro_time(self._clocks.begun_us)
        time = stamp[:19].replace("-", "").replace("T", "-").replace(":", "")
        name = f"{self._program}.{self._host}.{self._user}.log.{SEVERITIES[severity]}.{time}.{self._pid}"
        return f"{self._options.log_dir or '/tmp'}/{name}"

    def _to_file(self, path: str, line: str) -> None:
        size = self._sizes.get(path)
        most = self._options.log_file_max_mib * MIB
        if size is None or (path == self._options.log_file and 0 < most <= size + len(line)):
            if size is not None:
                self._flush(path)
                self._output(path, None)
            size = 0
            if not self._options.skip_log_headers:
                new = format_micro_time(self._clocks.wall_us())[:19].replace("-", "/").replace("T", " ")
                head = (
                    f"Log file created at: {new}\nRunning on machine: {self._host}\n"
                    "Binary: Built with gc go1.19.0 for linux/amd64\n"
                    "Log line format: [IWEF]mmdd hh:mm:ss.uuuuuu threadid file:line] msg\n"
                )
                size = len(head)
                self._keep(path, head)
        self._sizes[path] = size + len(line)
        self._keep(path, line)

    def _keep(self, path: str, text: str, most: int = 256 << 10) -> None:
        """Keep text until the next flush, or until there is more than a buffer holds."""
        if not self._buffers:
            period_us = self._options.log_flush_us
            wait_us = period_us - self._clocks.passed_us() % period_us
            self._clocks.later(wait_us, self.flush)
        stored = self._buffers.setdefault(path, [])
        stored.append(text)
        if sum(map(len, stored)) > most:
            self._flush(path)

    def _flush(self, path: str) -> None:
        if texts := self._buffers.pop(path, []):
            self._output(path, "".join(texts))

    def flush(self) -> None:
        """Write all lines that are kept."""
        for path in [*self._buffers]:
            self._flush(path)


def _text(value: Any) -> str:
    """A value in a line of text."""
    if isinstance(value, str | Ref):
        return go_quote(str(value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Sequence):
        return f"[{' '.join(map(str, value))}]"
    return str(value)


def _plain(value: Any) -> Any:
    """A value in a line of JSON."""
    if isinstance(value, Ref):
        return {"name": value.name, **({"namespace": value.namespace} if value.namespace else {})}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
