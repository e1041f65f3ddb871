"""Which APIService answers a path, and what a server behind it gets.  Pure.

Turns paths into names of APIServices, APIServices into the groups of /apis, and a user into the
headers of a front proxy.

Mirrors  kube-aggregator v1.25 pkg/apiserver/{handler_apis,handler_proxy,apiserver}.go,
         pkg/apis/apiregistration/v1/helper/helpers.go (SortedByGroupAndVersion), client-go
         transport/round_trippers.go (SetAuthProxyHeaders, headerKeyEscape).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import ascii_letters, digits
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from sim.api import status
from sim.api.crd.versions import version_order
from sim.api.types import Obj, UserInfo

DISCOVERY_S, REQUEST_S = 5, 60  # aggregatedDiscoveryTimeout; the time of every other request
USER_HEADER, GROUP_HEADER, EXTRA_HEADER = "X-Remote-User", "X-Remote-Group", "X-Remote-Extra-"
# Headers of one connection (RFC 9110 section 7.6.1), and those that the connection to the other
# server has of its own.
_OF_CONNECTION = (
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "host",
    "authorization",
)
# These are those of the connection to the other server, or were read here.
_NEVER_PASSED = ("host", "authorization", "content-length", "transfer-encoding")
_SET_ANEW = ("x-forwarded-uri", "x-forwarded-host", "x-forwarded-proto")
TOKEN_PROTOCOL = "base64url.bearer.authorization."
_TOKEN = "!#$%&'*+-.^_`|~"
_TOKEN_CHARS = frozenset(_TOKEN + digits + ascii_letters)
_CONTROLS = {code: " " for code in (*range(32), 127) if code != ord("\t")}
UNAVAILABLE, NOT_REACHED = "service unavailable", "error trying to reach service"


class Delegated(NamedTuple):
    """An APIService that another server answers."""

    group: str
    version: str
    obj: Obj

    @property
    def group_version(self) -> str:
        """As in discovery."""
        return f"{self.group}/{self.version}" if self.group else self.version


class Forwarded(NamedTuple):
    """A request that is passed to another server.

    path, query: as the client sent them
    address: of the client
    """

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    user: UserInfo
    address: str = ""

    @property
    def upgrades(self) -> bool:
        """True for a request to change the protocol (apimachinery httpstream, IsUpgradeRequest)."""
        return is_upgrade(self.headers)


def is_upgrade(headers: Iterable[tuple[str, str]]) -> bool:
    """True for the headers of a request to change the protocol."""
    return any(name.lower() == "connection" and "upgrade" in value.lower() for name, value in headers)


def listed_for_discovery(obj: Obj, label: str) -> Delegated | None:
    """The APIService, unless it was made for a group version that this server serves.

    label: that made ones have
    """
    spec, labels = obj["spec"], obj["metadata"].get("labels") or {}
    if spec.get("service") is None and label in labels:
        return None
    return Delegated(spec.get("group") or "", spec["version"], obj)


def delegated_of(obj: Obj) -> Delegated | None:
    """The APIService, if another server answers it."""
    spec = obj["spec"]
    if spec.get("service") is None:
        return None
    return Delegated(spec.get("group") or "", spec["version"], obj)


def group_version_of(path: str) -> tuple[str, str] | None:
    """The group and version that a path is below; None for any other path."""
    parts = path.strip("/").split("/")
    if parts[:1] == ["apis"] and len(parts) > 2:
        return parts[1], parts[2]
    if parts[:1] == ["api"] and len(parts) > 1:
        return "", parts[1]
    return None


def is_discovery(path: str) -> bool:
    """True for the document of one group version."""
    return len(path.strip("/").split("/")) == 3


class Listed(NamedTuple):
    """A group version as /apis lists it, with its priorities in an APIService."""

    group: str
    version: str
    group_priority: int
    version_priority: int


def listed_of(each: Delegated) -> Listed:
    """A group version with the priorities that its APIService states."""
    spec = each.obj["spec"]
    priorities = (int(spec.get(name) or 0) for name in ("groupPriorityMinimum", "versionPriority"))
    return Listed(each.group, each.version, *priorities)


def merged_groups(own: Iterable[Listed], others: Iterable[Delegated], first: str) -> dict[str, list[str]]:
    """The groups of /apis with their versions, in order.

    own: those that the server itself serves
    others: of APIServices that were not made for these
    first: the group that is always first
    """
    known = {(each.group, each.version): each for each in (*own, *map(listed_of, others)) if each.group}
    found: dict[str, list[Listed]] = {}
    for each in sorted(known.values(), key=_place):
        found.setdefault(each.group, []).append(each)
    return {
        group: [each.version for each in sorted(found[group], key=_version_place)]
        for group in sorted(found, key=lambda group: group != first)
    }


def _place(each: Listed) -> tuple[int, str]:
    return -each.group_priority, f"{each.version}.{each.group}"


def _version_place(each: Listed) -> tuple[int, tuple[int, int, int, int, str]]:
    return -each.version_priority, version_order(each.version)


# crdregistration_controller.go
DEFINITION_PRIORITY, DEFINITION_VERSION_PRIORITY = 1000, 100


def version_rank(each: Delegated) -> tuple[int, tuple[int, int, int, int, str]]:
    """Sort key of the versions of a group: by priority, then the more stable and newer first."""
    return -int(each.obj["spec"].get("versionPriority") or 0), version_order(each.version)


def passed_target(request: Forwarded) -> str:
    """The path and query of the request to the other server: Go encodes both again, and sorts
    the parameters by their names.
    """
    path = quote(unquote(request.path), safe="/$&+,:;=@")
    pairs = sorted(parse_qsl(request.query, keep_blank_values=True), key=lambda pair: pair[0])
    return f"{path}?{urlencode(pairs)}" if pairs else path


def forwarded_headers(request: Forwarded, host: str) -> tuple[tuple[str, str], ...]:
    """The headers of the request to the other server.

    host: of that server, with its port

    Mirrors  net/http/httputil reverseproxy.go, apimachinery pkg/util/proxy/{transport,
             upgradeaware}.go: a request to change the protocol keeps the headers for that, and has
             none of the headers of a proxy but X-Forwarded-For.
    """
    upgrades = request.upgrades
    pairs = [pair for pair in request.headers if not pair[0].lower().startswith("x-remote-")]
    if not upgrades:
        pairs = [pair for pair in pairs if pair[0].lower() not in _SET_ANEW]
    kept = passed_headers(pairs, request.address, upgrades=upgrades)
    if not upgrades:
        path = passed_target(request).partition("?")[0]
        kept += (("X-Forwarded-Uri", path), ("X-Forwarded-Host", host), ("X-Forwarded-Proto", "https"))
    return (*kept, *user_headers(request.user))


def passed_headers(
    headers: Iterable[tuple[str, str]], address: str, *, upgrades: bool
) -> list[tuple[str, str]]:
    """The headers of a client's request that a proxy passes on.

    address: of the client; upgrades: True if the headers to change the protocol are kept
    """
    dropped = _NEVER_PASSED if upgrades else (*_OF_CONNECTION, _SET_ANEW[0])
    passed_by: list[str] = []
    kept: list[tuple[str, str]] = []
    for name, value in headers:
        lower = name.lower()
        if lower == "x-forwarded-for":
            passed_by.append(value)
        elif lower == "sec-websocket-protocol":
            kept += [(name, rest) for rest in _without_token(value)]
        elif lower not in dropped:
            kept.append((name, value))
    if address:
        passed_by.append(address)
    if passed_by:
        kept.append(("X-Forwarded-For", ", ".join(passed_by)))
    return kept


def _without_token(value: str) -> list[str]:
    """The subprotocols of a WebSocket without the one that carries the client's token
    (apiserver pkg/authentication/request/websocket/protocol.go).
    """
    names = [name for each in value.split(",") if not (name := each.strip()).startswith(TOKEN_PROTOCOL)]
    return [",".join(names)] if names else []


def user_headers(user: UserInfo) -> tuple[tuple[str, str], ...]:
    """The headers by which a front proxy names a user."""
    headers = [(USER_HEADER, user.name), *((GROUP_HEADER, group) for group in user.groups)]
    for key, values in user.extra.items():
        headers += [(EXTRA_HEADER + escaped_key(key), value) for value in values]
    return tuple(headers)


def escaped_key(key: str) -> str:
    """A key of the extra attributes as part of a header's name."""
    return "".join(
        chr(byte)
        if chr(byte).isascii() and (chr(byte).isalnum() or (chr(byte) in _TOKEN and chr(byte) != "%"))
        else f"%{byte:02X}"
        for byte in key.encode()
    )


def answered_headers(headers: Iterable[tuple[str, str]], *, whole: bool = True) -> list[tuple[str, str]]:
    """The headers of the other server's answer that are passed to the client.

    As by Go (net/http header.go: writeSubset), a name that is no token is dropped, and a control
    character in a value becomes a space.

    whole: False for a body that is passed on as it comes, which keeps the length of its answer
    """
    kept = ("content-length",) if not whole else ()
    return [
        (name, value.translate(_CONTROLS).strip())
        for name, value in headers
        if (name.lower() in kept or name.lower() not in _OF_CONNECTION) and name and set(name) <= _TOKEN_CHARS
    ]


def discovery_failure(names: Sequence[str]) -> str:
    """The error of a client that reads all discovery documents while some servers are unavailable.

    Mirrors  client-go discovery/discovery_client.go (ErrGroupDiscoveryFailed).

    names: group versions
    """
    problem = status.GENERIC[503]
    listed = ", ".join(f"{name}: {problem}" for name in sorted(names))
    return f"unable to retrieve the complete list of server APIs: {listed}"
