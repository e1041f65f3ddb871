"""The pages of a secure port: health, metrics, configuration, profiles and verbosity.

Mirrors  kubernetes v1.25 cmd/kube-scheduler/app/server.go (newHealthzAndMetricsHandler),
         controller-manager app/serve.go (NewBaseHandler), client-go tools/leaderelection
         (healthzadaptor.go), component-base configz.
Differs  /livez and /readyz have the checks of /healthz (v1.25 has /healthz alone).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

from sim.api.types import Obj
from sim.app.measured.resources import show_resources
from sim.app.measured.shown import (
    as_shown,
    build_info,
    memory_limit,
    merged,
    process_of,
    runtime,
    show_processes,
)
from sim.app.serving.profiler import Profiler
from sim.app.serving.version import version
from sim.ident import Names
from sim.kernel import Kernel
from sim.kernel.meters import Meters
from sim.options.groups.metrics import MetricsFlags
from sim.wire.exchange import Exchange, Response
from sim.wire.http.chain.request import response_of
from sim.wire.http.forms.rendering import Answer
from sim.wire.http.measures.families import BOUNDS, RESOURCES, families
from sim.wire.http.measures.text import text_format
from sim.wire.http.pages import pprof
from sim.wire.http.pages.document import NO_PAGE, NO_SNIFF, Document
from sim.wire.http.pages.health import health_page

HEALTH = ("healthz", "livez", "readyz")
ELECTION = "leaderElection"
METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"


class Shown(NamedTuple):
    """What a component shows of itself.

    process: its kind, such as "scheduler"
    lock: the name of its lock; "" without leader election
    further: the names of further checks, which pass, once it works
    metrics: its options about metrics
    configz: its configuration, by the name of the group
    profiling: True if it shows profiles
    set_verbosity: takes the verbosity of its log
    pods: those that a scheduler knows; None for another component
    """

    process: str
    lock: str
    further: Callable[[], tuple[str, ...]]
    metrics: MetricsFlags
    configz: Mapping[str, Any]
    profiling: bool
    set_verbosity: Callable[[int], None]
    pods: Callable[[], Iterable[Obj]] | None = None


class ComponentPages:
    """The pages of one process."""

    def __init__(self, names: Names, kernel: Kernel, shown: Shown) -> None:
        self._names, self._kernel, self._shown = names, kernel, shown
        self._profiler = Profiler()
        if kernel.meters is None:
            kernel.meters = Meters(BOUNDS)

    async def answer(self, exchange: Exchange) -> Response:
        """The page of a request."""
        path, method = unquote(exchange.path), exchange.method
        if self._shown.profiling:
            if path == pprof.PROFILE:
                measured = await self._profiler.profile(pprof.seconds_of(exchange.query))
                headers = {"Content-Disposition": 'attachment; filename="profile"', **NO_SNIFF}
                return response_of(Answer(200, "application/octet-stream", measured, headers=headers))
            if path == pprof.VERBOSITY and method == "PUT":
                raw = await exchange.body.read()
                text = (raw or b"").decode("utf-8", "replace")
                return _response(pprof.set_verbosity(text, self._shown.set_verbosity))
        return _response(self._document(method, path, exchange.query))

    def _document(self, method: str, path: str, query: str) -> Document:
        what, slash, check = path.removeprefix("/").partition("/")
        if what in HEALTH:
            names, failed = self._checks()
            return health_page({what: names}, what, check if slash else None, query, failed)
        if path == "/metrics":
            return Document(raw=self._metrics().encode(), media=METRICS_MEDIA)
        if path == "/metrics/resources" and self._shown.pods is not None:
            shown = Meters(BOUNDS)
            show_resources(self._shown.pods(), shown)
            result = as_shown(families(RESOURCES, Meters(BOUNDS), shown), self._shown.metrics)
            return Document(raw=text_format(list(result)).encode(), media=METRICS_MEDIA)
        if path == "/configz":
            return Document(raw=json.dumps(self._shown.configz).encode(), media="application/json")
        page = None
        if self._shown.profiling:
            page = pprof.pprof_page(method, path) or pprof.flags_page(path)
        return page or NO_PAGE

    def _checks(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of all checks, and of those that fail."""
        lock = self._shown.lock
        own = [result() for (name, _), result in self._kernel.candidates.items() if name == lock]
        leads = not lock or any(leading for _, leading in own)
        election = (ELECTION,) if lock else ()
        names = (*election, *(self._shown.further() if leads else ()))
        return names or ("ping",), election if not all(healthy for healthy, _ in own) else ()

    def _metrics(self) -> str:
        names, kernel, process = self._names, self._kernel, self._shown.process
        shown = Meters(BOUNDS)
        show_processes(kernel, shown)
        for (lock, _), candidate in sorted(kernel.candidates.items()):
            shown.set("leader_election_master_status", (names.component(process), lock), int(candidate()[1]))
        assert kernel.meters is not None
        kind_of = partial(_kind, names, process)
        result = as_shown(families(process, kernel.meters, shown, kind_of), self._shown.metrics)
        own = (build_info(names.product, version()), memory_limit())
        return text_format(merged((*result, *own, *runtime())))


def _kind(names: Names, process: str, owner: str) -> str:
    """The kind of the process that owns a series: this one, unless it names another."""
    return process_of(owner, names) or process


def _response(document: Document) -> Response:
    return response_of(Answer(document.code, document.media, document.raw, headers=dict(document.headers)))
