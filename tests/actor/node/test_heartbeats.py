"""Leases and status passes of an agent while its API fails: how often it sends which request."""

from collections.abc import Callable

from sim.api.types import Reply, Request
from sim.units import SECOND
from tests.actor.node.fake import NAMES_USED, FakeApi, one_node

LEASE = ("leases", NAMES_USED.lease_namespace, "n1")


def requests_about(api: FakeApi, resource: str) -> list[tuple[float, Request]]:
    """From now on each request about a resource, and when it was sent."""
    found: list[tuple[float, Request]] = []
    answer = api.call

    def call(request: Request, on_reply: Callable[[Reply], None]) -> None:
        if request.resource == resource and request.verb not in ("list", "watch"):
            found.append((api.kernel.now_us / SECOND, request))
        answer(request, on_reply)

    api.call = call  # type: ignore[method-assign]
    return found


async def test_unreadable_lease_is_read_again_after_growing_waits() -> None:
    async with one_node() as (kernel, api, node):
        node.crash_agent()
        api.failing = (("get", "leases"),)
        seen = requests_about(api, "leases")
        node.start_agent()
        await kernel.run_until(55 * SECOND)
        assert [(round(at - 20, 1), request.verb) for at, request in seen] == [
            (at, "get") for at in (0.0, 0.2, 0.6, 1.4, 3.0, 6.2, 12.6, 19.6, 26.6, 33.6)
        ]


async def test_unknown_lease_gets_five_attempts_and_known_lease_ten() -> None:
    async with one_node() as (kernel, api, node):
        node.crash_agent()
        api.failing = (("update", "leases"),)
        seen = requests_about(api, "leases")
        node.start_agent()
        await kernel.run_until(25 * SECOND)
        assert [request.verb for _, request in seen] == ["get", *["update"] * 5]
        await kernel.run_until(31 * SECOND)
        assert [request.verb for _, request in seen[6:]] == [*["update"] * 5, "get", *["update"] * 5]


async def test_each_conflict_reads_lease_after_waits_that_grow_from_the_minimum() -> None:
    async with one_node() as (kernel, api, _):
        answer, conflicts = api._answer, [True, True]

        def conflicting(request: Request) -> Reply:
            if request.resource == "leases" and request.verb == "update" and conflicts:
                conflicts.pop()
                api.failing = (("get", "leases"),)
                return Reply(409, body={"reason": "Conflict", "message": "changed"})
            return answer(request)

        api._answer = conflicting  # type: ignore[method-assign]
        seen = requests_about(api, "leases")
        await kernel.run_until(25 * SECOND)
        api.failing = ()
        await kernel.run_until(45 * SECOND)
        renewed = [at for at, request in seen if request.verb == "update"]
        reads = [[round(at - since, 1) for at, request in seen if request.verb == "get" and since < at < since + 1]
                 for since in renewed[:2]]  # fmt: skip
        assert reads == [[0.0, 0.2, 0.6]] * 2


async def test_conflict_reads_lease_and_renews_its_new_state_at_once() -> None:
    async with one_node() as (kernel, api, _):
        seen = requests_about(api, "leases")
        held = api.objects[LEASE]
        api.objects[LEASE] = {**held, "spec": {**held["spec"], "holderIdentity": "odd", "other": 7}}
        conflicts = [Reply(409, body={"reason": "Conflict", "message": "changed"})]
        answer = api._answer

        def conflicting(request: Request) -> Reply:
            if request.resource == "leases" and request.verb == "update" and conflicts:
                return conflicts.pop()
            return answer(request)

        api._answer = conflicting  # type: ignore[method-assign]
        await kernel.run_until(31 * SECOND)
        assert [request.verb for _, request in seen] == ["update", "get", "update"]
        assert seen[2][0] - seen[0][0] < 0.01
        spec = api.objects[LEASE]["spec"]
        # a renewal changes the time alone
        assert (spec["holderIdentity"], spec["other"]) == ("odd", 7)
        assert spec["renewTime"] > held["spec"]["renewTime"]


async def test_lease_without_owner_gets_it_with_next_renewal_that_knows_the_node() -> None:
    async with one_node() as (kernel, api, node):
        node.crash_agent()
        held = api.objects[LEASE]
        meta = {key: value for key, value in held["metadata"].items() if key != "ownerReferences"}
        api.objects[LEASE] = {**held, "metadata": meta}
        node.start_agent()
        await kernel.run_until(31 * SECOND)
        (owner,) = api.objects[LEASE]["metadata"]["ownerReferences"]
        assert owner["uid"] == api.objects["nodes", "", "n1"]["metadata"]["uid"]


async def test_status_pass_makes_five_attempts_the_first_from_the_cache() -> None:
    async with one_node() as (kernel, api, node):
        await kernel.run_until(25 * SECOND)
        api.failing = (("patch", "nodes"),)
        seen = requests_about(api, "nodes")
        node.fail_pod_network("cni down")  # a change to report
        await kernel.run_until(45 * SECOND)
        first = [(at, request) for at, request in seen if at < seen[0][0] + 1]
        assert [request.verb for _, request in first] == ["get", "patch"] * 5
        versions = [request.options.get("resourceVersion") for _, request in first if request.verb == "get"]
        assert versions == ["0", None, None, None, None]
        again = next(at for at, _ in seen if at > seen[0][0] + 1)
        assert 10 <= again - first[-1][0] <= 10.5
