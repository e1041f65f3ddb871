"""The aggregation of one replica: which servers are available, and which requests they get."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from actors.apiserver.aggregation.aggregator import Respond, ServiceCall
from sim.api.aggregation.delegation import Forwarded
from sim.api.objects import condition_of
from sim.api.store import Delete
from sim.api.types import Obj, Reply, UserInfo
from sim.kernel import OutsideAnswer, OutsideRequest
from sim.kernel.outside import DEADLINE_EXCEEDED, failed
from sim.units import MS, SECOND
from tests.actor.apiserver.cluster import SCHEME, Plane, plane, request

GROUP, NAME = "wardle.example.com", "v1.wardle.example.com"
SERVICES = SCHEME.resource("apiservices")
FOUND, BROKEN = OutsideAnswer(200, (), b"{}"), OutsideAnswer(500, (), b"")
SUBSET = {"addresses": [{"ip": "10.1.1.1"}], "ports": [{"name": "https", "port": 443}]}


class Backend:
    """A server behind the Service, which answers when the test says so, or at once."""

    def __init__(self) -> None:
        self.calls: list[ServiceCall] = []
        self.waiting: list[Respond] = []
        self.answer: OutsideAnswer | None = FOUND

    def send(self, call: ServiceCall, arrived: Respond) -> None:
        self.calls.append(call)
        if self.answer is None:
            self.waiting.append(arrived)
        else:
            arrived(self.answer)

    def direct(self, call: ServiceCall) -> OutsideRequest | None:
        self.calls.append(call)
        return None

    def is_outside(self, namespace: str, name: str) -> bool:
        return False

    def url(self, namespace: str, name: str, port: int) -> str:
        return f"https://10.0.0.7:{port}"

    @property
    def checks(self) -> int:
        """The number of discovery requests of the server itself."""
        return sum(call.user.name.endswith("-aggregator") for call in self.calls)


class Aggregated:
    """A plane with an APIService, and its backend."""

    def __init__(self, p: Plane) -> None:
        self.p, self.backend, self.aggregator = p, Backend(), p.server.aggregator
        self.aggregator.backends = self.backend

    async def put(self, verb: str, resource: str, obj: Obj) -> None:
        found = SCHEME.resource(resource)
        body = {"apiVersion": found.api_version, "kind": found.kind, **obj}
        name = "" if verb == "create" else obj["metadata"]["name"]
        reply = await self.p.ask(verb, resource, name=name, body=body)
        assert reply.ok, reply.body

    async def touch(self, label: str) -> None:
        """Change the endpoints of the Service, but not the addresses."""
        meta = {"name": "wardle", "labels": {"a": label}}
        await self.put("update", "endpoints", {"metadata": meta, "subsets": [SUBSET]})

    async def service(self, verb: str = "create", labels: Obj | None = None, **reference: Any) -> None:
        """Create or change the APIService; without a name of a Service it is local."""
        spec = {"group": GROUP, "version": "v1", "groupPriorityMinimum": 9, "versionPriority": 9}
        if reference:
            spec |= {"service": {"namespace": "default", **reference}, "insecureSkipTLSVerify": True}
        meta: Obj = {"name": NAME, "labels": labels or {}}
        if verb == "update":
            meta["resourceVersion"] = (await self.stored())["metadata"]["resourceVersion"]
        await self.put(verb, "apiservices", {"metadata": meta, "spec": spec})

    async def serve(self) -> None:
        """Create the Service and an address behind it."""
        ports = [{"port": 443, "name": "https"}]
        await self.put("create", "services", {"metadata": {"name": "wardle"}, "spec": {"ports": ports}})
        await self.put("create", "endpoints", {"metadata": {"name": "wardle"}, "subsets": [SUBSET]})

    async def stored(self) -> Obj:
        return (await self.p.ask("get", "apiservices", "", NAME)).obj

    async def condition(self) -> tuple[str, str]:
        """Status and reason of the condition Available, once all checks are done."""
        await self.p.run(SECOND)
        available = condition_of(await self.stored(), "Available") or {}
        return available.get("status", ""), available.get("reason", "")

    def forward(self, path: str) -> OutsideAnswer | None:
        """The answer to a request for another server, if it came at once."""
        answers: list[OutsideAnswer] = []
        self.aggregator.forward(Forwarded("GET", path, "", (), b"", UserInfo("ann")), answers.append)
        return answers[0] if answers else None

    async def replied(self, verb: str, refusal: Reply) -> list[Reply]:
        """As `answer`, once the other server has answered."""
        replies = self.answer(verb, refusal)
        await self.p.run(MS)
        return replies

    def answer(self, verb: str, refusal: Reply) -> list[Reply]:
        """The replies to a request of the simulation."""
        asked = request(verb, "apiservices")
        own = {"group": GROUP, "version": "v1", "resource": "flunders"}
        replies: list[Reply] = []
        self.aggregator.answer(type(asked)(**{**_fields(asked), **own}), refusal, replies.append)
        return replies


def _fields(asked: Any) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in asked.__struct_fields__}


@asynccontextmanager
async def aggregated(served: bool = True) -> AsyncIterator[Aggregated]:
    async with plane() as p:
        await p.run(SECOND)
        one = Aggregated(p)
        if served:
            await one.serve()
            await one.service(name="wardle")
            assert await one.condition() == ("True", "Passed")
        yield one


# --- requests -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (f"/apis/{GROUP}/v1", True),
        (f"/apis/{GROUP}/v1/flunders/a", True),
        (f"/apis/{GROUP}/v2", False),
        (f"/apis/{GROUP}", False),
        ("/api/v1/pods", False),
        (f"/openapi/v3/apis/{GROUP}/v1", False),  # its document is not known
    ],
)
async def test_path_of_a_delegated_group_version_belongs_to_its_server(path: str, found: bool) -> None:
    async with aggregated() as one:
        assert (one.aggregator.find(path) is not None) is found


@pytest.mark.parametrize(("path", "seconds"), [("", 5), ("/flunders", 60)])
async def test_request_reaches_the_server_with_its_user_and_time_limit(path: str, seconds: int) -> None:
    async with aggregated() as one:
        assert one.forward(f"/apis/{GROUP}/v1{path}") == FOUND
        call = one.backend.calls[-1]
        assert (call.namespace, call.name, call.port) == ("default", "wardle", 443)
        assert (call.user.name, call.timeout_us, call.verified) == ("ann", seconds * SECOND, False)
        assert ("X-Forwarded-Host", "10.0.0.7:443") in call.headers


async def test_unavailable_server_gets_no_request() -> None:
    async with aggregated() as one:
        one.backend.answer = BROKEN
        await one.p.run(31 * SECOND)
        count = len(one.backend.calls)
        answer = one.forward(f"/apis/{GROUP}/v1/flunders")
        assert answer is not None
        assert (answer.code, answer.body) == (503, b"service unavailable\n")
        assert (
            one.aggregator.direct(Forwarded("GET", f"/apis/{GROUP}/v1/x", "", (), b"", UserInfo("a"))) is None
        )
        assert len(one.backend.calls) == count


async def test_service_that_has_gone_gets_no_request_although_the_last_check_passed() -> None:
    async with aggregated() as one:
        count = len(one.backend.calls)
        one.p.storage.store.apply(Delete("//services/default/wardle", None))
        answer = one.forward(f"/apis/{GROUP}/v1/flunders")
        assert answer is not None
        assert (answer.code, len(one.backend.calls)) == (503, count)


async def test_failure_to_reach_the_server_is_an_answer_in_plain_text() -> None:
    async with aggregated() as one:
        one.backend.answer = failed("no route")
        answer = one.forward(f"/apis/{GROUP}/v1/flunders")
        assert answer is not None
        assert (answer.code, answer.body) == (503, b"error trying to reach service: no route\n")
        assert answer.headers[0] == ("Content-Type", "text/plain; charset=utf-8")


async def test_only_a_resource_that_is_not_found_here_is_sought_at_the_other_server() -> None:
    async with aggregated() as one:
        forbidden, missing = Reply(403, body={}), Reply(404, body={})
        assert one.answer("get", forbidden) == [forbidden]
        assert [reply.code for reply in await one.replied("get", missing)] == [200]
        await one.p.ask("delete", "apiservices", "", NAME)
        assert one.answer("get", missing) == [missing]


async def test_watch_begins_with_what_its_client_has_listed() -> None:
    """An object that was made between the list and the watch is its first event."""

    def flunders(*names: str) -> OutsideAnswer:
        items = [{"metadata": {"name": name, "resourceVersion": "5"}} for name in names]
        body = {"kind": "FlunderList", "metadata": {"resourceVersion": "5"}, "items": items}
        return OutsideAnswer(200, (("Content-Type", "application/json"),), json.dumps(body).encode())

    async with aggregated() as one:
        missing = Reply(404, body={})
        one.backend.answer = flunders("a")
        assert [len(reply.items or ()) for reply in await one.replied("list", missing)] == [1]
        one.backend.answer = flunders("a", "b")
        (reply,) = await one.replied("watch", missing)
        assert reply.watch is not None
        assert [(event.type, event.item.key) for event in reply.watch.take()] == [("ADDED", "/b")]


# --- checks ---------------------------------------------------------------------------------------


async def test_server_is_checked_again_when_its_service_or_endpoints_change() -> None:
    async with aggregated(served=False) as one:
        await one.service(name="wardle")
        assert await one.condition() == ("False", "ServiceNotFound")
        await one.serve()
        assert await one.condition() == ("True", "Passed")
        await one.p.ask("delete", "endpoints", name="wardle")
        assert await one.condition() == ("False", "EndpointsNotFound")


async def test_change_of_another_service_checks_nothing() -> None:
    async with aggregated() as one:
        count = one.backend.checks
        for name, namespace in (("other", "default"), ("wardle", "orch-system")):
            body = {"metadata": {"name": name}, "subsets": []}
            reply = await one.p.ask("create", "endpoints", namespace, body=body)
            assert reply.ok, reply.body
        assert one.backend.checks == count


async def test_server_is_checked_every_thirty_seconds() -> None:
    async with aggregated() as one:
        count = one.backend.checks
        await one.p.run(90 * SECOND)
        assert one.backend.checks == count + 3


async def test_failing_checks_are_repeated_after_a_delay_that_doubles() -> None:
    async with aggregated() as one:
        one.backend.answer = BROKEN
        await one.touch("a")
        times: list[int] = []
        count = one.backend.checks
        for _ in range(400):
            await one.p.run(MS)
            if one.backend.checks > count:
                count = one.backend.checks
                times.append(one.p.kernel.now_us // MS)
        gaps = [after - before for before, after in pairwise(times[1:])]
        assert len(gaps) >= 3
        assert all(1.7 * before < after < 2.3 * before for before, after in pairwise(gaps)), gaps
        one.backend.answer = FOUND
        assert await one.condition() == ("True", "Passed")


async def test_changes_during_a_check_lead_to_one_more() -> None:
    async with aggregated() as one:
        count = one.backend.checks
        one.backend.answer = None
        for label in "abc":
            await one.touch(label)
            await one.p.run(SECOND)
        assert one.backend.checks == count + 1
        one.backend.answer = FOUND
        one.backend.waiting.pop()(FOUND)
        await one.p.run(SECOND)
        assert one.backend.checks == count + 2


async def test_deadline_of_a_check_is_worded_as_that_of_a_client() -> None:
    async with aggregated() as one:
        one.backend.answer = failed(DEADLINE_EXCEEDED)
        await one.p.run(31 * SECOND)
        message = (condition_of(await one.stored(), "Available") or {})["message"]
        assert message.endswith(f"{DEADLINE_EXCEEDED} (Client.Timeout exceeded while awaiting headers)")


async def test_state_that_has_not_changed_is_not_written() -> None:
    async with aggregated() as one:
        before = await one.stored()
        await one.p.run(100 * SECOND)
        assert (await one.stored())["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_api_service_that_becomes_local_is_always_available() -> None:
    async with aggregated() as one:
        await one.service("update")
        assert await one.condition() == ("True", "Local")
        assert one.aggregator.find(f"/apis/{GROUP}/v1") is None
        assert NAME in one.aggregator.listed
        count = one.backend.checks
        await one.p.run(60 * SECOND)
        assert one.backend.checks == count


async def test_deleted_api_service_is_forgotten() -> None:
    async with aggregated() as one:
        await one.p.ask("delete", "apiservices", "", NAME)
        count = one.backend.checks
        await one.p.run(60 * SECOND)
        assert (one.aggregator.find(f"/apis/{GROUP}/v1"), one.backend.checks) == (None, count)
        assert NAME not in one.aggregator.listed


async def test_another_service_of_an_api_service_is_checked_at_once() -> None:
    async with aggregated() as one:
        await one.service("update", name="elsewhere")
        assert await one.condition() == ("False", "ServiceNotFound")


async def test_api_service_that_the_server_makes_itself_is_not_listed_besides() -> None:
    async with aggregated() as one:
        await one.service("update")
        assert NAME in one.aggregator.listed
        await one.service("update", labels={SCHEME.names.label_automanaged: "onstart"})
        assert NAME not in one.aggregator.listed


async def test_one_change_leads_to_one_check_and_new_labels_to_none() -> None:
    async with aggregated() as one:
        await one.p.run(31 * SECOND)
        count = one.backend.checks
        await one.touch("a")
        await one.p.run(SECOND)
        assert one.backend.checks == count + 1
        await one.service("update", labels={"a": "b"}, name="wardle")
        await one.p.run(SECOND)
        assert one.backend.checks == count + 1


@pytest.mark.parametrize("how", ["it passes", "it is deleted"])
async def test_delay_of_failing_checks_begins_again_after_an_end(how: str) -> None:
    async with aggregated() as one:
        one.backend.answer = BROKEN
        await one.touch("a")
        await one.p.run(SECOND)
        if how == "it passes":
            one.backend.answer = FOUND
            await one.touch("b")
            await one.p.run(SECOND)
            one.backend.answer = BROKEN
            await one.touch("c")
        else:
            await one.p.ask("delete", "apiservices", "", NAME)
            await one.p.run(2 * SECOND)  # the check that was planned finds nothing
            await one.service(name="wardle")
        count = one.backend.checks
        await one.p.run(300 * MS)
        assert one.backend.checks >= count + 3


async def test_refused_write_of_the_condition_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with aggregated() as one:
        server, refused = one.p.server, [2]
        handle = server.handle

        def refusing(asked: Any, answered: Any, *more: Any) -> None:
            if asked.verb == "update" and asked.subresource == "status" and refused[0]:
                refused[0] -= 1
                answered(Reply(409, body={"reason": "Conflict"}))
            else:
                handle(asked, answered, *more)

        monkeypatch.setattr(server, "handle", refusing)
        await one.p.ask("delete", "endpoints", name="wardle")
        assert await one.condition() == ("False", "EndpointsNotFound")
        assert refused == [0]


async def test_crashed_server_follows_the_stored_api_services_again() -> None:
    """A check that waited for its answer is over, too."""
    async with aggregated() as one:
        one.backend.answer = None
        await one.touch("a")
        await one.p.run(SECOND)
        actor = one.p.supervisor[one.p.server.name]
        actor.crash()
        assert one.aggregator.delegated == {}
        one.backend.answer = FOUND
        actor.start()
        count = one.backend.checks
        await one.p.run(SECOND)
        assert one.forward(f"/apis/{GROUP}/v1/flunders") == FOUND
        assert one.backend.checks == count + 1
        await one.touch("b")
        await one.p.run(SECOND)
        assert one.backend.checks == count + 2
        await one.p.run(30 * SECOND)
        assert one.backend.checks == count + 3
