"""Agents of nodes and programs of pods, as an API server that runs alone reaches them.

Turns what is asked of an agent, for a log, a command or ports, into a request over HTTPS to the
address of its node, which is passed through as it comes; likewise a proxy into one to a program.

Mirrors  kubernetes v1.25 pkg/registry/core/pod/strategy.go (LogLocation, streamLocation),
         pkg/kubelet/client/kubelet_client.go (GetConnectionInfo), pkg/registry/core/pod/rest.
Differs  see `sim.options.apiserver.alone`.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, urlencode

from sim.api.dialing import joined
from sim.api.store import Item
from sim.api.streams import StreamRequest
from sim.api.types import Obj, Reply
from sim.api.verbs.call import Call
from sim.api.verbs.log import agent_of, log_url
from sim.kernel import OutsideRequest

_PATHS = {"exec": "exec", "attach": "attach", "portforward": "portForward"}


class OutsideAgents:
    """The requests of one server.

    node: the Node of a name, None if there is none
    types: of addresses, the preferred first; without any, as `agent_of` chooses
    authorities: that certificates of agents are checked with; b"" accepts any
    client_pair: certificate and key of the server as a client; b"" for none
    """

    def __init__(
        self,
        node: Callable[[str], Obj | None],
        types: tuple[str, ...],
        authorities: bytes,
        client_pair: bytes,
    ) -> None:
        self._node, self._types = node, types
        self._authorities, self._client_pair = authorities, client_pair

    def log(self, call: Call, item: Item, container: str, address: str) -> Reply:
        """The log of a container.  address: of the agent, with its port"""
        host = self._address(item.obj["spec"]["nodeName"], address)
        return self._passed(log_url(call.options, item.obj["metadata"], container, host))

    def stream(self, node: str, request: StreamRequest, address: str) -> Reply:
        """A command, a terminal or ports of a pod; or a path of the agent's own server."""
        host = self._address(node, address)
        if request.kind == "agent":
            return self._passed(f"https://{host}")
        parts = (_PATHS[request.kind], request.namespace, request.name, request.container)
        path = "/".join(quote(part) for part in parts if part)
        asked = (
            ("input", request.stdin),
            ("output", request.stdout),
            ("error", request.stderr),
            ("tty", request.tty),
        )
        query = [(name, "1") for name, target in asked if target]
        query += [("command", word) for word in request.command]
        query += [("port", str(port)) for port in request.ports]
        return self._passed(f"https://{host}/{path}?{urlencode(sorted(query, key=lambda pair: pair[0]))}")

    def dial(self, request: StreamRequest, _: Callable[[str], Reply]) -> Reply:
        """A program behind a proxy; its certificate is not checked."""
        scheme = "https" if request.encrypted else "http"
        return Reply(200, body=OutsideRequest("", f"{scheme}://{joined(*request.backend)}", verified=False))

    def _passed(self, url: str) -> Reply:
        request = OutsideRequest(
            "",
            url,
            authorities=self._authorities,
            verified=bool(self._authorities),
            client_pair=self._client_pair,
        )
        return Reply(200, body=request)

    def _address(self, name: str, default: str) -> str:
        """Address and port of the agent of a node."""
        node = self._node(name) if self._types else None
        if node is None:
            return default
        entry = {each["type"]: each["address"] for each in reversed(node["status"].get("addresses") or ())}
        chosen = next((entry[each] for each in self._types if each in entry), None)
        return default if chosen is None else joined(chosen, agent_of(node)[1])
