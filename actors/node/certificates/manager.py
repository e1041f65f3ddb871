"""How an agent gets its first client certificate, and replaces certificates before they expire.

Turns the options of an agent and what its machine keeps into CertificateSigningRequests, and the
certificates in their answers into what the agent is known by.

Holds: an agent that needs its first certificate starts when it has it; with rotation it starts at
once, without a name.  A machine keeps its certificates while the agent is gone.

Mirrors  kubernetes v1.25 cmd/kubelet/app/server.go: buildKubeletClientConfig;
         pkg/kubelet/certificate/{kubelet,transport}.go, bootstrap/bootstrap.go: LoadClientCert,
         requestNodeCertificate; client-go util/certificate/certificate_manager.go: rotateCerts,
         nextRotationDeadline, updateServerError.
Differs  a request is read each second, where upstream watches it; connections stay open when a
         certificate is replaced.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any, NamedTuple

from actors.node.clients import NodeClients
from actors.node.credentials import Credential
from actors.node.heartbeat.node_status import host_addresses
from actors.node.runtime.machine import Machine
from sim.api.kinds.certificates.certificate_signing_request import DENIED, FAILED, has_condition
from sim.api.types import Obj, Reply
from sim.client.client import Client
from sim.ident import Names
from sim.kernel.actor import Context
from sim.options.node.agent import NodeAgentOptions
from sim.units import HOUR, MINUTE, SECOND

REQUESTS = "certificatesigningrequests"
POLL_US = 1 * SECOND
SERVER_US = 1 * MINUTE  # bootstrap.go: waitForServer
FIRST_US = 1 * HOUR  # bootstrap.go: requestNodeCertificate
WAIT_US = 15 * MINUTE  # certificate_manager.go: certificateWaitTimeout
RETRY_US, RETRY_MAX_US = 2 * SECOND, 32 * SECOND  # certificate_manager.go: Start
CHECK_US = 10 * SECOND  # transport.go: UpdateTransport
EXIT_US = 5 * MINUTE  # server.go: exitAfter
WELL = (401, 403, 404)  # updateServerError: answers of a server that works


class Wanted(NamedTuple):
    """One certificate to ask for.

    client: sends the requests; wait_us: how long a certificate is waited for
    named: see `signing_request`; serving: True for that of the agent's server
    """

    client: Client
    wait_us: int
    named: bool = False
    serving: bool = False


class CertificateManager:
    """The certificates of one incarnation of an agent."""

    def __init__(
        self,
        ctx: Context,
        machine: Machine,
        clients: tuple[NodeClients, NodeClients],
        options: NodeAgentOptions,
        names: Names,
    ) -> None:
        """clients: those of the agent, and those of the bootstrap configuration"""
        self._ctx, self._machine, self._clients = ctx, machine, clients
        self._options, self._names = options, names
        self._random = ctx.stream("certificates")
        self._healthy = self._begun_without = False
        self._available_us = ctx.wall_us()

    def start(self, then: Callable[[], None]) -> None:
        """Begin, and call `then` when the agent may run."""
        held = self._machine.certificates
        if held.installed is not None:
            held.client, held.installed = held.installed, None
        lacks = held.client is None or self._has_ended()
        self._begun_without = lacks
        rotates = self._options.rotate_certificates

        if lacks and self._options.bootstrap_config and not rotates:
            self._bootstrap(lambda: self._run(then))
        else:
            self._run(then)

    def _watch_end(self) -> None:
        """Leave the fast paths, on which no one looks at the certificate, when it ends."""
        held = self._machine.certificates.client
        if held is not None:
            self._ctx.call_at_us(held.end_us + 1 - self._ctx.kernel.epoch_us, self._ended, held)

    def _ended(self, held: Credential) -> None:
        if self._machine.certificates.client is held:
            self._ctx.kernel.standing.moved()

    def _run(self, then: Callable[[], None]) -> None:
        then()
        if self._machine.certificates.client is not None and not self._has_ended():
            self._watch_end()
        if self._options.rotate_certificates:
            self._plan(serving=False)
            self._ctx.call_later_us(CHECK_US, self._check)
        if self._options.rotate_server_certificates:
            self._plan(serving=True)

    def _has_ended(self) -> bool:
        held = self._machine.certificates.client
        return held is not None and not held.valid(self._ctx.wall_us())

    def _client(self, *, bootstrap: bool) -> Client:
        clients = self._clients[bootstrap]
        return clients.main(self._ctx, self._machine.spec.name, 0, 0)

    # --- the first certificate --------------------------------------------------------------------

    def _bootstrap(self, then: Callable[[], None]) -> None:
        client, begun_us = self._client(bootstrap=True), self._ctx.kernel.now_us

        def failed(problem: str) -> None:
            # Without a problem no server has answered.
            if not problem and self._ctx.kernel.now_us - begun_us < SERVER_US:
                self._ctx.call_later_us(RETRY_US, ask)
                return
            self._ctx.exit(f"failed to run {self._names.node_agent}: {problem or 'no API server answers'}")

        def ask(_: object) -> None:
            _Request(self, Wanted(client, FIRST_US, named=True), then, failed).send()

        ask(None)

    # --- rotation ---------------------------------------------------------------------------------

    def _held(self, *, serving: bool) -> Credential | None:
        held = self._machine.certificates
        return held.serving if serving else held.client

    def _plan(self, *, serving: bool) -> None:
        """Ask for the next certificate when most of the time of the present one is over."""
        held, wait_us = self._held(serving=serving), 0
        if held is not None:
            part = 0.7 + 0.2 * self._random.random()
            deadline_us = held.begin_us + int((held.end_us - held.begin_us) * part)
            wait_us = max(0, deadline_us - self._ctx.wall_us())
        self._ctx.call_later_us(wait_us, self._rotate, (serving, RETRY_US))

    def _rotate(self, given: tuple[bool, int]) -> None:
        serving, retry_us = given
        # bootstrap.go, LoadClientConfig: with a valid certificate at its start it is never used.
        first = self._begun_without and bool(self._options.bootstrap_config)
        first = first and (self._held(serving=False) is None or self._has_ended())
        client = self._client(bootstrap=first and not serving)

        def failed(_: str) -> None:
            again = serving, min(2 * retry_us, RETRY_MAX_US)
            self._ctx.call_later_us(int(retry_us * (1 + 0.1 * self._random.random())), self._rotate, again)

        def done() -> None:
            self._plan(serving=serving)

        _Request(self, Wanted(client, WAIT_US, serving=serving), done, failed).send()

    def _check(self, _: object) -> None:
        """End the process if it has had no certificate for long, although servers answer."""
        now_us, held = self._ctx.wall_us(), self._held(serving=False)
        if held is not None and held.valid(now_us):
            self._available_us = now_us
        elif now_us > self._available_us + EXIT_US and self._healthy:
            self._ctx.exit("No valid client certificate is found and the server is responsive, exiting.")
            return
        self._ctx.call_later_us(CHECK_US, self._check)

    # --- what a request uses ----------------------------------------------------------------------

    def answered(self, reply: Reply) -> None:
        """A server has answered the creation of a request, or none has."""
        self._healthy = reply.ok or reply.code in WELL

    def request(self, wanted: Wanted) -> Obj:
        """The object to create."""
        from actors.node.certificates.requests import signing_request  # needs cryptography

        machine, ctx = self._machine, self._ctx
        held, node = machine.certificates, machine.spec.name
        if not wanted.named:
            held.attempts += 1
        drawn = ctx.kernel.stream(f"{node}/key/{0 if wanted.named else held.attempts}").getrandbits(256)
        secret = held.secret(drawn, serving=wanted.serving, named=wanted.named)
        addresses = host_addresses(machine, self._options) if wanted.serving else ()
        return signing_request(secret, node, self._names, addresses, named=wanted.named)

    def issued(self, wanted: Wanted, pem: bytes) -> None:
        """Keep a certificate.  Raises ValueError."""
        from actors.node.certificates.requests import credential

        held, found = self._machine.certificates, credential(pem)
        held.keep(pem, serving=wanted.serving)
        if wanted.serving:
            held.serving = found
        else:
            held.client = found
            self._watch_end()

    def later(self, fn: Callable[[Any], None]) -> None:
        """Look at a request again."""
        self._ctx.call_later_us(POLL_US, fn)

    @property
    def now_us(self) -> int:
        """Virtual time."""
        return self._ctx.kernel.now_us


class _Request:
    """One request, until its certificate is there.

    failed: gets why there is none; "" if no server answers
    """

    def __init__(
        self,
        manager: CertificateManager,
        wanted: Wanted,
        done: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        self._manager, self._wanted, self._done, self._failed = manager, wanted, done, failed
        self._name, self._until_us = "", manager.now_us + wanted.wait_us

    def send(self) -> None:
        """Create the object."""
        obj, client = self._manager.request(self._wanted), self._wanted.client
        self._name = obj["metadata"].get("name", "")
        client.call(client.request("create", REQUESTS, body=obj), self._created)

    def _created(self, reply: Reply) -> None:
        self._manager.answered(reply)
        if reply.ok:
            self._name = reply.obj["metadata"]["name"]
        elif reply.reason != "AlreadyExists" or not self._name:
            text = f"cannot create certificate signing request: {reply.message}"
            self._failed("" if reply.lost else text)
            return
        self._read(None)

    def _read(self, _: object) -> None:
        client = self._wanted.client
        client.call(client.request("get", REQUESTS, name=self._name), self._seen)

    def _seen(self, reply: Reply) -> None:
        if reply.ok:
            status = reply.obj.get("status") or {}
            for condition in (DENIED, FAILED):
                if has_condition(reply.obj, condition):
                    self._failed(f"certificate signing request {self._name} is {condition.lower()}")
                    return
            if status.get("certificate"):
                try:
                    self._manager.issued(self._wanted, b64decode(status["certificate"]))
                except ValueError as error:
                    self._failed(str(error))
                    return
                self._done()
                return
        if self._manager.now_us >= self._until_us:
            self._failed("timed out waiting for the condition")
        else:
            self._manager.later(self._read)
