"""Programs behind webhooks: functions of the library, Services of the cluster, servers outside.

Turns a question of an API server into an answer after a latency, or into the failure that Go's
HTTP client would report.

A program is a function of the library, or a server outside: while the cluster is served, a URL
without a function is called over HTTPS, and a Service for which the user gave an address
(`orrery serve --service-address`) is called there, under the name of the Service.

An address is a URL or a Service.  A Service is resolved as upstream's default resolver does: it
must exist and have the port, and without a ready endpoint behind it the connection is refused.
Behind a ready endpoint answers the program that was added for the Service; without one, the API
server connects over the pod network if programs of the pods are simulated. Other pods count as a
webhook that allows everything, and that converts by the version alone.  A Service with
an address outside needs no endpoint: its server runs on another network.  In a run that is not
served, only a program answers at a URL.

Holds: decisions are called in the order of the kernel, so a run repeats if `decide` depends on its
argument alone.

Mirrors  kubernetes v1.25 kube-aggregator pkg/apiserver/resolvers.go,
         apiserver pkg/util/{proxy/proxy,webhook/client}.go (ResolveCluster).
Differs  the certificate of a function is not checked. Ready pods of a Service without a simulated
         program allow everything, and a Service with an address outside needs no endpoint. A server
         that exceeds the time within its body counts as one that did not answer. A user in a
         redirect's address is not sent.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from actors.apiserver.webhooks import Arrived, not_dialled, post_of, timed_url
from sim.api.crd.urls import BadUrl, parse_url, resolved
from sim.api.dialing import refused
from sim.api.schema.json_text import go_quote
from sim.api.store import Question
from sim.api.types import Json, Obj
from sim.app.dialling.dials import PodCalls
from sim.app.parts.rest_answers import read_answer
from sim.app.parts.services import Services
from sim.dataclass import dataclass
from sim.errors import InputError
from sim.faults.shared.ledger import Ledger
from sim.faults.surroundings.webhook import DENY, DOWN, SLOW, TARGET_PREFIX
from sim.ident import Names
from sim.kernel import Kernel, OutsideAnswer, OutsideRequest
from sim.kernel.outside import DEADLINE_EXCEEDED
from sim.kernel.outside import Arrived as AnswerArrived
from sim.units import MS
from sim.wire.http.forms.yaml_json import YamlError, load_yaml
from sim.wire.outside.receiver import Receiver

Decide = Callable[[Obj], Mapping[str, Any]]
Convert = Callable[[Obj, str], Obj]
LATENCY_US = 2 * MS
YAML_DEPTH_MAX = 500  # of an answer that is no JSON
UNREAD = "unexpected error when reading response body. Please retry. Original error"
REDIRECTS, AGAIN, REDIRECTS_MAX = (301, 302, 303, 307, 308), (307, 308), 10  # of Go's client
DENIED: Obj = {"allowed": False, "status": {"code": 403, "message": "denied by a fault of the scenario"}}


@dataclass(frozen=True, slots=True)
class Program:
    """A function that answers reviews, and how long an answer takes."""

    decide: Decide
    latency_us: int


def allow(review: Obj) -> Obj:
    """The answer of pods behind a Service for which no program was added.

    They allow everything, and convert objects by their version alone.
    """
    return dict(RENAMING(review)) if review["kind"] == CONVERSION else {"allowed": True}


def converting(convert: Convert) -> Decide:
    """A program that converts the objects of a review one by one."""

    def decide(review: Obj) -> Obj:
        request = review["request"]
        target = request["desiredAPIVersion"]
        try:
            objects = [convert(obj, target) for obj in request["objects"]]
        except ValueError as error:
            return {"result": {"status": "Failure", "message": str(error)}}
        return {"convertedObjects": objects, "result": {"status": "Success"}}

    return decide


ENDPOINTS = "endpoints of webhooks"  # the stream of draws among them
CONVERSION = "ConversionReview"
RENAMING = converting(lambda obj, wanted: {**obj, "apiVersion": wanted})


def _denial(review: Obj) -> Obj:
    """The answer that a fault puts in place of a program's."""
    if review["kind"] == CONVERSION:
        return {"result": {"status": "Failure", "message": DENIED["status"]["message"]}}
    return dict(DENIED)


@dataclass(frozen=True, slots=True)
class Outside:
    """A server outside, or a program of a pod.

    address: of its connection, None for that of the URL
    calls: those of the API server, for a program of a pod
    """

    address: tuple[str, int] | None
    calls: PodCalls | None = None


ALLOWING = Program(allow, LATENCY_US)


class WebhookPrograms:
    """All programs behind webhooks of one cluster."""

    def __init__(
        self,
        kernel: Kernel,
        names: Names,
        services: Services,
        faults: Ledger,
        receivers: Mapping[str, Receiver],
        serves: Callable[[str], bool],
    ) -> None:
        self._kernel, self._services, self._faults = kernel, services, faults
        self._serves = serves
        self._draws = kernel.stream(ENDPOINTS)
        self._receivers = receivers
        self._agent = f"{names.component('apiserver')}-admission"
        self._programs: dict[str, Program] = {}  # by "namespace/name" of a Service, or by URL

    def add(self, address: str, decide: Decide, latency_us: int) -> None:
        """Answer at an address: a URL, or a Service as "namespace/name".  Raises InputError."""
        if address in self._programs:
            raise InputError(f"there is a webhook at {address!r}", "", "give it another address")
        if latency_us < 0:
            raise InputError(f"a webhook cannot answer {-latency_us} us before it is called")
        if "://" not in address and address.count("/") != 1:
            raise InputError(
                f"no webhook has the address {address!r}", "", "give a URL, or namespace/name of a Service"
            )
        self._programs[address] = Program(decide, latency_us)

    def ask(self, question: Question, arrived: Arrived, calls: PodCalls | None = None) -> None:
        """Call the program at the address of a question; the answer arrives in virtual time.

        calls: those of the API server that asks
        """
        if question.receiver:
            question = replace(question, url=self._receivers[question.receiver].url)
        target = TARGET_PREFIX + question.name
        program = self._found(question, calls)
        if self._faults.values(target, DOWN):
            program = self._refused(question)
        if isinstance(program, str):
            arrived(None, program)
            return
        slow_us = sum(self._faults.values(target, SLOW))
        if isinstance(program, Outside):
            if slow_us >= question.timeout_us:
                self._kernel.call_later(question.timeout_us, self._late, (question, arrived))
            elif slow_us:
                self._kernel.call_later(slow_us, self._ask_outside, (question, program, arrived, slow_us))
            else:
                self._ask_outside((question, program, arrived, 0))
            return
        latency_us = program.latency_us + slow_us
        if latency_us >= question.timeout_us or not self._is_reached(question):
            self._kernel.call_later(question.timeout_us, self._late, (question, arrived))
        else:
            self._kernel.call_later(latency_us, self._answer, (question, program, arrived))

    def _late(self, call: tuple[Question, Arrived]) -> None:
        question, arrived = call
        arrived(None, f"{post_of(question)}: {DEADLINE_EXCEEDED}")

    def _ask_outside(self, call: tuple[Question, Outside, Arrived, int]) -> None:
        """Send a question to a server outside, in the time that a fault has left."""
        question, program, arrived, used_us = call
        if self._faults.values(TARGET_PREFIX + question.name, DENY):
            arrived(_review(question, _denial(question.body)), "")
            return
        try:
            authorities = b64decode(question.authorities, validate=True)
        except (BadBase64, ValueError):
            arrived(None, "unable to load root certificates: unable to parse bytes as PEM block")
            return
        request = OutsideRequest(
            "POST",
            timed_url(question),
            (
                ("Content-Type", "application/json"),
                ("Accept", "application/json, */*"),
                ("User-Agent", self._agent),
            ),
            msgspec.json.encode(question.body),
            program.address,
            authorities,
            timeout_us=question.timeout_us - used_us,
            receiver=question.receiver,
        )
        send = self._kernel.outside.call if program.calls is None else program.calls.send
        _Exchange(self._kernel, arrived, send).send(request)

    def _answer(self, call: tuple[Question, Program, Arrived]) -> None:
        question, program, arrived = call
        denied = self._faults.values(TARGET_PREFIX + question.name, DENY)
        response = _denial(question.body) if denied else dict(program.decide(question.body))
        arrived(_review(question, response), "")

    def _found(self, question: Question, calls: PodCalls | None) -> Program | Outside | str:
        """The program at the address, or why there is none."""
        is_open = self._kernel.outside.is_open
        if question.service is None:
            result = self._programs.get(question.url)
            if result is None and is_open:
                return Outside(None)
            return self._refused(question) if result is None else result
        namespace, name, _, port = question.service
        location = self._services.locate(namespace, name, port)
        if location.failure:
            return f"{post_of(question)}: {location.failure}"
        result = self._programs.get(f"{namespace}/{name}")
        if result is not None:
            return result
        if not location.is_outside:
            is_simulated = calls is not None and any(
                calls.has_programs(host) for host in self._services.ready(namespace, name)
            )
            return Outside((location.host, location.port), calls) if is_simulated else ALLOWING
        return Outside((location.host, location.port)) if is_open else self._refused(question)

    def _is_reached(self, question: Question) -> bool:
        """False if the connection is made to an endpoint on a machine that does not answer.

        Each connection goes to one of the ready endpoints at random, as kube-proxy's rules do;
        that of a machine that has failed stays ready until its node is found dead.
        """
        if question.service is None:
            return True
        namespace, name, _, _ = question.service
        answering = [self._serves(node) for node in self._services.machines(namespace, name)]
        if all(answering):
            return True
        return any(answering) and self._draws.choice(answering)

    def _refused(self, question: Question) -> str:
        """The failure of a connection to the address."""
        if question.service is None:
            return not_dialled(question)
        namespace, name, _, port = question.service
        location = self._services.locate(namespace, name, port)
        return f"{post_of(question)}: {refused(location.host, location.port)}"


class _Exchange:
    """A call of a server outside with the redirects that follow it, within one time."""

    def __init__(
        self, kernel: Kernel, arrived: Arrived, send: Callable[[OutsideRequest, AnswerArrived], None]
    ) -> None:
        self._kernel, self._arrived, self._call = kernel, arrived, send
        self._sent: list[OutsideRequest] = []
        self._began_us = 0

    def send(self, request: OutsideRequest) -> None:
        """Send the first request, or the one that follows a redirect."""
        self._sent.append(request)
        self._began_us = self._kernel.now_us
        self._call(request, self._take)

    def _take(self, answer: OutsideAnswer) -> None:
        last = self._sent[-1]
        if answer.failure and answer.code:
            self._arrived(None, f"{UNREAD}: {answer.failure}")
            return
        failure = answer.failure
        if not failure and (place := location_of(answer)):
            left_us = last.timeout_us - max(self._kernel.now_us - self._began_us, answer.took_us)
            followed = redirected(last, answer.code, place, len(self._sent))
            if isinstance(followed, str):
                failure = followed
            elif left_us <= 0:
                last, failure = followed, DEADLINE_EXCEEDED
            else:
                self.send(replace(followed, timeout_us=left_us))
                return
        if failure:
            self._arrived(None, f"Post {go_quote(last.url)}: {failure}")
            return
        media = _header(answer, "content-type")
        self._arrived(*read_answer(answer.code, media, answer.body, load_answer_yaml))


def load_answer_yaml(body: bytes) -> Json:
    """An answer that is no JSON.  Raises ValueError."""
    try:
        return load_yaml(body, depth_max=YAML_DEPTH_MAX)
    except YamlError as error:
        raise ValueError(str(error)) from None


def location_of(answer: OutsideAnswer) -> str:
    """Where an answer leads; "" if it leads nowhere else."""
    return _header(answer, "location") if answer.code in REDIRECTS else ""


def _header(answer: OutsideAnswer, name: str) -> str:
    return next((value for each, value in answer.headers if each.lower() == name), "")


def redirected(request: OutsideRequest, code: int, place: str, sent_count: int) -> OutsideRequest | str:
    """The request that follows a redirect, or why there is none, as Go's client says it.

    place: the header Location, its bytes as Latin-1
    sent_count: requests so far, with the first
    """
    text = place.encode("latin-1", "replace").decode("utf-8", "replace")
    try:
        target = resolved(parse_url(request.url), parse_url(text))
    except BadUrl as error:
        return f"failed to parse Location header {go_quote(text)}: {error}"
    if sent_count >= REDIRECTS_MAX:
        return f"stopped after {REDIRECTS_MAX} redirects"
    # A user in the address is not sent, and the Service of the first address is reached there only.
    address = request.connect_to if target.host == parse_url(request.url).host else None
    moved = replace(request, url=target._replace(user=None, fragment="").shown, connect_to=address)
    if code in AGAIN:
        return moved
    headers = tuple(pair for pair in request.headers if pair[0] != "Content-Type")
    return replace(moved, method="GET", headers=headers, body=b"")


def _review(question: Question, response: Obj) -> Json:
    """The answer of a program as a whole review; a patch may be given as operations."""
    if question.receiver:
        return {**question.body, "status": response}
    patch = response.get("patch")
    if isinstance(patch, bytes):
        response["patch"] = b64encode(patch).decode()
    if isinstance(patch, list):
        response["patch"] = b64encode(msgspec.json.encode(patch)).decode()
        response.setdefault("patchType", "JSONPatch")
    response.setdefault("uid", question.body["request"]["uid"])
    head = {key: question.body[key] for key in ("apiVersion", "kind")}
    return {**head, "response": response}
