"""The secure port of a component: HTTPS with the rights of an API server.

Turns options into a listener that serves for as long as the component runs.

Mirrors  kubernetes v1.25 apiserver pkg/server/secure_serving.go, options/serving.go (ApplyTo);
         controller-manager app/serve.go (BuildHandlerChain).
Differs  the wildcard address 0.0.0.0 is that of IPv4 alone.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from functools import partial
from random import Random
from typing import NamedTuple

import trio

from sim.app.daemons.connection import access_named
from sim.app.daemons.process import Alone
from sim.app.daemons.secure.access import PortAccess
from sim.app.daemons.secure.pages import ComponentPages, Shown
from sim.app.daemons.secure.reviews import Reviewer
from sim.app.daemons.secure.trust import Trust
from sim.app.daemons.serving_tls import ServingTls
from sim.app.serving.front import outside_us
from sim.errors import InputError
from sim.options.groups.secure import SecureFlags
from sim.options.groups.serving import EVERYWHERE, ServerFlags
from sim.wire.exchange import Exchange, Response
from sim.wire.http.app import Application
from sim.wire.http.chain.request import refusal_of
from sim.wire.http.forms.negotiation import Form
from sim.wire.http.fronts.server import serve_at

LOG = logging.getLogger(__name__)
BACKLOG = 128
LOCAL = ("localhost", "127.0.0.1")
TOKENS, RIGHTS = "authentication-kubeconfig", "authorization-kubeconfig"


class PortOptions(NamedTuple):
    """The options of a port.

    files: by the name of an option, the file of a client configuration
    agent: what follows the manager in the user agent of reviews
    """

    flags: SecureFlags
    server: ServerFlags
    files: dict[str, str]
    agent: str


def client_files(values: Mapping[str, object]) -> dict[str, str]:
    """The client configurations for reviews that the raw values of options name."""
    return {name: str(values[name]) for name in (TOKENS, RIGHTS) if values.get(name)}


async def serve_secure(alone: Alone, options: PortOptions, shown: Shown) -> None:
    """Begin to serve in the nursery of the process.  Raises InputError."""
    names, flags, server = alone.names, options.flags, options.server
    if not server.secure_port:
        return
    reviewers: list[Reviewer | None] = []
    for option in (TOKENS, RIGHTS):
        access = access_named(names, f"--{option}", options.files.get(option, ""))
        if access is None:
            reviewers.append(None)
            continue
        sender = alone.sender(access, options.agent)
        manager = names.component(shown.process)
        reviewers.append(Reviewer(names, sender, manager, Random(alone.kernel.seed)))
    tokens, rights = reviewers
    if rights is None:
        LOG.warning(
            "No authorization-kubeconfig provided, so SubjectAccessReview of authorization tokens won't work."
        )
    trust = Trust(names, flags, tokens)
    await trust.begin(alone.nursery)
    hosts = LOCAL if server.bind_address in EVERYWHERE else (*LOCAL, server.bind_address)
    component = names.component(shown.process)
    tls = ServingTls(flags, component, hosts, trust.authorities if trust.asks else None)
    access_to = PortAccess(names, flags, server, trust, tokens, rights, outside_us)
    pages, form = ComponentPages(names, alone.kernel, shown), Form(names.media_json)

    async def answer(exchange: Exchange) -> Response:
        refused = await access_to.refused(exchange)
        return await pages.answer(exchange) if refused is None else refusal_of(names, form, refused)

    listener = await _listener(server.bind_address, server.secure_port, flags.permit_port_sharing)
    await alone.nursery.start(
        partial(serve_at, Application(answer), [listener], tls.context, None, flags.http2_max_streams)
    )
    LOG.info("Serving securely on %s", _shown(server.bind_address, server.secure_port))


async def _listener(address: str, port: int, shared: bool) -> trio.SocketListener:
    """Listen at an address.  Raises InputError."""
    host = address or "0.0.0.0"
    new = trio.socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Go's listeners
        if shared:
            new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        await new.bind((host, port))
        new.listen(BACKLOG)
    except OSError as error:
        new.close()
        where = _shown(address, port)
        raise InputError(
            f"failed to create listener: failed to listen on {where}: {error.strerror}",
            "--secure-port",
            "give another port, or 0 for none",
        ) from None
    return trio.SocketListener(new)


def _shown(address: str, port: int) -> str:
    host = address or "0.0.0.0"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
