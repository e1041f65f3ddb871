"""Work from outside and its replay; the trace file; links and the rules over them."""

import errno
import io
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sim.kernel import (
    Context,
    Kernel,
    Operation,
    Rule,
    Trace,
    read,
    read_header,
)
from sim.kernel.network import Purpose
from sim.kernel.trace.records import BATCH
from sim.units import Virtual
from tests.unit.sim.kernel.test_kernel import running


async def disturbed(replay: list[Operation] | None = None, end_us: int = 0) -> Kernel:
    """A run that outside operations disturb at arbitrary moments, or the replay of one up to its
    end.
    """
    kernel = Kernel(5, replay=replay)
    kind = kernel.kind("seen", "what")

    def bump(payload: Any, done: Callable[[Any], None]) -> None:
        kernel.record(kind, (payload,))
        kernel.call_later(3, lambda _: done(payload * 2))

    kernel.gate.handle("bump", bump)
    async with running(kernel) as supervisor:

        async def main(ctx: Context) -> None:
            random = ctx.stream("x")
            while True:
                await ctx.sleep_us(1 + int(10 * random.random()))
                kernel.record(kind, (ctx.name,))

        for index in range(5):
            supervisor.add(f"a{index}", main)
        if replay is None:
            kernel.set_goal(1_000_000_000)
            for number in range(5):
                assert await kernel.gate.submit("bump", number) == number * 2
            end_us = kernel.now_us + 100
        await kernel.run_until(end_us)
    return kernel


async def test_a_journalled_run_replays_to_the_same_hash() -> None:
    live = await disturbed()
    journal = live.gate.journal
    assert [op.payload for op in journal] == [0, 1, 2, 3, 4]
    again = await disturbed(journal, live.now_us)
    assert (again.steps, again.gate.journal) == (live.steps, live.gate.journal)
    assert again.trace.sha256() == live.trace.sha256()
    without = await disturbed([], live.now_us)
    assert without.trace.sha256() != live.trace.sha256()


def test_a_trace_file_gives_back_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    trace = Trace(path, {"seed": 9})
    write = trace.kind("write", "key", "rev")
    first = trace.add(write, 5, 0, ("a", 1))
    trace.add(write, 7, first, ("b", 2))
    digest = trace.sha256()
    trace.close()
    assert read_header(path)["seed"] == 9
    assert [(r.ident, r.at_us, r.cause, r.kind, dict(r.values)) for r in read(path)] == [
        (1, 5, 0, "write", {"key": "a", "rev": 1}),
        (2, 7, 1, "write", {"key": "b", "rev": 2}),
    ]
    other = Trace()
    kind = other.kind("write", "key", "rev")
    other.add(kind, 5, 0, ("a", 1))
    assert other.sha256() != digest
    other.add(kind, 7, 1, ("b", 2))
    assert other.sha256() == digest


def test_places_of_the_header_are_read_into_records_and_not_hashed(tmp_path: Path) -> None:
    def write(name: str, header: dict[str, object]) -> str:
        trace = Trace(tmp_path / name, header)
        kind = trace.kind("step", "name")
        for step in ("a", "b/2", "c"):
            trace.add(kind, 5, 0, (step,))
        trace.close()
        return trace.sha256()

    places = {"step": {"a": "x.yaml:1:2", "b": "x.yaml:3:4"}}
    assert write("placed", {"places": places}) == write("plain", {})
    assert [dict(record.values) for record in read(tmp_path / "placed")] == [
        {"name": "a", "place": "x.yaml:1:2"},
        {"name": "b/2", "place": "x.yaml:3:4"},
        {"name": "c"},
    ]


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("hello")
    with pytest.raises(ValueError, match="not a trace file"):
        read_header(path)


def test_a_partition_cuts_the_named_pairs_only_and_heals() -> None:
    network = Kernel(1).network
    ab, ba, ac = network.link("a", "b"), network.link("b", "a"), network.link("a", "c")
    network.impose(Rule("p", frozenset({"a"}), frozenset({"b"}), cut=True))
    assert (ab.up, ba.up, ac.up, network.link("b", "a").up) == (False, False, True, False)
    network.lift("p")
    assert ab.up and ba.up


def test_a_one_way_cut_leaves_the_other_direction() -> None:
    network = Kernel(1).network
    network.impose(Rule("p", frozenset({"a"}), None, cut=True, both_ways=False))
    assert not network.link("a", "b").up
    assert network.link("b", "a").up


def test_delays_of_a_link_depend_on_its_names_and_the_instant_only() -> None:
    def draws(instants: list[int]) -> dict[int, int]:
        link = Kernel(4).network.link("a", "b")
        return {at_us: link.delay_us(link.draw(at_us)) for at_us in instants}

    instants = list(range(1000, 1200))
    assert draws(instants) == draws(instants[::-1])
    assert all(200 <= delay < 800 for delay in draws(instants).values())
    assert len(set(draws(instants).values())) > 100


def test_a_lot_depends_on_what_the_request_is_for() -> None:
    link = Kernel(4).network.link("a", "b")
    assert len({link.draw(7, purpose) for purpose in Purpose}) == len(Purpose)


def test_loss_shows_as_retransmission() -> None:
    network = Kernel(4).network
    network.impose(Rule("bad", None, None, loss=0.5))
    link = network.link("a", "b")
    assert max(link.delay_us(link.draw(at_us)) for at_us in range(50)) > 200_000


def test_a_share_of_requests_arrives_twice_while_the_rule_is_in_force() -> None:
    network = Kernel(4).network
    link = network.link("a", "b")
    rule = Rule("twice", frozenset({"a"}), None, duplication=0.3, both_ways=False)
    network.impose(rule)
    assert 250 <= sum(link.duplicates(link.draw(at_us)) for at_us in range(1000)) <= 350
    assert network.link("b", "a").duplication == 0
    network.lift("twice")
    assert not any(link.duplicates(link.draw(at_us)) for at_us in range(100))


def test_link_listener_is_called_before_and_after_a_cut() -> None:
    network, heard = Kernel(1).network, []
    link = network.link("a", "b")
    link.listeners.append(lambda: heard.append(link.up))
    network.impose(Rule("p", frozenset({"a"}), None, cut=True))
    network.lift("p")
    assert heard == [True, False, False, True]


def test_trace_that_is_not_needed_continues_without_a_full_file(tmp_path: Path) -> None:
    class Full(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    hashes = []
    for needed in (False, True):
        with closing(Trace(tmp_path / f"{needed}.trace", needed=needed)) as trace:
            kind = trace.kind("step", "name")
            if not needed:
                assert trace._file is not None
                trace._file.close()
                trace._file = Full()
            for number in range(2 * BATCH):
                trace.add(kind, Virtual(number), 0, ("x",))
            hashes.append(trace.sha256())
            if not needed:
                with pytest.raises(ValueError, match="keeps no records"):
                    trace.so_far().copy(tmp_path / "copy")
    assert hashes[0] == hashes[1]
