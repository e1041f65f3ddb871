"""The answer to a request for a container's log.  Pure.

Turns a container and the options of a request into the bytes of the answer; a `LogReader` continues
where it has stopped.

Mirrors  pkg/kubelet/kubelet.go: GetKubeletContainerLogs, validateContainerLogStatus: the refusals;
         pkg/kubelet/kuberuntime/logs/logs.go: ReadLogs, logWriter.write (v1.25).
Holds    a file that has been rotated is not part of an answer, but a reader that follows a log
         loses no line by a rotation.
Differs  output at a rate takes disk space and has no text.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from actors.node.programs.waits import Source
from actors.node.runtime.containers import Container
from actors.node.runtime.log.output import Line
from actors.node.runtime.machine import Machine
from sim.api.streams import LogOptions
from sim.api.types import Obj
from sim.patterns import pattern
from sim.units import SECOND, format_micro_time

NOTHING = LogOptions()
_TIME = pattern(r"\{time ([^}]*)\}")
# The time in microseconds, and the reading of the wall clock at any such time.
Clock = tuple[int, Callable[[int], int]]


def find_container(
    pod: Obj | None, machine: Machine, wanted: tuple[str, str, bool], status: Obj
) -> tuple[Container | None, int, str]:
    """The instance of which the log is wanted; or None, an HTTP code and a text.

    wanted: pod, container, whether the previous instance is wanted
    status: of the pod
    """
    name, container, previous = wanted
    if pod is None:
        return None, 404, f'pod "{name}" does not exist'
    if container not in container_names(pod):
        return None, 404, f'container "{container}" not found in pod "{name}"'
    ident, refusal = _instance(status, name, container, previous)
    if refusal:
        return None, 400, refusal
    runtime = machine.pods.get(pod["metadata"]["uid"])
    for instance in runtime.instances(container) if runtime is not None else ():
        if instance.ident == ident:
            return instance, 200, ""
    return None, 400, f"unable to retrieve container logs for {ident}"


def container_names(pod: Obj) -> list[str]:
    """The names of all containers of a pod."""
    kinds = ("initContainers", "containers", "ephemeralContainers")
    return [container["name"] for kind in kinds for container in pod["spec"].get(kind) or ()]


def _instance(status: Obj, name: str, container: str, previous: bool) -> tuple[str, str]:
    """(id of the wanted instance, "") or ("", why there is none)."""
    about = f'container "{container}" in pod "{name}"'
    keys = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    shown = [one for key in keys for one in status.get(key) or () if one["name"] == container]
    if not shown:
        return "", f"{about} is not available"
    state = shown[0]["state"]
    ended, last = state.get("terminated"), (shown[0].get("lastState") or {}).get("terminated")
    if previous:
        ident = (last or {}).get("containerID", "")
        return ident, "" if ident else f"previous terminated {about} not found"
    if "running" in state:
        return str(shown[0]["containerID"]), ""
    if ended or last:
        ident = (ended or {}).get("containerID", "") or (last or {}).get("containerID", "")
        return ident, "" if ident else f"{about} is terminated"
    reason = str((state.get("waiting") or {}).get("reason", ""))
    texts = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}
    return "", f"{about} is waiting to start: {texts.get(reason, reason)}"


def _text_of(container: Container, machine: Machine | None = None) -> list[bytes]:
    """The lines of the text of a container's behaviour, which it writes at its start."""
    text = container.behaviour.log.rstrip("\n")
    if "{time " in text and machine is not None and machine.agent is not None:
        at_s = machine.agent.ctx.said_us(container.started_us) // SECOND
        text = _TIME.sub(lambda found: datetime.fromtimestamp(at_s, UTC).strftime(found[1]), text)
    return [f"{line}\n".encode() for line in text.split("\n")] if text else []


def _first_line(machine: Machine, container: Container) -> int:
    """The number of the first line of the newest file, counted from the container's first line."""
    log, output = machine.log_of(container), machine.output_of(container)
    if (log is not None and log.rotated) or (output is not None and (output.rotated or output.first)):
        return len(_text_of(container)) + (0 if output is None else output.first)
    return 0


def lines_of(machine: Machine, container: Container, number: int = 0) -> list[Line]:
    """The lines that a container has written, from a number on, of those that are kept.

    The text of its behaviour was written at its start; a program's lines follow.
    """
    text, output = _text_of(container, machine), machine.output_of(container)
    lines = [Line(container.started_us, "stdout", data) for data in text[number:]]
    return lines if output is None else [*lines, *output.after(number - len(text))]


class LogReader:
    """One reader of the log of a container's instance.

    done: True once the options want no further byte
    """

    __slots__ = ("_fresh", "_left", "_machine", "_options", "_read", "_since_us", "container", "done")

    def __init__(self, container: Container, machine: Machine, options: LogOptions, clock: Clock) -> None:
        now_us, said_us = clock
        self.container = container
        self._machine = machine
        self._options = options
        since_us = -1 if options.since_s is None else said_us(now_us) - options.since_s * SECOND
        self._since_us = max(since_us, -1 if options.since_us is None else options.since_us)
        self._left = options.limit
        self._read = _first_line(machine, container)
        if options.tail is not None:
            self._read += max(0, len(lines_of(machine, container, self._read)) - options.tail)
        self._fresh = True  # the last line was whole
        self.done = options.tail == 0 and not options.follow

    @property
    def written(self) -> Source | None:
        """What is ready when a program has written more; None if no program writes."""
        output = self._machine.output_of(self.container)
        return None if output is None else output.written

    def read(self, clock: Clock, most: int | None = None) -> list[tuple[str, bytes]]:
        """The next lines, each with its stream, up to the last that has been written.

        most: bytes after which it stops for now, at the end of a line
        """
        output = self._machine.output_of(self.container)
        if output is not None:  # lines that are no longer kept are lost
            kept = len(_text_of(self.container)) + output.first
            self._read = max(self._read, kept) if output.first else self._read
        found: list[tuple[str, bytes]] = []
        for line in lines_of(self._machine, self.container, self._read):
            if self.done or (most is not None and most <= 0):
                break
            self._read += 1
            data = self._shown(line, clock[1](line.at_us))
            if data:
                found.append((line.stream, data))
                most = None if most is None else most - len(data)
        return found

    def _shown(self, line: Line, at_us: int) -> bytes:
        """What is shown of a line; b"" if it is too old."""
        fresh, self._fresh = self._fresh, line.data.endswith(b"\n")
        if at_us < self._since_us:
            return b""
        data = line.data
        if self._options.timestamps and fresh:
            data = f"{_nano(at_us)} ".encode() + data
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
            self.done = not self._left
        return data

    def at_end(self, clock: Clock) -> bool:
        """True if nothing can follow: all is read, and the container does not run."""
        read = not lines_of(self._machine, self.container, self._read)
        return self.done or (read and not self.container.running(clock[0]))


def _nano(unix_us: int) -> str:
    """A time with nine digits of the second (pkg/kubelet/types: RFC3339NanoFixed)."""
    return f"{format_micro_time(unix_us).removesuffix('Z')}000Z"
