"""The log of a node agent: lines as klog writes them, in virtual time.

Turns messages with fields into lines of text or of JSON, and hands them to what keeps the streams
and files of the process.

Holds: nothing is made of a message below the level of its file; an agent of which no one keeps the
log has none.

Mirrors  k8s.io/klog v2.70 klog.go: formatHeader, output, rotateFile, flushDaemon, kvListFormat;
         klog_file.go: logName, create; k8s.io/component-base logs/json/json.go (v1.25).
Differs  an agent logs its start, its registration, the changes of its pods, its events and errors;
         the lines in source files are those of one release, as far as they are known; a file of
         log-dir is not replaced when it is full.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from actors.node.runtime.machine import Machine
from sim.api.types import Obj
from sim.ident import Names
from sim.kernel.actor import Context
from sim.options.node.logs import JSON, SEVERITIES, AgentLogFlags
from sim.units import format_micro_time, go_quote

INFO, WARNING, ERROR = range(3)
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


class AgentLog:
    """The log of one incarnation of an agent.  verbosity: up to which level it has messages"""

    __slots__ = (
        "_began_us",
        "_buffers",
        "_ctx",
        "_host",
        "_options",
        "_output",
        "_pid",
        "_program",
        "_sizes",
        "verbosity",
    )

    def __init__(
        self, ctx: Context, options: AgentLogFlags, output: Output, program: str, host: str, pid: int
    ) -> None:
        self._ctx, self._options, self._output = ctx, options, output
        self._program, self._host, self._pid = program, host, pid
        self.verbosity = options.verbosity
        self._began_us = ctx.kernel.now_us
        self._buffers: dict[str, list[str]] = {}
        self._sizes: dict[str, int] = {}
        ctx.on_stop(self._flush_all)

    def info(self, level: int, where: str, text: str, **fields: Any) -> None:
        """Log a message at a level.  where: directory, file and line in upstream's sources"""
        if level <= self._level(where):
            self._write(INFO, where, text, fields, level)

    def error(self, where: str, text: str, problem: str, **fields: Any) -> None:
        """Log an error."""
        self._write(ERROR, where, text, {"err": problem, **fields}, 0)

    def _level(self, where: str) -> int:
        options = self._options
        if options.vmodule:
            file = where.rpartition("/")[2].partition(".go")[0]
            for pattern, level in options.vmodule:
                if fnmatchcase(file, pattern):
                    return level
        return self.verbosity

    def _write(self, severity: int, where: str, text: str, fields: dict[str, Any], level: int) -> None:
        options = self._options
        if options.logging_format == JSON:
            line = self._json(severity, where, text, fields, level)
            if not options.json_split_stream or severity >= ERROR:
                self._output(STDERR, line)
            elif options.json_info_buffer:
                self._keep(STDOUT, line, options.json_info_buffer)
            else:
                self._output(STDOUT, line)
            return
        header = "" if options.skip_headers else self._header(severity, where)
        shown = "".join(f" {name}={_text(value)}" for name, value in fields.items())
        line = f"{header}{go_quote(text)}{shown}\n"
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
        stamp = format_micro_time(self._ctx.wall_us())
        file = where if self._options.add_dir_header else where.rpartition("/")[2]
        day, time = stamp[5:7] + stamp[8:10], stamp[11:26]
        return f"{SEVERITIES[severity][0]}{day} {time} {self._pid:>{PID_WIDTH}} {file}] "

    def _json(self, severity: int, where: str, text: str, fields: dict[str, Any], level: int) -> str:
        whole, rest = divmod(self._ctx.wall_us(), 1000)
        stamp = f"{whole}.{rest:03}".rstrip("0").rstrip(".")
        given = {"caller": where, "msg": text}
        shown = given | ({"v": level} if severity == INFO else {})
        rows = {**shown, **{name: _plain(value) for name, value in fields.items()}}
        body = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
        return f'{{"ts":{stamp},{body[1:]}\n'

    # --- files ------------------------------------------------------------------------------------

    def _file(self, severity: int) -> str:
        stamp = format_micro_time(self._ctx.kernel.epoch_us + self._began_us)
        time = stamp[:19].replace("-", "").replace("T", "-").replace(":", "")
        name = f"{self._program}.{self._host}.root.log.{SEVERITIES[severity]}.{time}.{self._pid}"
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
                made = format_micro_time(self._ctx.wall_us())[:19].replace("-", "/").replace("T", " ")
                head = (
                    f"Log file created at: {made}\nRunning on machine: {self._host}\n"
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
            wait_us = period_us - (self._ctx.kernel.now_us - self._began_us) % period_us
            self._ctx.call_later_us(wait_us, lambda _: self._flush_all())
        kept = self._buffers.setdefault(path, [])
        kept.append(text)
        if sum(map(len, kept)) > most:
            self._flush(path)

    def _flush(self, path: str) -> None:
        if texts := self._buffers.pop(path, []):
            self._output(path, "".join(texts))

    def _flush_all(self) -> None:
        for path in [*self._buffers]:
            self._flush(path)


def log_of(
    ctx: Context, machine: Machine, options: AgentLogFlags, names: Names, version: str
) -> AgentLog | None:
    """The log of an agent that starts; None if no one keeps it."""
    if machine.log is None:
        return None
    pid = 1000 + ctx.stream("log").randrange(30_000)
    log = AgentLog(ctx, options, machine.log, names.node_agent, machine.spec.name, pid)
    where = f"{names.node_agent}/server.go:413"
    log.info(0, where, f"{names.node_agent.capitalize()} version", **{f"{names.node_agent}Version": version})
    return log


def log_event(log: AgentLog, about: Obj, type_: str, reason: str, message: str) -> None:
    """Log an event that is recorded.  about: its object"""
    name = Ref(about.get("name", ""), about.get("namespace", ""))
    fields = {
        "object": name,
        "fieldPath": about.get("fieldPath", ""),
        "kind": about.get("kind", ""),
        "apiVersion": about.get("apiVersion", ""),
        "type": type_,
        "reason": reason,
        "message": message,
    }
    log.info(3, "record/event.go:294", "Event occurred", **fields)


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
