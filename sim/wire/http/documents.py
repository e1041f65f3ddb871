"""Paths that are no resources: discovery, health, version, OpenAPI, metrics, and the issuer of
service account tokens.

Turns a method and a path into a `Document`: its bytes, or a value for the negotiated form.

Mirrors  kubernetes v1.25 apiserver pkg/server/{healthz,routes}, pkg/endpoints/discovery,
         kube-openapi's handlers (text/plain as the type of OpenAPI answers), kube-aggregator (which
         methods /apis takes), pkg/routes/openidmetadata.go.
Differs  health checks are those of parts that exist here (there are neither roles nor API
         services); metrics are a few.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from sim.api import status
from sim.api.openapi import protobuf_form as openapi_protobuf
from sim.api.openapi.documents import (
    openapi_v2,
    openapi_v2_protobuf,
    openapi_v3,
    openapi_v3_index,
    openapi_v3_of_discovery,
)
from sim.api.schema import discovery
from sim.api.schema.scheme import Scheme
from sim.ident import Names
from sim.wire.http.negotiation import NotAcceptable, check_produced, parse_accept
from sim.wire.http.rendering import TEXT
from sim.wire.http.routing import query_pairs

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PUBLIC = "public, max-age=3600"  # openidmetadata.go: cacheControl
DEBUG = "/debug/api_priority_and_fairness/"
NOT_FOUND = b"404 page not found\n"
FAIRNESS_HOOKS = (
    "priority-and-fairness-config-consumer",
    "priority-and-fairness-filter",
    "priority-and-fairness-config-producer",
)


def checks_of(names: Names, fairness: bool) -> dict[str, tuple[str, ...]]:
    """The health checks of each path, in upstream's order.

    fairness: True if priority and fairness is on
    """
    storage = names.check_storage
    hooks = (
        f"start-{names.component('apiserver')}-admission-initializer",
        "generic-apiserver-start-informers",
        *(FAIRNESS_HOOKS[:2] if fairness else ()),
        "storage-object-count-tracker-hook",
        "bootstrap-controller",
        "scheduling/bootstrap-system-priority-classes",
        *(FAIRNESS_HOOKS[2:] if fairness else ()),
    )
    started = tuple([f"poststarthook/{hook}" for hook in hooks])
    alive = ("ping", "log", storage, *started)
    ready = ("ping", "log", storage, f"{storage}-readiness", "informer-sync", *started, "shutdown")
    return {"healthz": alive, "livez": alive, "readyz": ready}


OTHERS = ("/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version")


@dataclass(frozen=True, slots=True)
class Document:
    """A document outside of the resources.

    value: to be rendered in the negotiated form; alternatively raw bytes of one type
    routed: True if the route evaluates Accept
    json_only: True if JSON is the only form, even if the client prefers another
    cache_control: "" for the header of all answers
    """

    code: int = 200
    value: Any = None
    raw: bytes = b""
    media: str = ""
    routed: bool = True
    json_only: bool = False
    cache_control: str = ""


class Published(NamedTuple):
    """A document of the issuer of service account tokens."""

    media: str
    raw: bytes


NO_PAGE = Document(404, raw=NOT_FOUND, media=TEXT)


def _published(published: Published, method: str, accept: str) -> Document:
    if method != "GET":
        return refused(status.method_not_allowed())
    try:
        check_produced(accept, [published.media])
    except NotAcceptable as error:
        return refused(error.body)
    return Document(raw=published.raw, media=published.media, cache_control=PUBLIC)


def refused(body: dict[str, Any]) -> Document:
    """The document of a refusal."""
    return Document(body["code"], body)


class Documents:
    """The documents of a scheme, in its present state.

    healthy: returns whether a check passes
    metrics: returns their text
    version: the fields of /version
    checks: as from `checks_of`
    issuer: documents of the issuer of service account tokens, by path
    debug: returns a page below `DEBUG` by its name and query; None if there is none
    """

    def __init__(
        self,
        scheme: Callable[[], Scheme],
        address: str,
        healthy: Callable[[str], bool],
        metrics: Callable[[], str],
        version: Mapping[str, str],
        checks: Mapping[str, tuple[str, ...]],
        issuer: Mapping[str, Published] = MappingProxyType({}),
        debug: Callable[[str, str], str | None] = lambda name, query: None,
    ) -> None:
        self._now = scheme
        self._address = address
        self._healthy = healthy
        self._metrics = metrics
        self._about = dict(version)
        self._checks = checks
        self._issuer = issuer
        self._debug = debug

    @property
    def _scheme(self) -> Scheme:
        return self._now()

    def find(self, method: str, path: str, query: str, accept: str = "") -> Document | None:
        """The document at a path; None for paths of resources."""
        if path in self._issuer:
            return _published(self._issuer[path], method, accept)
        parts = path.split("/")[1:]
        if not path.startswith("/") or (parts[0] == "" and path != "/"):
            return NO_PAGE
        if parts[0] in ("api", "apis"):
            return self._discovery(method, parts)
        if parts[0] in self._checks:
            return self._health(parts[0], "/".join(parts[1:]) if len(parts) > 1 else None, query)
        if parts[0] == "version":
            return self._version(method, parts)
        if parts[0] == "openapi":
            return self._openapi(parts, accept)
        if path == "/metrics":
            return Document(raw=self._metrics().encode(), media=METRICS_TYPE)
        if path.startswith(DEBUG):
            page = self._debug(path.removeprefix(DEBUG), query)
            return NO_PAGE if page is None else Document(raw=page.encode(), media=TEXT)
        if path in ("/", "/index.html"):
            return Document(
                value=discovery.root_paths(self._scheme, (*OTHERS, *self._issuer)),
                routed=False,
                json_only=True,
            )
        return NO_PAGE

    def _discovery(self, method: str, parts: list[str]) -> Document | None:
        trimmed = [*parts]
        while len(trimmed) > 1 and not trimmed[-1]:
            trimmed.pop()
        if trimmed == ["apis"]:  # Quirk: the aggregator answers every method
            return Document(value=discovery.api_group_list(self._scheme), routed=False)
        groups = discovery.fixed_versions(self._scheme.fixed)
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
        if method != "GET":
            return refused(status.method_not_allowed())
        if rest:
            return Document(value=discovery.api_resource_list(self._scheme.fixed, group, rest[0]))
        if group:
            return Document(value=discovery.api_group(self._scheme, group))
        return Document(value=discovery.api_versions(self._address))

    def _custom(self, parts: list[str]) -> Document | None:
        """Discovery of a group of custom resources.

        Quirk: every method is accepted; an unknown path gives the 404 page.
        """
        scheme = self._scheme
        group, rest = parts[1], parts[2:]
        if len(rest) > 1:
            return None
        found = (
            discovery.custom_resource_list(scheme, group, rest[0])
            if rest
            else discovery.api_group(scheme, group)
        )
        return NO_PAGE if found is None else Document(value=found, routed=False)

    def _version(self, method: str, parts: list[str]) -> Document:
        if len(parts) > 1 and parts != ["version", ""]:
            return refused(status.unknown_resource())
        return (
            Document(value=self._about, json_only=True)
            if method == "GET"
            else refused(status.method_not_allowed())
        )

    def _openapi(self, parts: list[str], accept: str) -> Document:
        if parts[1:] == ["v2"] and openapi_protobuf.MEDIA in accept:
            return Document(raw=openapi_v2_protobuf(self._scheme), media=openapi_protobuf.ANSWERED)
        if parts[1:] != ["v2"] and parts[1:2] != ["v3"]:
            return NO_PAGE
        asked = {clause.media for clause in parse_accept(accept)}
        if asked and not asked & {"*/*", "application/*", self._scheme.names.media_json}:
            return Document(406)
        if parts[1:] == ["v2"]:
            return Document(raw=openapi_v2(self._scheme), media=TEXT)
        if parts[1:] == ["v3"]:
            return Document(value=openapi_v3_index(self._scheme), media=TEXT)
        rest = parts[2:]
        if rest[:1] == ["api"] and len(rest) == 2:
            found = openapi_v3(self._scheme, "", rest[1])
        elif rest[:1] == ["apis"] and len(rest) == 3:
            found = openapi_v3(self._scheme, rest[1], rest[2])
        else:
            found = openapi_v3_of_discovery(self._scheme, "/".join(rest))
        return Document(raw=found, media=TEXT) if found is not None else Document(404)

    def _health(self, what: str, check: str | None, query: str) -> Document:
        checks = self._checks[what]
        if check is not None:
            if check not in checks:
                return NO_PAGE
            good = self._healthy(check)
            text = "ok" if good else f"internal server error: {check} failed: reason withheld\n"
            return Document(200 if good else 500, raw=text.encode(), media=TEXT)
        asked = list(query_pairs(query))
        excluded = [value for key, value in asked if key == "exclude"]
        lines, failed = [], False
        for name in checks:
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif self._healthy(name):
                lines.append(f"[+]{name} ok")
            else:
                lines.append(f"[-]{name} failed: reason withheld")
                failed = True
        unknown = sorted({name for name in excluded if name not in checks})
        if unknown:
            listed = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}")
        if failed:
            return Document(500, raw="\n".join([*lines, f"{what} check failed", ""]).encode(), media=TEXT)
        if all(key != "verbose" for key, _ in asked):
            return Document(raw=b"ok", media=TEXT)
        return Document(raw="\n".join([*lines, f"{what} check passed", ""]).encode(), media=TEXT)
