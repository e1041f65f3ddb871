"""What a metrics server has scraped of node agents: two points of each container, and their usage.

Turns readings each 15 s, as /metrics/resource has them, into the use of CPU between the last two of
them and the last use of memory, with the time and the window that the metrics API shows.

Holds: all clients see the same scrape; nothing is scraped once no client has asked for `IDLE_US`.

Mirrors  kubernetes-sigs/metrics-server v0.6 pkg/storage/{pod,node,types}.go: a container that is 10
         to 15 s old counts from its start, a restart begins again, a pod counts if all of its
         containers do, and what the last scrape did not reach has no metrics.
Differs  scraping begins with the first question, of which the answer takes the present use for
         that of the window before; all nodes are scraped at one instant, without a delay of up to
         4 s each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sim.kernel import Kernel
from sim.kernel.causes import without_cause
from sim.units import MINUTE, SECOND

PERIOD_US = 15 * SECOND  # metrics-server: --metric-resolution
FRESH_US = 10 * SECOND  # freshContainerMinMetricsResolution
IDLE_US = 5 * MINUTE


class Point(NamedTuple):
    """A reading of a container or a node.

    cpu_ns: since its start; rate: thousandths of a core that it uses now
    """

    started_us: int
    at_us: int
    cpu_ns: int
    memory: int
    rate: int

    def before(self) -> Point | None:
        """A reading one window earlier, had the use been the same; None if it had hardly started."""
        age_us = self.at_us - self.started_us
        if age_us < FRESH_US:
            return None
        window_us = min(age_us, PERIOD_US)
        return self._replace(at_us=self.at_us - window_us, cpu_ns=self.cpu_ns - self.rate * window_us)


Points = Mapping[str, Point]


class Reading(NamedTuple):
    """One scrape.

    pods: by uid, the points by container; causes: of the uses of pods; nodes: by name
    """

    pods: Mapping[str, Points]
    causes: Mapping[str, int]
    nodes: Points


class Usage(NamedTuple):
    """The use over a window.  parts: billionths of a core, and bytes, by container

    at_us: the end of the window
    """

    parts: Mapping[str, tuple[int, int]]
    at_us: int
    window_us: int
    cause: int = 0


def _follows(new: Point, last: Point | None) -> Point | None:
    """The point before a new one."""
    age_us = new.at_us - new.started_us
    if FRESH_US <= age_us < PERIOD_US:
        return new._replace(at_us=new.started_us, cpu_ns=0)
    return last if last is not None and new.started_us < last.at_us < new.at_us else None


def _usage(last: Points, before: Mapping[str, Point | None], cause: int) -> Usage | None:
    parts: dict[str, tuple[int, int]] = {}
    ends: list[tuple[int, int]] = []
    for name, point in last.items():
        earlier = before.get(name)
        if earlier is None:
            return None
        window_us = point.at_us - earlier.at_us
        parts[name] = max(0, point.cpu_ns - earlier.cpu_ns) * SECOND // window_us, point.memory
        ends.append((point.at_us, window_us))
    return Usage(parts, *min(ends), cause) if parts else None


class Scrapes:
    """The two last scrapes.  read: the agents that answer"""

    def __init__(self, kernel: Kernel, read: Callable[[], Reading]) -> None:
        self._kernel, self._read = kernel, read
        self._phase_us = int(kernel.stream("metrics-server").random() * PERIOD_US)
        self._asked_us = -1
        self._last = Reading({}, {}, {})
        self._pods: dict[str, Usage | None] = {}
        self._nodes: dict[str, Usage | None] = {}

    def pod(self, uid: str) -> Usage | None:
        """What a pod has used; None if that is not known."""
        self._asked()
        return self._pods.get(uid)

    def node(self, name: str) -> Usage | None:
        """What a node has used; its one part has its name."""
        self._asked()
        return self._nodes.get(name)

    def _asked(self) -> None:
        begins, self._asked_us = self._asked_us < 0, self._kernel.now_us
        if begins:
            self._take(Point.before)
            with without_cause(self._kernel):
                self._plan()

    def _plan(self) -> None:
        self._kernel.call_later(PERIOD_US - (self._kernel.now_us - self._phase_us) % PERIOD_US, self._tick)

    def _tick(self, _: object) -> None:
        if self._kernel.now_us - self._asked_us > IDLE_US:
            self._asked_us = -1
            return
        self._take(None)
        self._plan()

    def _take(self, first: Callable[[Point], Point | None] | None) -> None:
        """Scrape.  first: gives the point before another, where nothing was scraped before"""
        new, last = self._read(), self._last

        def usage(points: Points, known: Points, cause: int = 0) -> Usage | None:
            before = {
                name: first(point) if first is not None else _follows(point, known.get(name))
                for name, point in points.items()
            }
            return _usage(points, before, cause)

        self._pods = {
            uid: usage(points, last.pods.get(uid, {}), new.causes[uid]) for uid, points in new.pods.items()
        }
        self._nodes = {name: usage({name: point}, last.nodes) for name, point in new.nodes.items()}
        self._last = new
