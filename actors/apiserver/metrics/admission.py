"""What admission counts for a reader of metrics.

Turns passes of the admission chain, and calls of webhooks in them, into histograms of
`Kernel.meters`.

Holds: of a pass that a plugin refuses, the plugins up to that one are counted, as refused the last.

Mirrors  kubernetes v1.25 apiserver pkg/admission/metrics/metrics.go.
Differs  plugins take no virtual time; a webhook takes the time until its answer.  The quantiles of
         the summary are of all values since the first reader, not of the last five hours.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import lru_cache
from typing import TypeVar

from sim.api.admission.base import Operation
from sim.api.admission.handled import VALIDATE, Pass, handlers
from sim.api.refusals import Refusal
from sim.api.store import Answer, Op
from sim.kernel.meters import Meters
from sim.units import SECOND

PREFIX = "apiserver_admission_"
STEP = f"{PREFIX}step_admission_duration_seconds"
CONTROLLER = f"{PREFIX}controller_admission_duration_seconds"
T = TypeVar("T")


class Admission:
    """The counts of one replica.

    meters: returns where to count; None while there is no reader
    now_us: virtual time
    running: the plugins that are on
    """

    def __init__(
        self, meters: Callable[[], Meters | None], now_us: Callable[[], int], running: tuple[str, ...]
    ) -> None:
        self.meters, self._now_us = meters, now_us
        self._plugins = lru_cache(maxsize=None)(lambda operation, kind: handlers(running, operation, kind))

    def counter(self) -> Callable[[str, tuple[str, ...]], None] | None:
        """Where plugins count; None while there is no reader."""
        meters = self.meters()
        return None if meters is None else meters.count

    def refused(self, operation: Operation, kind: Pass, plugin: str, took_s: float = 0.0) -> None:
        """Count a pass that a plugin refuses."""
        meters = self.meters()
        if meters is None:
            return
        for name in self._plugins(operation, kind):
            if name == plugin:
                break
            meters.observe(CONTROLLER, (name, kind, operation.upper(), "false"), 0.0)
        meters.observe(CONTROLLER, (plugin, kind, operation.upper(), "true"), took_s)
        self._step(meters, operation, kind, "true", took_s)

    def passed(self, operation: Operation, kind: Pass, webhook: str = "", took_s: float = 0.0) -> None:
        """Count a pass without a refusal.  webhook: the plugin that took the time"""
        meters = self.meters()
        if meters is None:
            return
        for name in self._plugins(operation, kind):
            spent_s = took_s if name == webhook else 0.0
            meters.observe(CONTROLLER, (name, kind, operation.upper(), "false"), spent_s)
        self._step(meters, operation, kind, "false", took_s)

    def _step(self, meters: Meters, operation: Operation, kind: Pass, rejected: str, took_s: float) -> None:
        labels = kind, operation.upper(), rejected
        meters.observe(STEP, labels, took_s)
        meters.sample(f"{STEP}_summary", labels, took_s)

    def called(
        self, run: Generator[Op, Answer, T], operation: Operation, kind: Pass, webhook: str, *, ends: bool
    ) -> Generator[Op, Answer, T]:
        """A run of webhooks, which is counted at its end.  ends: True if the pass ends with it"""
        begun_us = self._now_us()
        try:
            result = yield from run
        except Refusal:
            self.refused(operation, kind, webhook, (self._now_us() - begun_us) / SECOND)
            raise
        if ends:
            self.passed(operation, kind, webhook, (self._now_us() - begun_us) / SECOND)
        return result

    def charged(self, run: Generator[Op, Answer, None], operation: Operation) -> Generator[Op, Answer, None]:
        """A charge of quotas, with which the validating pass ends."""
        try:
            yield from run
        except Refusal:
            self.refused(operation, VALIDATE, "ResourceQuota")
            raise
        self.passed(operation, VALIDATE)


def operation_of(obj: object, old: object) -> Operation:
    """The operation by which a stored object becomes another; None: there is none."""
    return "delete" if obj is None else "create" if old is None else "update"
