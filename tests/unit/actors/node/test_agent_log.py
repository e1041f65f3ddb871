"""Lines of an agent's log: formats, levels, and the streams and files in which they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actors.node.agent_log import klog_of
from sim.errors import InputError
from sim.klog import Ref
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND, parse_time

NOON = parse_time("2022-11-28T16:00:00Z") + 123_456
ALPHA = {"feature-gates": "LoggingAlphaOptions=true"}


class Clock:
    """A context of which only the time and later calls are used."""

    def __init__(self) -> None:
        self.kernel = SimpleNamespace(now_us=0, epoch_us=NOON)
        self.later: list[tuple[int, Callable[[Any], None]]] = []

    def wall_us(self) -> int:
        return NOON + int(self.kernel.now_us)

    def call_later_us(self, delay_us: int, fn: Callable[[Any], None], _: Any = None) -> None:
        self.later.append((self.kernel.now_us + delay_us, fn))

    def on_stop(self, hook: Callable[[], None]) -> None:
        self.later.append((1 << 60, lambda _: hook()))

    def run_until(self, at_us: int) -> None:
        due = [call for call in self.later if call[0] <= at_us]
        self.later = [call for call in self.later if call[0] > at_us]
        self.kernel.now_us = at_us
        for _, fn in due:
            fn(None)


class World:
    """A log and what it has written, by stream or file."""

    def __init__(self, **flags: Any) -> None:
        self.clock, self.written = Clock(), dict[str, str]()
        options = parse_node_agent({name.replace("_", "-"): value for name, value in flags.items()})
        context: Any = self.clock
        self.log = klog_of(context, options, self._take, "kubelet", "n", 4321)

    def _take(self, name: str, text: str | None) -> None:
        self.written[name] = "" if text is None else self.written.get(name, "") + text

    def write(self, level: int = 0) -> World:
        self.log.info(level, "kubelet/server.go:7", "It runs", pod=Ref("a", "b"), number=5, on=True)
        return self

    def fail(self) -> World:
        where = "kubelet/server.go:8"
        self.log.error(where, "It fails", 'no "room"')
        return self

    def lines(self, name: str = "stderr") -> list[str]:
        return self.written.get(name, "").splitlines()


HEADER = "I1128 16:00:00.123456    4321 server.go:7] "
BODY = '"It runs" pod="b/a" number=5 on=true'


def test_line_of_text_has_the_header_of_klog() -> None:
    assert World().write().lines() == [HEADER + BODY]
    (line,) = World().fail().lines()
    assert line == 'E1128 16:00:00.123456    4321 server.go:8] "It fails" err="no \\"room\\""'


def test_line_of_json_has_the_fields_of_the_message() -> None:
    info, error = map(json.loads, World(logging_format="json").write().fail().lines())
    at = {"ts": NOON / 1000}
    pod = {"name": "a", "namespace": "b"}
    assert info == {
        **at, "caller": "kubelet/server.go:7", "msg": "It runs", "v": 0, "pod": pod, "number": 5, "on": True,
    }  # fmt: skip
    assert error == {**at, "caller": "kubelet/server.go:8", "msg": "It fails", "err": 'no "room"'}


@pytest.mark.parametrize(
    ("flags", "levels"),
    [({}, 1), ({"v": 2}, 3), ({"vmodule": "server=3"}, 4), ({"v": 2, "vmodule": "s*r=1,server=3"}, 2)],
)
def test_level_of_the_file_decides_what_is_logged(flags: dict[str, Any], levels: int) -> None:
    world = World(**flags)
    for level in range(6):
        world.write(level)
    assert len(world.lines()) == levels


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ({"skip_headers": True}, BODY),
        ({"add_dir_header": True}, HEADER.replace("server", "kubelet/server") + BODY),
    ],
)
def test_header_has_what_the_options_say(flags: dict[str, Any], line: str) -> None:
    assert World(**flags).write().lines() == [line]


FILE = {"logtostderr": False, "log_file": "/var/log/agent.log", "skip_log_headers": True}


@pytest.mark.parametrize(
    ("more", "on_stderr"),
    [({}, 1), ({"stderrthreshold": 3}, 0), ({"stderrthreshold": "INFO"}, 2), ({"alsologtostderr": True}, 2)],
)
def test_lines_of_a_file_are_on_standard_error_from_a_severity_on(
    more: dict[str, Any], on_stderr: int
) -> None:
    world = World(**FILE, **more).write().fail()
    assert len(world.lines()) == on_stderr
    assert world.lines("/var/log/agent.log") == []
    world.clock.run_until(5 * SECOND)
    assert len(world.lines("/var/log/agent.log")) == 2


@pytest.mark.parametrize(("period", "at_us"), [("5s", 5 * SECOND), ("2s", 2 * SECOND)])
def test_file_is_written_at_the_next_flush(period: str, at_us: int) -> None:
    world = World(**FILE, log_flush_frequency=period).write()
    world.clock.run_until(at_us - 1)
    assert world.lines("/var/log/agent.log") == []
    world.clock.run_until(at_us)
    assert world.lines("/var/log/agent.log") == [HEADER + BODY]


@pytest.mark.parametrize(("more", "counts"), [({}, (2, 1, 1)), ({"one-output": True}, (1, 0, 1))])
def test_directory_has_a_file_of_each_severity(more: dict[str, Any], counts: tuple[int, int, int]) -> None:
    world = World(logtostderr=False, log_dir="/logs", skip_log_headers=True, **more).write().fail()
    world.clock.run_until(5 * SECOND)
    names = [f"/logs/kubelet.n.root.log.{each}.20221128-160000.4321" for each in ("INFO", "WARNING", "ERROR")]
    assert tuple(len(world.lines(name)) for name in names) == counts


@pytest.mark.parametrize(("size", "is_whole"), [(0, True), (1, False)])
def test_file_is_emptied_when_it_is_full(size: int, is_whole: bool) -> None:
    world = World(**FILE, log_file_max_size=size)
    for _ in range(300):
        world.log.info(0, "kubelet/server.go:7", 10_000 * "x")
    world.clock.run_until(5 * SECOND)
    found = world.written["/var/log/agent.log"]
    assert (len(found.splitlines()) == 300) is is_whole
    assert (len(found) < 1 << 20) is not is_whole


def test_file_begins_with_the_process_unless_it_is_left_out() -> None:
    world = World(**{**FILE, "skip_log_headers": False}).write()
    world.clock.run_until(5 * SECOND)
    lines = world.lines("/var/log/agent.log")
    assert lines[0] == "Log file created at: 2022/11/28 16:00:00" and lines[1] == "Running on machine: n"
    assert lines[4:] == [HEADER + BODY]


def test_streams_of_json_are_split_and_buffered() -> None:
    split = {
        "logging_format": "json",
        "log_json_split_stream": True,
        **{k.replace("-", "_"): v for k, v in ALPHA.items()},
    }
    world = World(**split).write().fail()
    assert (len(world.lines()), len(world.lines("stdout"))) == (1, 1)
    world = World(**split, log_json_info_buffer_size="1Ki").write().fail()
    assert (len(world.lines()), len(world.lines("stdout"))) == (1, 0)
    for _ in range(10):
        world.write()
    assert len(world.lines("stdout")) > 5
    world.clock.run_until(5 * SECOND)
    assert len(world.lines("stdout")) == 11


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"logging-format": "xml"}, "must be one of text, json"),
        ({"logging-format": "json", "vmodule": "a=1"}, "vmodule: Only supported for text log format"),
        ({"logging-format": "json", "log-dir": "/l"}, "Non-default format doesn't honor flag: log-dir"),
        ({"log-json-split-stream": True}, "Feature LoggingAlphaOptions is disabled"),
        (
            {"logging-format": "json", "feature-gates": "LoggingBetaOptions=false"},
            "Log format json is disabled, see LoggingBetaOptions feature",
        ),
        ({"vmodule": "a"}, "levels of files"),
        ({"log-backtrace-at": ":0"}, "a simulated process has no stack"),
    ],
)
def test_wrong_option_of_the_log_is_refused(flags: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_node_agent(flags)
