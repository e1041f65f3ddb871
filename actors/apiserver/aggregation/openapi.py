"""The OpenAPI documents of aggregated APIs: when they are downloaded, and what is known of them.

Turns the delegated APIServices into `Aggregated`, by requests of this server to the servers behind
them.

Holds: nothing is sent while no cluster is served: only clients outside read these documents. The
last document of a server stays until its APIService goes.

Mirrors  kube-aggregator v1.25 pkg/controllers/openapi/{controller,aggregator/downloader}.go,
         pkg/controllers/openapiv3/{controller,aggregator/aggregator,aggregator/downloader}.go.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha512
from typing import Any

import msgspec

from sim.api.aggregation.delegation import Delegated, Forwarded
from sim.api.openapi.aggregated import NOTHING, Aggregated, converted, usable
from sim.api.openapi.merging import Described, below
from sim.api.types import UserInfo
from sim.kernel import Context, OutsideAnswer
from sim.units import SECOND

FIRST_US = SECOND
AGAIN_US = BASE_US = 60 * SECOND  # successfulUpdateDelay, also the base of the rate limiter
LIMIT_US = 3600 * SECOND  # failedUpdateMaxExpDelay
USER = UserInfo("system:aggregator", ())
OLDER, NEWER = "/openapi/v2", "/openapi/v3"
_OURS = '"6E8F849B434D4B98A569B9D7718876E9-'  # begin of tags that are made here
_JSON = (("Accept", "application/json"),)

# Finds the delegated APIService of a name, and sends a request to the server of one.
Named = Callable[[str], Delegated | None]
Send = Callable[[Delegated, Forwarded, Callable[[OutsideAnswer], None]], None]


class AggregatedOpenApi:
    """The documents of one replica.

    known: what is published now
    """

    def __init__(self, named: Named, send: Send) -> None:
        self._named, self._send = named, send
        self._number = 0  # of the last plan
        self._forget()

    def _forget(self) -> None:
        self.known: Aggregated = NOTHING
        self._ctx: Context | None = None
        self._plans: dict[tuple[str, str], int] = {}  # by name and path: the number of the plan
        self._failures: dict[tuple[str, str], int] = {}
        self._tags: dict[tuple[str, str], str] = {}
        self._legacy: dict[str, None] = {}  # without documents of version 3

    def begin(self, ctx: Context) -> None:
        """Begin an incarnation, which knows nothing."""
        self._forget()
        self._ctx = ctx

    def take(self, name: str, *, added: bool) -> None:
        """Follow an APIService that was added or changed."""
        for path in (OLDER, NEWER):
            if added or self._failures.pop((name, path), 0):
                self._plan((name, path), FIRST_US)

    def remove(self, name: str) -> None:
        """Forget an APIService, with its documents."""
        for path in (OLDER, NEWER):
            self._plans.pop((name, path), None)
            self._failures.pop((name, path), None)
            self._tags.pop((name, path), None)
        self._legacy.pop(name, None)
        version, _, group = name.partition(".")
        self.known = Aggregated(
            _without(self.known.older, name),
            _without(self.known.roots, name),
            _without(self.known.converted, f"apis/{group}/{version}"),
        )

    # --- downloads --------------------------------------------------------------------------------

    def _plan(self, key: tuple[str, str], delay_us: int) -> None:
        ctx = self._ctx
        if ctx is None:
            return
        self._number += 1
        self._plans[key] = self._number
        ctx.call_later_us(delay_us, self._sync, (key, self._number))

    def _sync(self, planned: tuple[tuple[str, str], int]) -> None:
        key, number = planned
        ctx, found = self._ctx, self._named(key[0])
        if ctx is None or found is None or self._plans.get(key) != number:
            return
        if not ctx.kernel.outside.is_open:
            self._plan(key, AGAIN_US)
            return
        legacy = key[1] == NEWER and key[0] in self._legacy
        path = OLDER if legacy else key[1]
        headers = _JSON if path == OLDER else ()
        tag = self._tags.get(key, "")
        if path == OLDER and tag and not tag.startswith(_OURS):
            headers = (*headers, ("If-None-Match", tag))

        def arrived(answer: OutsideAnswer) -> None:
            ctx.run(self._arrived, (key, number, found, path, answer))

        self._send(found, Forwarded("GET", path, "", headers, b"", USER), arrived)

    def _arrived(self, got: tuple[tuple[str, str], int, Delegated, str, OutsideAnswer]) -> None:
        key, number, found, path, answer = got
        if self._plans.get(key) != number:
            return
        if key[1] == NEWER and path == NEWER and answer.code == 404 and not answer.failure:
            self._legacy[key[0]] = None
            self._sync((key, number))
            return
        taken = self._root(key, answer) if path == NEWER else self._document(key, found, answer)
        if taken:
            self._failures.pop(key, None)
            self._plan(key, AGAIN_US)
            return
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._plan(key, min(BASE_US << min(failures - 1, 10), LIMIT_US))

    def _root(self, key: tuple[str, str], answer: OutsideAnswer) -> bool:
        """Take the root of version 3; True if it could be read."""
        root = _decoded(answer)
        paths = root.get("paths", {}) if isinstance(root, dict) else None
        if not isinstance(paths, dict):
            return False
        entries = {
            path: {"serverRelativeURL": str(each.get("serverRelativeURL", ""))}
            for path, each in paths.items()
            if isinstance(each, dict)
        }
        if self.known.roots.get(key[0]) != entries:
            roots = {**self.known.roots, key[0]: entries}
            self.known = Aggregated(self.known.older, roots, self.known.converted)
        return True

    def _document(self, key: tuple[str, str], found: Delegated, answer: OutsideAnswer) -> bool:
        """Take a document of version 2; True if it could be read, or is known.

        Quirk: for the documents of version 3 a server without any is no failure.
        """
        name, before = key[0], self._tags.get(key, "")
        if answer.code in (304, 404) and not answer.failure:
            return bool(before) if answer.code == 304 else key[1] == NEWER
        document = usable(_decoded(answer))
        if document is None:
            return False
        tag = next((value for header, value in answer.headers if header.lower() == "etag"), "")
        tag = tag or f'{_OURS}{sha512(answer.body).hexdigest().upper()}"'
        if tag == before:
            return True
        self._tags[key] = tag
        known = self.known
        if key[1] == OLDER:
            older = {**known.older, name: Described(found.obj, below(document, ("/apis/",)))}
            self.known = Aggregated(older, known.roots, known.converted)
        else:
            path = f"apis/{found.group}/{found.version}"
            self.known = Aggregated(known.older, known.roots, {**known.converted, path: converted(document)})
        return True


def _decoded(answer: OutsideAnswer) -> Any:
    """The JSON value of an answer; None if there is none."""
    if answer.failure or answer.code != 200:
        return None
    try:
        return msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _without(values: Any, name: str) -> Any:
    return {key: value for key, value in values.items() if key != name}
