"""Paths that are no resources: discovery, health, version, OpenAPI, metrics, and the issuer of
service account tokens.

Turns a method and a path into a `Document`: its bytes, or a value for the negotiated form.

Mirrors  kubernetes v1.25 apiserver pkg/server/{healthz,routes}, pkg/endpoints/discovery,
         kube-openapi's handlers (text/plain as the type of OpenAPI answers), kube-aggregator (which
         methods /apis takes), pkg/routes/openidmetadata.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from sim.api import status
from sim.api.aggregation.delegation import Delegated
from sim.api.openapi.aggregated import NOTHING, Aggregated
from sim.api.schema.groups import FIRST_GROUP
from sim.api.scheme import discovery
from sim.api.scheme.scheme import Scheme
from sim.options.features.gates import OPENAPI_V3, STORAGE_HASH
from sim.wire.http.forms.negotiation import NotAcceptable, check_produced
from sim.wire.http.forms.rendering import TEXT
from sim.wire.http.pages.document import NO_PAGE, Document, refused
from sim.wire.http.pages.health import health_page
from sim.wire.http.pages.logs import logs_page
from sim.wire.http.pages.openapi import openapi_page
from sim.wire.http.pages.pprof import flags_page, pprof_page
from sim.wire.http.routing import parse_query

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PUBLIC = "public, max-age=3600"  # openidmetadata.go: cacheControl
DEBUG = "/debug/api_priority_and_fairness/"
OTHERS = ("/healthz", "/livez", "/metrics", "/openapi/v2", "/readyz", "/version")


class Published(NamedTuple):
    """A document of the issuer of service account tokens."""

    media: str
    raw: bytes


def _published(published: Published, below: str, method: str, accept: str) -> Document:
    """A document of the issuer; `below` is the rest of the path, which may be one slash."""
    if below not in ("", "/"):
        return refused(status.unknown_resource())
    if method != "GET":
        return refused(status.method_not_allowed())
    try:
        check_produced(accept, [published.media])
    except NotAcceptable as error:
        return refused(error.body)
    return Document(raw=published.raw, media=published.media, headers={"Cache-Control": PUBLIC})


class Documents:
    """The documents of a scheme, in its present state.

    failing: returns the checks of a health path that fail
    metrics: returns their text, of a kind of process ("": of all)
    version: reads the fields of /version
    checks: as from `pages.health.checks_of`
    issuer: documents of the issuer of service account tokens, by path
    logs, profiling: True if /logs and /debug/pprof are served
    debug: returns a page below `DEBUG` by its name and query; None if there is none
    listed: returns the APIServices that discovery lists besides what the server serves
    aggregated: returns the OpenAPI documents of these servers
    gates: feature gates with another value than their default
    """

    def __init__(
        self,
        scheme: Callable[[], Scheme],
        address: str,
        failing: Callable[[str], Collection[str]],
        metrics: Callable[[str], str],
        version: Callable[[], Mapping[str, str]],
        checks: Mapping[str, tuple[str, ...]],
        issuer: Mapping[str, Published] = MappingProxyType({}),
        debug: Callable[[str, str], str | None] = lambda name, query: None,
        listed: Callable[[], Sequence[Delegated]] = tuple,
        aggregated: Callable[[], Aggregated] = lambda: NOTHING,
        *,
        logs: bool = True,
        profiling: bool = True,
        gates: Collection[str] = (),
    ) -> None:
        self._now = scheme
        self._address = address
        self._failing = failing
        self._metrics = metrics
        self._about = version
        self._checks = checks
        self._issuer = issuer
        self._debug = debug
        self._listed, self._aggregated = listed, aggregated
        self._gates = gates
        self._logs, self._profiling = logs, profiling

    @property
    def _others(self) -> tuple[str, ...]:
        """Paths outside of the API."""
        newer = () if OPENAPI_V3 in self._gates else ("/openapi/v3", "/openapi/v3/")
        logs = ("/logs",) if self._logs else ()
        checks = (f"/{path}/{name}" for path, names in self._checks.items() for name in names)
        return (*OTHERS, *newer, *logs, *checks, *self._issuer)

    @property
    def _first(self) -> str:
        """The group of the aggregator itself."""
        return self._now().names.group(FIRST_GROUP)

    @property
    def _scheme(self) -> Scheme:
        return self._now()

    def find(self, method: str, path: str, query: str, accept: str = "") -> Document | None:
        """The document at a path; None for paths of resources."""
        for place, published in self._issuer.items():
            if path == place or path.startswith(f"{place}/"):
                return _published(published, path[len(place) :], method, accept)
        parts = path.split("/")[1:]
        if not path.startswith("/") or (parts[0] == "" and path != "/"):
            return NO_PAGE
        if parts[0] in ("api", "apis"):
            return self._discovery(method, parts)
        if parts[0] in self._checks:
            check = "/".join(parts[1:]) if len(parts) > 1 else None
            return health_page(self._checks, parts[0], check, query, self._failing(parts[0]))
        if parts[0] == "version":
            return self._version(method, parts)
        if parts[:2] == ["openapi", "v3"] and OPENAPI_V3 in self._gates:
            return NO_PAGE
        if parts[0] == "openapi":
            return openapi_page(self._scheme, parts, query, accept, self._aggregated(), method=method)
        if path == "/metrics":
            return Document(
                raw=self._metrics(parse_query(query).get("process", "")).encode(), media=METRICS_TYPE
            )
        if self._logs and parts[0] == "logs":
            return logs_page(method, path, accept)
        if self._profiling and (page := pprof_page(method, path) or flags_page(path)) is not None:
            return page
        if path.startswith(DEBUG):
            text = self._debug(path.removeprefix(DEBUG), query)
            return NO_PAGE if text is None else Document(raw=text.encode(), media=TEXT)
        if path in ("/", "/index.html"):
            return Document(
                value=discovery.root_paths(self._scheme, self._others, self._listed()),
                routed=False,
                json_only=True,
            )
        return NO_PAGE

    def _discovery(self, method: str, parts: list[str]) -> Document | None:
        trimmed = [*parts]
        while len(trimmed) > 1 and not trimmed[-1]:
            trimmed.pop()
        # Quirk: the aggregator answers every method for all groups but its own.
        if trimmed == ["apis"]:
            return Document(value=discovery.api_group_list(self._scheme, self._listed()), routed=False)
        groups = discovery.fixed_versions(self._scheme.fixed)
        if len(trimmed) == 2 and trimmed[0] == "apis" and trimmed[1] != self._first:
            result = discovery.api_group(self._scheme, trimmed[1], self._listed())
            return NO_PAGE if result is None else Document(value=result, routed=False)
        if trimmed[0] == "apis" and trimmed[1] not in groups:
            return self._custom(trimmed)
        if trimmed[0] == "api":
            group, rest = "", trimmed[1:]
        else:
            group, rest = trimmed[1], trimmed[2:]
        if rest and rest[0] not in (["v1"] if not group else groups[group]):
            return refused(status.unknown_resource())
        if len(rest) > 1:
            return None
        if group and not rest:  # Quirk: the aggregator answers every method
            return Document(value=discovery.api_group(self._scheme, group), routed=False)
        if method != "GET":
            return refused(status.method_not_allowed())
        if rest:
            hashes = STORAGE_HASH not in self._gates
            return Document(value=discovery.api_resource_list(self._scheme.fixed, group, rest[0], hashes))
        return Document(value=discovery.api_versions(self._address))

    def _custom(self, parts: list[str]) -> Document | None:
        """Discovery of a group of custom resources.

        Quirk: every method is accepted; an unknown path gives the 404 page.
        """
        scheme = self._scheme
        group, rest = parts[1], parts[2:]
        if len(rest) > 1:
            return None
        result = discovery.custom_resource_list(scheme, group, rest[0])
        return NO_PAGE if result is None else Document(value=result, routed=False)

    def _version(self, method: str, parts: list[str]) -> Document:
        if len(parts) > 1 and parts != ["version", ""]:
            return refused(status.unknown_resource())
        return (
            Document(value=dict(self._about()), json_only=True)
            if method == "GET"
            else refused(status.method_not_allowed())
        )
