"""Options of a request for a log: which lines are shown, and how."""

from __future__ import annotations

from actors.node.runtime.containers import Container, PodRuntime
from actors.node.runtime.log.output import ContainerLog
from actors.node.runtime.logs import LogReader
from actors.node.runtime.machine import Machine
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec
from sim.api.streams import LogOptions
from sim.units import SECOND

EPOCH_US = 1_700_000_000 * SECOND
NOW_US = 60 * SECOND


def said_us(at_us: int) -> int:
    return EPOCH_US + at_us


def written(*lines: tuple[int, str, bytes], text: str = "") -> tuple[Machine, Container, ContainerLog]:
    """A container that wrote its text at 0 s and then these lines, each at its second."""
    machine, log = Machine(NodeSpec("n1")), ContainerLog()
    container = Container(PodRuntime("u", "default", "p"), "c", 0, "i", ContainerBehaviour(log=text))
    container.started_us = 0
    machine.keep_output(container, log)
    for at_s, stream, data in lines:
        log.take(stream, data, at_s * SECOND)
    return machine, container, log


def shown(machine: Machine, container: Container, options: LogOptions) -> bytes:
    reader = LogReader(container, machine, options, (NOW_US, said_us))
    return b"".join(data for _, data in reader.read((NOW_US, said_us)))


def test_a_tail_counts_lines_before_old_ones_are_left_out() -> None:
    machine, container, _ = written((10, "stdout", b"a\n"), (50, "stderr", b"b\n"), (55, "stdout", b"c\n"))
    for options, wanted in (
        (LogOptions(), b"a\nb\nc\n"),
        (LogOptions(tail=0), b""),
        (LogOptions(tail=2), b"b\nc\n"),
        (LogOptions(tail=9), b"a\nb\nc\n"),
        (LogOptions(since_s=10), b"b\nc\n"),
        (LogOptions(since_s=9), b"c\n"),
        (LogOptions(since_us=said_us(51 * SECOND)), b"c\n"),
        (LogOptions(tail=1, since_s=2), b""),
        (LogOptions(since_s=100, since_us=said_us(20 * SECOND)), b"b\nc\n"),
    ):
        assert shown(machine, container, options) == wanted, options


def test_a_limit_counts_bytes_with_timestamps_and_cuts_a_line() -> None:
    machine, container, _ = written((1, "stdout", b"one\n"), (2, "stdout", b"two\n"), text="zero")
    first = b"2023-11-14T22:13:20.000000000Z zero\n"
    assert shown(machine, container, LogOptions(timestamps=True, limit=40)) == first + b"2023"
    assert shown(machine, container, LogOptions(limit=5)) == b"zero\n"
    assert shown(machine, container, LogOptions(limit=7)) == b"zero\non"


def test_a_partial_line_has_one_timestamp() -> None:
    machine, container, log = written((1, "stdout", b"x" * (16 * 1024 + 5) + b"\n"))
    found = shown(machine, container, LogOptions(timestamps=True))
    assert len(log.lines) == 2
    assert found == b"2023-11-14T22:13:21.000000000Z " + b"x" * (16 * 1024 + 5) + b"\n"


def test_a_reader_that_follows_loses_nothing_at_a_rotation_and_repeats_nothing() -> None:
    machine, container, log = written((1, "stdout", b"a\n"), text="zero")
    reader = LogReader(container, machine, LogOptions(follow=True), (NOW_US, said_us))
    clock = NOW_US, said_us
    assert [data for _, data in reader.read(clock)] == [b"zero\n", b"a\n"]
    log.rotate(5)
    log.take("stderr", b"b\n", NOW_US)
    assert reader.read(clock) == [("stderr", b"b\n")] and reader.read(clock) == []
    assert shown(machine, container, LogOptions()) == b"b\n"
    assert not reader.at_end(clock)
    container.end(NOW_US, 0)
    assert reader.at_end(clock)


def test_a_reader_stops_after_a_line_with_enough_bytes() -> None:
    machine, container, _ = written((1, "stdout", b"aa\nbb\ncc\n"))
    reader = LogReader(container, machine, LogOptions(follow=True), (NOW_US, said_us))
    clock = NOW_US, said_us
    assert [len(reader.read(clock, most=4)) for _ in range(3)] == [2, 1, 0]
