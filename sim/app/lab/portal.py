"""A Trio program in a thread of its own, and calls into it from any other thread.

A notebook has an event loop already, asyncio's or Trio's, and its cells are synchronous.  The
simulation therefore runs in a thread, and a call blocks the caller until it has been carried out.

Holds: calls are carried out one at a time, in order.  If the program ends by an exception, the call
that is being carried out raises it.  Ctrl-C in the caller's thread interrupts the
call (`interrupt`), and leaves the program as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

import trio

from sim.app.lab.copied import CopiedPortal, copied
from sim.errors import only_of

T = TypeVar("T")
Inside = TypeVar("Inside")
_CLOSE_S = 30.0  # real seconds: how long closing may take before the thread is left alone


class Portal(Generic[Inside]):
    """The thread, and the value of the context manager that it holds open.

    interrupt: called in the thread with that value when a call is interrupted
    """

    def __init__(
        self,
        manager: Callable[[], AbstractAsyncContextManager[Inside]],
        interrupt: Callable[[Inside], object],
        name: str,
    ) -> None:
        self._manager = manager
        self._interrupt = interrupt
        self._ready: Future[None] = Future()
        self._pending: Future[Any] = self._ready  # of the call that is being carried out
        self._token: trio.lowlevel.TrioToken | None = None
        self._send: trio.MemorySendChannel[tuple[Callable[[Inside], Any], Future[Any]]] | None = None
        self._inside: Inside | None = None
        # A daemon: an interpreter that ends does not wait for a notebook's clusters.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._ready.result()

    @property
    def open(self) -> bool:
        """True while calls can be made."""
        return self._token is not None

    def call(self, fn: Callable[[Inside], Awaitable[T] | T]) -> T:
        """The result of `fn`, called in the thread with the value that it holds.

        Raises what `fn` raises, and RuntimeError after `close`.
        """
        future: Future[T] = Future()
        self._post((fn, future))
        try:
            return future.result()
        except KeyboardInterrupt:
            self._interrupt_now()
            future.exception()  # the call ends at the next instant of virtual time
            raise

    def copied(self: Portal[Any]) -> CopiedPortal[Any] | None:
        """A portal into a copy of this process; None if it cannot be made."""
        copy: Callable[[Any], Any] = copied
        portal: CopiedPortal[Any] | None = self.call(copy)
        return portal

    def close(self) -> None:
        """End the program and its thread.  A second call has no effect."""
        token, self._token = self._token, None
        if token is not None and self._send is not None:
            token.run_sync_soon(self._send.close)
            self._thread.join(_CLOSE_S)

    # --- in the caller's thread -------------------------------------------------------------------

    def _post(self, job: tuple[Callable[[Inside], Any], Future[Any]]) -> None:
        token, send = self._token, self._send
        if token is None or send is None:
            raise RuntimeError("it is closed")
        token.run_sync_soon(send.send_nowait, job)

    def _interrupt_now(self) -> None:
        if self._token is not None:
            self._token.run_sync_soon(lambda: self._inside is not None and self._interrupt(self._inside))

    # --- in the program's thread ------------------------------------------------------------------

    def _run(self) -> None:
        end: BaseException = RuntimeError("the program has ended")
        try:
            trio.run(self._main)
        except BaseException as error:
            end = only_of(error)
        finally:
            self._token = None
            for future in (self._ready, self._pending):
                if not future.done():
                    future.set_exception(end)

    async def _main(self) -> None:
        send, receive = trio.open_memory_channel[tuple[Callable[[Inside], Any], "Future[Any]"]](1000)
        async with self._manager() as inside:
            self._token, self._send, self._inside = trio.lowlevel.current_trio_token(), send, inside
            self._ready.set_result(None)
            async for fn, future in receive:
                self._pending = future
                await self._carry_out(fn, future, inside)

    @staticmethod
    async def _carry_out(fn: Callable[[Inside], Any], future: Future[Any], inside: Inside) -> None:
        try:
            result = fn(inside)
            if isinstance(result, Awaitable):
                result = await result
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)
