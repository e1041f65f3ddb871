"""Operations on volumes: one at a time for each name, and after a failure not again for a while.

Holds: an operation of a name does not begin while another one of that name runs, or in the pause
       after its last failure, which doubles with each failure in a row; a success ends the pauses.

Mirrors  kubernetes v1.25 pkg/util/goroutinemap (goroutinemap.go, exponentialbackoff), which
         pkg/volume/util/nestedpendingoperations repeats.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sim.dataclass import dataclass
from sim.kernel import Context
from sim.units import MS, SECOND

INITIAL_US = 500 * MS  # initialDurationBeforeRetry
MAX_US = 122 * SECOND  # maxDurationBeforeRetry
Operation = Callable[[], Awaitable[str | None]]


@dataclass(slots=True)
class _State:
    """kind: of the last operation
    running: True while the operation runs
    pause_us: after the failure at failed_us
    """

    kind: str = ""
    running: bool = False
    pause_us: int = 0
    failed_us: int = 0


class Operations:
    """The operations of one controller."""

    def __init__(self, ctx: Context, name: str) -> None:
        self._ctx = ctx
        self._name = name
        self._states: dict[str, _State] = {}
        self._failed = ctx.kernel.kind("sync-error", "queue", "key", "error")

    def is_pending(self, key: str) -> bool:
        """True while an operation of this name runs."""
        state = self._states.get(key)
        return state is not None and state.running

    def wait_us(self, key: str, kind: str = "") -> int:
        """The rest of the pause after a failure of this kind; 0 if an operation may begin."""
        state = self._states.get(key)
        if state is None or not state.pause_us or state.kind != kind:
            return 0
        return max(0, state.failed_us + state.pause_us - self._ctx.now_us())

    def run(self, key: str, operation: Operation, kind: str = "") -> bool:
        """Begin an operation, which returns an error text or None; False if it may not begin now.

        kind: operations of different kinds have no common pauses
        """
        state = self._states.setdefault(key, _State(kind))
        if state.running or self.wait_us(key, kind):
            return False
        if state.kind != kind:
            state.kind, state.pause_us = kind, 0
        state.running = True
        self._ctx.spawn(self._carry_out, key, state, operation, name=f"{self._name} {key}")
        return True

    async def _carry_out(self, key: str, state: _State, operation: Operation) -> None:
        error = await operation()
        state.running = False
        if error is None:
            del self._states[key]
            return
        self._ctx.record(self._failed, (self._name, key, error))
        state.pause_us = min(MAX_US, 2 * state.pause_us) if state.pause_us else INITIAL_US
        state.failed_us = self._ctx.now_us()
