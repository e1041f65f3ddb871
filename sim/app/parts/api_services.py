"""Servers behind APIServices: functions of the library, pods of the cluster, servers outside.

Turns a request of an API server to a Service into an answer after a latency, or into the failure
that Go's HTTP client would report.

A function that was added for the Service answers; behind a Service of type ExternalName it needs no
pods.  Ready pods without a function count as the server of a group version without resources: its
discovery document is empty, and every other path is not found.

Holds: functions are called in the order of the kernel, so a run repeats if an answer depends on the
request, on the state of the cluster and on the time alone.

Mirrors  kube-aggregator v1.25 pkg/apiserver/resolvers.go; it has no part that answers.
Differs  ready pods of a Service without a program answer as the server of an empty group version.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from actors.apiserver.aggregation.aggregator import Respond, ServiceCall
from sim.api import status
from sim.api.aggregation.delegation import is_discovery
from sim.api.dialing import refused
from sim.api.types import Json, Obj, UserInfo
from sim.app.parts.services import Services
from sim.dataclass import dataclass
from sim.errors import InputError
from sim.kernel import Kernel, OutsideAnswer, OutsideRequest
from sim.kernel.outside import failed
from sim.units import MS

LATENCY_US = 2 * MS
PAGE = b"404 page not found\n"


class ApiRequest(NamedTuple):
    """A request that an aggregated API answers.

    path: without escapes
    query: the first value of each parameter
    body: a JSON value; None for none
    user: of the client, authenticated and authorized by the API server
    """

    method: str
    path: str
    query: Mapping[str, str]
    body: Json
    user: UserInfo


class ApiHandle:
    """A function behind a Service, as its author notifies the cluster of changes."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def changed(self) -> None:
        """Let open watches of simulated clients list again at once, not only every 10 s."""
        self._look()


# The code and the object of an answer.
ServeApi = Callable[[ApiRequest], tuple[int, Obj]]


@dataclass(frozen=True, slots=True)
class ApiProgram:
    """A function that answers requests, and how long an answer takes."""

    serve: ServeApi
    latency_us: int


def empty_group_version(request: ApiRequest) -> tuple[int, Obj]:
    """The answers of pods for which no function was added."""
    if not is_discovery(request.path) or request.method != "GET":
        return 404, status.unknown_resource()
    group_version = "/".join(request.path.strip("/").split("/")[1:])
    return 200, resource_list(group_version)


def resource_list(group_version: str, *resources: Obj) -> Obj:
    """The discovery document of a group version."""
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": list(resources),
    }


EMPTY = ApiProgram(empty_group_version, LATENCY_US)


class ApiPrograms:
    """All servers behind APIServices of one cluster: the `Backends` of `apiserver.aggregation`.

    client_pair: certificate and key, PEM, by which servers outside know the API server
    """

    def __init__(self, kernel: Kernel, services: Services) -> None:
        self.client_pair = b""
        self._kernel, self._services = kernel, services
        self._programs: dict[str, ApiProgram] = {}

    def add(self, address: str, serve: ServeApi, latency_us: int) -> None:
        """Answer behind a Service, as "namespace/name".  Raises InputError."""
        if address.count("/") != 1 or not all(address.split("/")):
            problem = f"no Service has the address {address!r}"
            raise InputError(problem, "", "give namespace/name of a Service")
        if address in self._programs:
            raise InputError(f"there is an API service at {address!r}", "", "give it another address")
        self._programs[address] = ApiProgram(serve, latency_us)

    def is_outside(self, namespace: str, name: str) -> bool:
        """True if the user gave a Service an address outside."""
        return self._services.address(namespace, name) is not None

    def url(self, namespace: str, name: str, port: int) -> str:
        """The address to which requests go, for messages."""
        location = self._services.locate(namespace, name, port)
        return f"https://{location.host}:{location.port}"

    def send(self, call: ServiceCall, arrived: Respond) -> None:
        """Send a request; its answer, or the text of the failure, arrives later or at once."""
        location = self._services.locate(call.namespace, call.name, call.port)
        program = self._programs.get(f"{call.namespace}/{call.name}")
        if location.failure:
            arrived(failed(location.failure))
        elif program is not None or not location.is_outside:
            program = program or EMPTY
            self._kernel.call_later(program.latency_us, _answer, (program, call, arrived))
        elif self._kernel.outside.is_open:
            self._send_outside(call, location.host, location.port, arrived)
        else:
            arrived(failed(refused(location.host, location.port)))

    def direct(self, call: ServiceCall) -> OutsideRequest | None:
        """The request to a server outside; None if `send` gives the answer."""
        location = self._services.locate(call.namespace, call.name, call.port)
        is_program = f"{call.namespace}/{call.name}" in self._programs
        if location.failure or is_program or not location.is_outside or not self._kernel.outside.is_open:
            return None
        return self._outside_request(call, location.host, location.port)

    def _send_outside(self, call: ServiceCall, host: str, port: int, arrived: Respond) -> None:
        request = self._outside_request(call, host, port)
        if request is None:
            arrived(failed("unable to load root certificates: unable to parse bytes as PEM block"))
        else:
            self._kernel.outside.call(request, arrived)

    def _outside_request(self, call: ServiceCall, host: str, port: int) -> OutsideRequest | None:
        """The request; None for authorities that cannot be read."""
        try:
            authorities = b64decode(call.authorities, validate=True)
        except (BadBase64, ValueError):
            return None
        return OutsideRequest(
            call.method,
            f"https://{call.name}.{call.namespace}.svc:{call.port}{call.target}",
            call.headers,
            call.body,
            (host, port),
            authorities,
            call.verified,
            self.client_pair,
            call.timeout_us,
        )


def _answer(given: tuple[ApiProgram, ServiceCall, Respond]) -> None:
    program, call, arrived = given
    path, _, query = call.target.partition("?")
    options: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        options.setdefault(key, value)
    try:
        body = msgspec.json.decode(call.body) if call.body else None
    except msgspec.DecodeError:
        body = None
    code, obj = program.serve(ApiRequest(call.method, unquote(path), options, body, call.user))
    arrived(OutsideAnswer(code, (("Content-Type", "application/json"),), msgspec.json.encode(obj)))
