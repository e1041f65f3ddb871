"""Access to a secure port: how long reviews count, what is looked up, and what needs no rights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sim.api.types import Obj
from sim.app.daemons.secure.access import PortAccess
from sim.app.daemons.secure.reviews import TRIES, Reviewer, Unreviewed
from sim.app.daemons.secure.trust import Trust
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.base import parse
from sim.options.groups.secure import SecureFlags
from sim.options.groups.serving import ServerFlags
from sim.units import SECOND
from sim.wire.authority import Authority
from sim.wire.exchange import Exchange

NAMED = NAMES["kubernetes"]
GOOD, REJECTED = "good", "bad"


class Server(Reviewer):
    """An API server that knows one token, and allows its user one path.

    asked: how often, by the plural of the review
    fails: the code of answers that are failures; 0 for none
    """

    def __init__(self, authorities: Obj | None = None) -> None:
        self.asked: Counter[str] = Counter()
        self.fails = 0
        self.authorities = authorities
        sender: Any = self
        super().__init__(NAMED, sender, "test", Random(1))

    async def ask(self, method: str, path: str, body: Any, manager: str, wait_s: float) -> tuple[int, Any]:
        """What `Sender.ask` returns."""
        plural = path.rpartition("/")[2]
        self.asked[plural] += 1
        if self.fails:
            return self.fails, {"message": "no"}
        if plural == "tokenreviews":
            known = body["spec"]["token"] == GOOD
            return 201, {"status": {"authenticated": known, "user": {"username": "u"} if known else {}}}
        if plural == "subjectaccessreviews":
            return 201, {"status": {"allowed": body["spec"]["nonResourceAttributes"]["path"] == "/metrics"}}
        return (
            (404, {"message": "not found"}) if self.authorities is None else (200, {"data": self.authorities})
        )


def exchange(path: str, token: str = "") -> Exchange:
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    return Exchange({"method": "GET", "raw_path": path.encode(), "query_string": b"", "headers": headers})


def flags_of(**given: object) -> SecureFlags:
    values = {name.replace("_", "-"): value for name, value in given.items()}
    found: SecureFlags = parse(SecureFlags, values, names=NAMED)
    return found


class Port:
    """The access to a port with the options of a test.  now_s: the clock"""

    def __init__(self, server: Server | None, paths: str = "/healthz", **given: object) -> None:
        self.now_s = 1000.0
        flags = flags_of(**given)
        options = ServerFlags(always_allow_paths=tuple(paths.split(",")))
        trust = Trust(NAMED, flags, server)
        self._access = PortAccess(
            NAMED, flags, options, trust, server, server, lambda: int(self.now_s * SECOND)
        )

    def code(self, path: str, token: str = "") -> int:
        """The code with which a request is refused; 200 if it is not."""
        refused = trio.run(self._access.refused, exchange(path, token))
        return 200 if refused is None else int(refused["code"])


@pytest.mark.parametrize("ttl_s", [10, 60])
def test_the_review_of_a_token_counts_for_its_time(ttl_s: int) -> None:
    server = Server()
    port = Port(server, authentication_token_webhook_cache_ttl=f"{ttl_s}s")
    for after_s, asked in ((0, 1), (ttl_s - 1, 1), (1, 2)):
        port.now_s += after_s
        assert (port.code("/healthz", GOOD), server.asked["tokenreviews"]) == (200, asked)
    assert port.code("/healthz", REJECTED) == 401


@pytest.mark.parametrize("ttl_s", [10, 60])
@pytest.mark.parametrize(
    ("option", "path", "code"),
    [
        ("authorization-webhook-cache-authorized-ttl", "/metrics", 200),
        ("authorization-webhook-cache-unauthorized-ttl", "/configz", 403),
    ],
)
def test_the_review_of_rights_counts_for_its_time(option: str, path: str, code: int, ttl_s: int) -> None:
    server = Server()
    given: dict[str, object] = {option.replace("-", "_"): f"{ttl_s}s"}
    port = Port(server, **given)
    for after_s, asked in ((0, 1), (ttl_s - 1, 1), (2, 2)):
        port.now_s += after_s
        assert (port.code(path), server.asked["subjectaccessreviews"]) == (code, asked)


@pytest.mark.parametrize(
    ("paths", "codes"),
    [
        ("/healthz", (200, 403, 403)),
        ("/healthz,/debug/*", (200, 403, 200)),
        ("/configz", (403, 200, 403)),
    ],
)
def test_paths_that_need_no_rights_are_those_of_the_option(paths: str, codes: tuple[int, ...]) -> None:
    port = Port(None, paths=paths)
    assert tuple(map(port.code, ("/healthz", "/configz", "/debug/pprof"))) == codes


def test_a_token_without_reviews_is_not_valid_for_any_path() -> None:
    assert Port(None).code("/healthz", GOOD) == 401


@pytest.mark.parametrize(("code", "tries"), [(500, TRIES), (403, 1)])
def test_a_review_that_fails_allows_nothing(code: int, tries: int) -> None:
    server, found = Server(), []
    server.fails = code

    async def main() -> None:
        try:
            await server.review("subjectaccessreviews", "authorization", {})
        except Unreviewed as error:
            found.append(str(error))

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert (found, server.asked["subjectaccessreviews"]) == (["no"], tries)


def test_a_failed_review_of_rights_is_an_error() -> None:
    server = Server()
    server.fails = 403
    assert Port(server).code("/metrics") == 500


def begun(server: Server | None, **given: object) -> Trust:
    """What is believed once a process has begun with some options."""
    trust = Trust(NAMED, flags_of(**given), server)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            await trust.begin(nursery)
            nursery.cancel_scope.cancel()

    trio.run(main)
    return trust


def test_the_authorities_of_the_cluster_are_looked_up_unless_that_is_skipped() -> None:
    pem = Authority("clients").pem.decode()
    server = Server({"client-ca-file": pem, "requestheader-username-headers": '["x-name"]'})
    trust = begun(server)
    assert (trust.present.clients.decode(), trust.present.headers.user) == (pem, ("x-name",))
    skipped = begun(server, authentication_skip_lookup=True)
    assert (skipped.present.clients, skipped.asks) == (b"", False)
    assert server.asked["extension-apiserver-authentication"] == 1


def test_a_failed_lookup_ends_the_process_unless_it_is_tolerated(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InputError, match="unable to load configmap"):
        unwrapped(lambda: begun(Server()))
    assert begun(Server(), authentication_tolerate_lookup_failure=True).present.clients == b""
    assert "Continuing without authentication configuration" in caplog.text


def unwrapped(call: Callable[[], object]) -> None:
    """Raise the one error of a nursery."""
    try:
        call()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
