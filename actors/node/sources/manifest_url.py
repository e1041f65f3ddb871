"""The agent's HTTP source: the pods that a server describes.

Turns the answers to one GET each `http-check-frequency` into static pods.  The agent asks over the
network of its machine, so that a program of a pod can be the server.

Holds: an answer that is no list of valid pods changes nothing, and neither does one like the last;
an empty body removes all pods.

Mirrors  pkg/kubelet/config/http.go: NewSourceURL, extractFromURL (v1.25).
Differs  the server is named by an address, as the machine's resolver knows no names of a cluster;
         redirections are not followed, and there is no TLS.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from actors.node.runtime.ports import Agent
from actors.node.sources.manifests import Manifests
from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.strategies import for_create
from sim.api.kinds.validation import validate_create
from sim.api.schema.decoding import decode
from sim.api.schema.field_validation import DecodeError
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.kernel.actor import Context
from sim.kernel.timer import Timer
from sim.units import SECOND

TIMEOUT_US = 10 * SECOND  # config/http.go: NewSourceURL
Result = TypeVar("Result")


class Errand(Generic[Result]):
    """Steps that wait for sources, carried out by an agent."""

    def __init__(
        self, ctx: Context, steps: Generator[Any, None, Result], then: Callable[[Result], None]
    ) -> None:
        self._ctx, self._steps, self._then = ctx, steps, then
        self._sources: tuple[Any, ...] = ()
        self._timer: Timer | None = None
        ctx.call_later_us(0, self._go)

    def _woken(self) -> None:
        self._forget()
        self._ctx.call_later_us(0, self._go)

    def _forget(self) -> None:
        for source in self._sources:
            source.unwatch(self._woken)
        self._sources = ()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go(self, _: object) -> None:
        self._forget()
        now_us = self._ctx.kernel.now_us
        try:
            wait = next(self._steps)
            while (wait.until_us is not None and wait.until_us <= now_us) or any(
                one.ready for one in wait.sources
            ):
                wait = next(self._steps)
        except StopIteration as end:
            self._then(end.value)
            return
        self._sources = wait.sources
        for source in wait.sources:
            source.watch(self._woken)
        if wait.until_us is not None:
            self._timer = self._ctx.timer_us(wait.until_us - now_us, self._go)


class ManifestUrl:
    """The source of one incarnation of the agent."""

    def __init__(self, agent: Agent, manifests: Manifests, scheme: Scheme) -> None:
        self._agent, self._manifests = agent, manifests
        self._scheme, self._resource = scheme, scheme.resource("pods")
        self._before: bytes | None = None

    def start(self) -> None:
        """Ask for the first time."""
        self._ask(None)

    def _ask(self, _: object) -> None:
        agent = self._agent
        agent.ctx.call_later_us(agent.options.http_check_frequency_us, self._ask)
        if agent.machine.fabric is not None:
            Errand(agent.ctx, self._fetch(), self._answered)

    def _fetch(self) -> Generator[Any, None, bytes | None]:
        """The body of the answer; None if the server does not answer with 200."""
        from actors.node.programs.network.http import HttpError, Request, exchange
        from actors.node.programs.network.sockets import SocketError
        from actors.node.programs.waits import Wait

        agent, options = self._agent, self._agent.options
        url = urlsplit(options.manifest_url)
        # The option is checked, and there is a network.
        assert url.hostname is not None and agent.machine.fabric is not None
        network = agent.machine.fabric().network(agent.host_ips[0], agent.spec.name)
        until_us = agent.now_us + TIMEOUT_US
        attempt = network.connect(url.hostname, url.port or 80)
        while not attempt.ready:
            if agent.now_us >= until_us:
                attempt.abandon()
                return None
            yield Wait((attempt,), until_us)
        if (connection := attempt.connection) is None:
            return None
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        headers = ("Host", url.netloc), ("Connection", "close"), *options.manifest_url_header
        try:
            request = Request("GET", target, headers)
            response = yield from exchange(connection, request, lambda: agent.now_us, until_us)
        except (SocketError, HttpError):
            return None
        finally:
            connection.ended()
        return response.body if response.code == 200 else None

    def _answered(self, body: bytes | None) -> None:
        from sim.wire.http.forms.yaml_json import YamlError  # few agents read YAML

        if body is None or body == self._before:
            return
        try:
            pods = self._pods(body)
        except (ValueError, YamlError):
            return
        self._before = body
        self._manifests.fetched(pods, self._agent.options.manifest_url)

    def _pods(self, body: bytes) -> list[Obj]:
        """The pods of an answer.  Raises ValueError, YamlError."""
        from sim.wire.http.forms.yaml_json import load_yaml

        if not body:
            return []
        value = load_yaml(body)
        if not isinstance(value, dict) or value.get("kind") not in ("Pod", "PodList", "List"):
            raise ValueError("neither a Pod nor a PodList")
        given = [value] if value["kind"] == "Pod" else value.get("items")
        if not isinstance(given, list):
            raise ValueError("no list of pods")
        return [self._pod(each) for each in given]

    def _pod(self, value: object) -> Obj:
        if not isinstance(value, dict):
            raise ValueError("no Pod")
        try:
            pod = decode(self._resource, {"apiVersion": "v1", "kind": "Pod", **value}).obj
        except DecodeError as error:
            raise ValueError(error.message) from None
        names = self._agent.names
        meta = {"namespace": names.default_namespace, **(pod.get("metadata") or {})}
        new = apply_defaults(self._resource, {**pod, "metadata": meta})
        named = {**new, "metadata": {**meta, "uid": meta.get("uid") or "some"}}
        errors = validate_create(self._resource, for_create(self._resource, named, names, ()), ())
        if errors:
            raise ValueError(errors[0].message)
        return new
