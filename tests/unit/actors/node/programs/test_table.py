"""Processes run up to their next wait, wake each other, and end as Linux would end them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from actors.node.programs.ends import End, Output, pipe, receive, send
from actors.node.programs.process import Identity, NoProcess, Process, Signal
from actors.node.programs.table import REST_US, TURNS, Table
from actors.node.programs.waits import PAUSE, Main, Wait


def started(table: Table, main: Callable[[Process], Main], ends: Mapping[int, End] | None = None) -> Process:
    """Start a program in the container "c"."""
    return table.spawn(main, "c", ("p",), {}, "/", Identity(), ends=dict(ends or {}))


def sleeper(until_us: int) -> Callable[[Process], Main]:
    """A program that ends with 3 at an instant."""

    def main(process: Process) -> Main:
        while process.now_us < until_us and not process.pending:
            yield Wait(until_us=until_us)
        return 3

    return main


def test_a_sleeper_continues_at_its_instant_and_ends_with_its_code() -> None:
    table = Table(lambda: None)
    process = started(table, sleeper(500))
    table.run(0)
    assert (table.next_us, process.ended.code) == (500, -1)
    table.run(500)
    assert (table.next_us, process.ended.code, table.processes) == (None, 3, ())


def test_a_pipe_hands_on_more_than_it_holds_and_then_its_end() -> None:
    table, seen = Table(lambda: None), list[bytes]()
    reader, writer = pipe(size=4)

    def writes(process: Process) -> Main:
        yield from send(process.ends[1], b"0123456789")
        return 0

    def reads(process: Process) -> Main:
        while data := (yield from receive(process.ends[0])):
            seen.append(data)
        return 0

    started(table, writes, ends={1: writer})
    started(table, reads, ends={0: reader})
    table.run(0)
    assert b"".join(seen) == b"0123456789"
    assert max(map(len, seen)) == 4
    assert not table.processes


def test_a_writer_without_a_reader_ends_by_sigpipe() -> None:
    table = Table(lambda: None)
    reader, writer = pipe()
    reader.close()

    def writes(process: Process) -> Main:
        yield from send(process.ends[1], b"x")
        return 0

    process = started(table, writes, ends={1: writer})
    table.run(0)
    assert process.ended.code == 128 + Signal.PIPE


def test_process_1_ends_only_by_sigkill_from_outside() -> None:
    table = Table(lambda: None)
    first = started(table, sleeper(500))
    second = started(table, sleeper(500))
    table.run(0)
    for process in (first, second):
        table.signal(process, Signal.TERM)
    assert (first.ended.code, second.ended.code) == (-1, 143)
    table.signal(first, Signal.KILL)
    assert first.ended.code == -1
    table.signal(first, Signal.KILL, outside=True)
    assert first.ended.code == 137


@pytest.mark.parametrize(("deaf", "ends_at_once"), [(False, True), (True, False)])
def test_a_caught_signal_ends_a_wait_that_is_not_deaf(deaf: bool, ends_at_once: bool) -> None:
    stirs = list[int]()
    table = Table(lambda: stirs.append(1))

    def main(process: Process) -> Main:
        process.caught.add(Signal.TERM)
        yield Wait(until_us=900, deaf=deaf)
        return len(process.pending)

    process = started(table, main)
    table.run(0)
    stirs.clear()
    table.signal(process, Signal.TERM)
    assert bool(stirs) is ends_at_once
    table.run(1)
    assert process.ended.ready is ends_at_once
    table.run(900)
    assert process.ended.code == 1


def test_a_program_that_never_waits_rests_longer_and_longer() -> None:
    table, turns = Table(lambda: None), list[int]()

    def main(process: Process) -> Main:
        while True:
            turns.append(process.now_us)
            yield PAUSE

    started(table, main)
    table.run(0)
    assert len(turns) == TURNS
    assert table.next_us == REST_US
    table.run(REST_US)
    assert len(turns) == 2 * TURNS
    assert table.next_us == 3 * REST_US


def test_the_end_of_a_container_ends_its_processes_and_closes_their_pipes() -> None:
    table = Table(lambda: None)
    reader, writer = pipe()
    process = started(table, sleeper(500), ends={1: writer})
    table.run(0)
    table.kill("c")
    assert (process.ended.code, reader.read(1)) == (137, b"")


def test_a_process_that_kills_itself_ends_at_its_next_wait() -> None:
    table = Table(lambda: None)
    started(table, sleeper(500))

    def main(process: Process) -> Main:
        table.signal(process, Signal.KILL)
        yield PAUSE
        return 0

    process = started(table, main)
    table.run(0)
    assert process.ended.code == 137


def test_a_pod_with_all_its_processes_starts_no_other() -> None:
    table = Table(lambda: None, limit=1)
    started(table, sleeper(500))
    reader, writer = pipe()
    with pytest.raises(NoProcess):
        started(table, sleeper(500), ends={1: writer})
    assert reader.read(1) == b""


def test_what_a_program_writes_goes_where_its_descriptor_leads() -> None:
    table, log = Table(lambda: None), list[bytes]()

    def main(process: Process) -> Main:
        yield from send(process.ends[1], b"hello\n")
        return 0

    started(table, main, ends={1: Output(log.append)})
    table.run(0)
    assert log == [b"hello\n"]


def test_a_child_inherits_the_mask_of_permissions() -> None:
    table = Table(lambda: None)
    parent = started(table, sleeper(1))
    parent.umask = 0o077
    assert parent.child(sleeper(1), ("c",)).umask == 0o077
