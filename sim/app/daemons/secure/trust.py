"""The authorities of clients that a secure port accepts, and its front proxies.

Turns options and the ConfigMap of the cluster's authentication into `Trust`, which follows both.

Holds: files are read again when they have changed; content that cannot be read leaves the earlier
one in place.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/authentication.go (ApplyTo,
         createRequestHeaderConfig), pkg/server/dynamiccertificates/configmap_cafile_content.go.
Differs  the ConfigMap is read each LOOKUP_S, where upstream watches it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import trio

from sim.api.auth.authenticators.front_proxy import ProxyHeaders
from sim.app.daemons.secure.reviews import Reviewer, Unreviewed
from sim.errors import InputError
from sim.files import read_bounded
from sim.ident import Names
from sim.options.groups.secure import SecureFlags
from sim.wire.http.certificates import load_bundle

LOG = logging.getLogger(__name__)
LOOKUP_S = 10.0


class Trusted(NamedTuple):
    """Authorities in PEM, b"" for none, and the headers of front proxies."""

    clients: bytes = b""
    proxies: bytes = b""
    headers: ProxyHeaders = ProxyHeaders()


class Trust:
    """What is believed now.  present: replaced as a whole"""

    def __init__(self, names: Names, flags: SecureFlags, reviewer: Reviewer | None) -> None:
        self._names, self._flags, self._reviewer = names, flags, reviewer
        self.present = Trusted(headers=_stated(flags))
        self._read: dict[str, tuple[object, bytes]] = {}  # by path: its version and its content

    @property
    def asks(self) -> bool:
        """True if clients may show a certificate."""
        return bool(self._flags.client_ca_file or self._flags.requestheader_client_ca_file or self._looks_up)

    @property
    def _looks_up(self) -> bool:
        flags = self._flags
        entry = flags.client_ca_file and flags.requestheader_client_ca_file
        return self._reviewer is not None and not flags.skip_lookup and not entry

    def follow(self) -> Trusted:
        """What is believed, with the files as they are now."""
        flags, result = self._flags, self.present
        for option, path in (
            ("client-ca-file", flags.client_ca_file),
            ("requestheader-client-ca-file", flags.requestheader_client_ca_file),
        ):
            try:
                data = self._file(option, path) if path else None
            except InputError as error:
                LOG.error("%s", error)
                continue
            if data is not None and option.startswith("client"):
                result = result._replace(clients=data)
            elif data is not None:
                result = result._replace(proxies=data)
        self.present = result
        return result

    def authorities(self) -> bytes:
        """All authorities that a connection's certificate may come from, PEM."""
        result = self.follow()
        return b"\n".join(each for each in (result.clients, result.proxies) if each)

    def _file(self, option: str, path: str) -> bytes:
        """A bundle.  Raises InputError."""
        try:
            info = Path(path).stat()
            state: object = (info.st_mtime_ns, info.st_size, info.st_ino)
        except OSError:
            state = None
        entry = self._read.get(path)
        if entry is not None and entry[0] == state:
            return entry[1]
        try:
            data = read_bounded(Path(path), place=f"--{option}")
            load_bundle(data)
        except ValueError as error:
            raise InputError(
                f"{path}: data does not contain any valid certificates: {error}", f"--{option}"
            ) from None
        self._read[path] = state, data
        return data

    async def begin(self, nursery: trio.Nursery) -> None:
        """Read everything once, and follow the cluster.  Raises InputError."""
        flags = self._flags
        for option, path in (
            ("client-ca-file", flags.client_ca_file),
            ("requestheader-client-ca-file", flags.requestheader_client_ca_file),
        ):
            if path:
                self._file(option, path)
        if flags.skip_lookup:
            return
        if self._reviewer is None:
            name, place = self._names.config_map_authentication, self._names.system_namespace
            for option, path, what in (
                ("client-ca-file", flags.client_ca_file, "client certificate authentication"),
                (
                    "requestheader-client-ca-file",
                    flags.requestheader_client_ca_file,
                    "request-header client certificate authentication",
                ),
            ):
                if not path:
                    LOG.warning(
                        "No authentication-kubeconfig provided in order to lookup %s in configmap/%s in %s,"
                        " so %s won't work.", option, name, place, what,
                    )  # fmt: skip
            return
        if not self._looks_up:
            return
        try:
            await self._look_up(self._reviewer)
        except Unreviewed as error:
            if not flags.tolerate_lookup_failure:
                raise InputError(
                    f"unable to load configmap based request-header-client-ca-file: {error}",
                    "--authentication-kubeconfig",
                ) from None
            LOG.warning("Error looking up in-cluster authentication configuration: %s", error)
            LOG.warning(
                "Continuing without authentication configuration. This may treat all requests as anonymous."
            )
        nursery.start_soon(self._repeat, self._reviewer)

    async def _repeat(self, reviewer: Reviewer) -> None:
        while True:
            await trio.sleep(LOOKUP_S)
            try:
                await self._look_up(reviewer)
            except Unreviewed as error:
                LOG.warning("Error looking up in-cluster authentication configuration: %s", error)

    async def _look_up(self, reviewer: Reviewer) -> None:
        data = await reviewer.config_map(self._names.config_map_authentication)
        flags, result = self._flags, self.present
        clients = _bundle(data.get("client-ca-file"))
        if clients and not flags.client_ca_file:
            result = result._replace(clients=clients)
        if not flags.requestheader_client_ca_file:
            proxies = _bundle(data.get("requestheader-client-ca-file"))
            result = result._replace(proxies=proxies or result.proxies, headers=_of_cluster(data))
        self.present = result


def _stated(flags: SecureFlags) -> ProxyHeaders:
    return ProxyHeaders(
        flags.requestheader_allowed_names,
        flags.requestheader_username_headers,
        flags.requestheader_group_headers,
        flags.requestheader_extra_prefixes,
    )


def _of_cluster(data: Mapping[str, Any]) -> ProxyHeaders:
    def names(what: str) -> tuple[str, ...]:
        try:
            result = json.loads(data.get(f"requestheader-{what}") or "[]")
        except ValueError:
            result = []
        return tuple(map(str, result)) if isinstance(result, list) else ()

    kinds = ("allowed-names", "username-headers", "group-headers", "extra-headers-prefix")
    return ProxyHeaders(*map(names, kinds))


def _bundle(text: object) -> bytes:
    """A bundle of the ConfigMap; b"" if it cannot be read."""
    data = text.encode() if isinstance(text, str) else b""
    try:
        load_bundle(data)
    except ValueError:
        return b""
    return data
