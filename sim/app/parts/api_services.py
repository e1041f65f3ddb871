"""Servers behind APIServices: functions of the library, pods of the cluster, servers outside.

Turns a request of an API server to a Service into an answer after a latency, or into the failure
that Go's HTTP client would report.

A function that was added for the Service answers; behind a Service of type ExternalName it needs no
pods.  Otherwise the API server connects over the pod network to what listens in the pods, or, where
their program is real (`forward`), to that server once the pod is reached.  A ready pod with a
program that is not simulated and declares the port counts as the server of a group version without
resources: its discovery document is empty, and every other path is not found.

Holds: functions are called in the order of the kernel, so a run repeats if an answer depends on the
request, on the state of the cluster and on the time alone.

Mirrors  kube-aggregator v1.25 pkg/apiserver/resolvers.go; it has no part that answers.
Differs  a program that is not simulated answers as the server of an empty group version; a client
         outside is passed through to a real server without a look at the pod network.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec.structs import replace

from actors.apiserver.aggregation.aggregator import Respond, ServiceCall
from sim.api import status
from sim.api.aggregation.delegation import is_discovery
from sim.api.dialing import refused
from sim.api.types import Json, Obj, UserInfo
from sim.app.dialling.dials import PodCalls
from sim.app.parts.pod_network import PodNetwork
from sim.app.parts.services import Location, Services
from sim.dataclass import dataclass
from sim.errors import InputError
from sim.kernel import Kernel, OutsideAnswer, OutsideRequest
from sim.kernel.outside import failed
from sim.units import MS

LATENCY_US = 2 * MS
PAGE = b"404 page not found\n"
UNREADABLE = "unable to load root certificates: unable to parse bytes as PEM block"


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
    """All servers behind APIServices of one cluster.

    client_pair: certificate and key, PEM, by which servers outside know the API server
    """

    def __init__(self, kernel: Kernel, services: Services, pods: PodNetwork) -> None:
        self.client_pair = b""
        self._kernel, self._services, self._pods = kernel, services, pods
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

    def send(self, call: ServiceCall, arrived: Respond, calls: PodCalls) -> None:
        """Send a request; its answer, or the text of the failure, arrives later or at once.

        calls: those of the API server that sends
        """
        location = self._services.locate(call.namespace, call.name, call.port)
        program = self._programs.get(f"{call.namespace}/{call.name}")
        if location.failure:
            arrived(failed(location.failure))
        elif program is None and not location.is_outside and not self._stands_in(call):
            self._send_to_pods(call, location, arrived, calls)
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
        if location.failure or is_program or not self._kernel.outside.is_open:
            return None
        if location.is_outside:
            return self._outside_request(call, location.host, location.port)
        real = self._real(call)
        return None if real is None else self._outside_request(call, *real)

    def _stands_in(self, call: ServiceCall) -> bool:
        """True if what answers in a pod of a Service is not simulated."""
        behind = self._services.behind(call.namespace, call.name, call.port)
        return any(self._pods.stands_in(*each) for each in behind) and self._real(call) is None

    def _real(self, call: ServiceCall) -> tuple[str, int] | None:
        """The address of the real server behind the pods of a Service."""
        for host, _ in self._services.behind(call.namespace, call.name, call.port):
            address = self._pods.real_address(host)
            if address is not None:
                place, _, port = address.rpartition(":")
                return place.strip("[]"), int(port)
        return None

    def _send_to_pods(self, call: ServiceCall, location: Location, arrived: Respond, calls: PodCalls) -> None:
        request, real = self._outside_request(call, location.host, location.port), self._real(call)
        if request is None:
            arrived(failed(UNREADABLE))
        elif real is None:
            calls.send(request, arrived)
        else:
            sent = replace(request, connect_to=real)
            done = partial(self._reached, sent, arrived)
            calls.reach((location.host, location.port), request.timeout_us, done)

    def _reached(self, request: OutsideRequest, arrived: Respond, failure: str) -> None:
        if failure:
            arrived(failed(failure))
        else:
            self._kernel.outside.call(request, arrived)

    def _send_outside(self, call: ServiceCall, host: str, port: int, arrived: Respond) -> None:
        request = self._outside_request(call, host, port)
        if request is None:
            arrived(failed(UNREADABLE))
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


class ReachedApis:
    """The `Backends` of one API server.  calls: its connections to pods"""

    def __init__(self, programs: ApiPrograms, calls: PodCalls) -> None:
        self._programs, self._calls = programs, calls
        self.direct, self.is_outside, self.url = programs.direct, programs.is_outside, programs.url

    def send(self, call: ServiceCall, arrived: Respond) -> None:
        """See `Backends`."""
        self._programs.send(call, arrived, self._calls)


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
