"""The ConfigMap from which other servers learn how this one authenticates clients.

Turns the certificate authorities of a server, and those that the ConfigMap already names, into its
data, and keeps it so.

Holds: an authority that another server wrote stays until it expires; nothing is written while the
data is correct.

Mirrors  kubernetes v1.25 pkg/controlplane/controller/clusterauthenticationtrust/
         cluster_authentication_trust_controller.go.
Differs  - The server's own authorities are published even if they have expired by virtual time,
           since clients outside of the simulation compare them with real time.
         - A sync happens at the instant of a change, and a failed one is repeated after a second.
         - A ConfigMap that cannot be read is replaced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from actors.apiserver.builtin.own_requests import write
from actors.apiserver.ports import LocalStore, Server
from sim.api.store import Change
from sim.api.types import Obj, Reply, Verb
from sim.ident import Names
from sim.kernel import Context
from sim.units import SECOND

CLIENT_CA, PROXY_CA = "client-ca-file", "requestheader-client-ca-file"
# The keys with lists as JSON texts.
LISTS = (
    "requestheader-username-headers",
    "requestheader-group-headers",
    "requestheader-extra-headers-prefix",
    "requestheader-allowed-names",
)
EXPIRED_FOR = timedelta(minutes=5)  # filterExpiredCerts: slack
RETRY_US = SECOND


class Trust:
    """How a server authenticates clients, as the data of the ConfigMap; empty without authorities."""

    def __init__(self) -> None:
        self._data: Mapping[str, str] = {}
        self._listeners: list[Callable[[], None]] = []

    @property
    def data(self) -> Mapping[str, str]:
        """The data that the ConfigMap must hold."""
        return self._data

    @data.setter
    def data(self, data: Mapping[str, str]) -> None:
        self._data = data
        for listener in [*self._listeners]:
            listener()

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each change; the result ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)


# --- decisions ------------------------------------------------------------------------------------


def config_map(found: Obj | None, required: Mapping[str, str], names: Names, now_us: int) -> Obj | None:
    """The ConfigMap with the required data; `found` itself if it holds that already: there is none
    while there is nothing to publish.
    """
    made = found or {
        "metadata": {"name": names.config_map_authentication, "namespace": names.system_namespace}
    }
    data = combined(made.get("data") or {}, required, now_us)
    return found if data == (made.get("data") or {}) else {**made, "data": data}


def combined(existing: Mapping[str, str], required: Mapping[str, str], now_us: int) -> dict[str, str]:
    """The union of both: the authorities and the lists of both, each entry once."""
    sources = (existing, required)
    data: dict[str, str] = {}
    clients = _authorities([source.get(CLIENT_CA, "") for source in sources], now_us)
    if clients:
        data[CLIENT_CA] = clients
    proxies = _authorities([source.get(PROXY_CA, "") for source in sources], now_us)
    if proxies:
        data[PROXY_CA] = proxies
        for key in LISTS:
            entries = [entry for source in sources for entry in _entries(source.get(key, ""))]
            data[key] = json.dumps(list(dict.fromkeys(entries)), separators=(",", ":"))
    return data


def _authorities(bundles: Sequence[str], now_us: int) -> str:
    """The certificates of both PEM texts as one text, each once, without expired ones of the first."""
    if not any(bundles):
        return ""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    oldest = datetime.fromtimestamp(now_us // SECOND, UTC) - EXPIRED_FOR
    kept: dict[bytes, str] = {}
    for own, bundle in enumerate(bundles):
        try:
            certificates = x509.load_pem_x509_certificates(bundle.encode())
        except ValueError:
            continue  # the text holds no certificate
        for certificate in certificates:
            if own or certificate.not_valid_after_utc > oldest:
                text = certificate.public_bytes(Encoding.PEM).decode()
                kept.setdefault(certificate.public_bytes(Encoding.DER), text)
    return "".join(kept.values())


def _entries(text: str) -> list[str]:
    try:
        value = json.loads(text) if text else []
    except ValueError:
        return []
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


# --- the process ----------------------------------------------------------------------------------


class AuthorityKeeper:
    """The controller of one incarnation of a server."""

    def __init__(self, server: Server, store: LocalStore, ctx: Context, trust: Trust) -> None:
        self._server = server
        self._store = store
        self._ctx = ctx
        self._trust = trust
        names = server.scheme.names
        self._key = server.scheme.key("configmaps", names.system_namespace, names.config_map_authentication)
        self._planned = False
        prefix = server.scheme.prefix("configmaps", names.system_namespace)
        ctx.on_stop(store.subscribe(prefix, self._stored))
        ctx.on_stop(trust.on_change(self._plan))

    def _stored(self, change: Change) -> None:
        if change.item.key == self._key:
            self._plan()

    def _plan(self, delay_us: int = 0) -> None:
        if not self._planned:
            self._planned = True
            self._ctx.call_later_us(delay_us, self._sync)

    def _sync(self, _: object) -> None:
        self._planned = False
        item = self._store.get(self._key)
        found = None if item is None else item.obj
        server = self._server
        wanted = config_map(found, self._trust.data, server.scheme.names, self._ctx.wall_us())
        if wanted is None or wanted is found:
            return
        verb: Verb = "create" if found is None else "update"
        write(server, verb, "configmaps", wanted, self._written)

    def _written(self, reply: Reply) -> None:
        if not reply.ok and self._ctx.alive:
            self._plan(RETRY_US)
