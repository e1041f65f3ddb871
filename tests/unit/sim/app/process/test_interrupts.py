"""Interrupts of a run of Trio."""

from __future__ import annotations

import signal

import pytest
import trio

from sim.app.process.interrupts import interruptible


@pytest.mark.parametrize("waits_s", [0, 3600])
def test_interrupt_ends_a_run_at_its_next_wait_and_not_before(waits_s: float) -> None:
    done: list[str] = []

    async def child() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append("child")

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            await trio.sleep(waits_s)
            await trio.sleep(waits_s)
            done.append("run")

    with pytest.raises(BaseExceptionGroup) as raised:
        interruptible(run)
    assert raised.value.subgroup(KeyboardInterrupt)
    assert done == ["child"]
