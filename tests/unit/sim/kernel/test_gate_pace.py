"""Outside operations on a paced kernel."""

import trio

from sim.kernel import NEVER_US, Kernel


async def test_what_an_outside_operation_plans_for_at_once_is_done_without_another_push() -> None:
    kernel = Kernel()
    kernel.gate.handle("ask", lambda payload, done: kernel.call_later(0, done, payload))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kernel.run)
        kernel.set_rate(10)
        kernel.set_goal(NEVER_US)
        await trio.sleep(0.005)
        with trio.fail_after(2):
            assert [await kernel.gate.submit("ask", n) for n in range(20)] == list(range(20))
        kernel.stop()
