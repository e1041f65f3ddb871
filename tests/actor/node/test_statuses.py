"""The order in which statuses of many pods reach the API, and what a batch does."""

from typing import Any

from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from sim.api.types import Request
from sim.units import MS, SECOND
from tests.actor.node.fake import FakeApi, one_node


def slow(api: FakeApi, by_us: int) -> None:
    """The API answers requests about pods this much later."""
    answer, kernel = api.call, api.kernel

    def call(request: Request, on_reply: Any) -> None:
        if request.resource == "pods" and request.verb in ("get", "patch"):
            kernel.call_later(by_us, lambda _: answer(request, on_reply))
        else:
            answer(request, on_reply)

    api.call = call  # type: ignore[method-assign]


def written_statuses(api: FakeApi) -> list[tuple[float, str, str]]:
    """Each status that was written: (time, pod, phase, or "" where that is unchanged)."""
    return [
        (at / SECOND, name.partition("/")[2], body["status"].get("phase", ""))
        for at, verb, name, body in api.log
        if verb == "patch" and name.startswith("pods")
    ]


async def test_statuses_are_written_in_order_until_batch_replaces_the_queue() -> None:
    """A write takes half a second: first come six pods' first statuses, then their second ones,
    some of which the batch at 30 s finds waiting; a third status of `p0`, of 24 s, is behind them
    in the queue and before them in the batch.
    """
    rule = Rule(ContainerBehaviour(exit_after_us=3 * SECOND, exit_code=1), pod_prefix="p0")
    async with one_node(NodeSpec("n1", profile=RuntimeProfile(rules=(rule,)))) as (kernel, api, _):
        slow(api, 500 * MS)
        for number in range(6):
            api.bind(f"p{number}", {"restartPolicy": "Never"})
        await kernel.run_until(29_900_000)
        first = [(name, phase) for _, name, phase in written_statuses(api)]
        names = [f"p{number}" for number in range(6)]
        assert first[:6] == [(name, "") for name in names]
        assert first[6:] == [(name, "Running") for name in names[:3]]
        await kernel.run_until(45 * SECOND)
        rest = [(name, phase) for _, name, phase in written_statuses(api)][len(first) :]
        assert ("p0", "Failed") in rest and rest.index(("p0", "Failed")) < rest.index(("p5", "Running"))
        assert sorted(rest) == sorted([("p0", "Failed"), *((name, "Running") for name in names[3:])])


async def test_each_step_of_pod_end_is_one_read_and_write_and_the_last_deletes() -> None:
    async with one_node() as (kernel, api, _):
        api.bind("web")
        await kernel.run_until(30 * SECOND)
        seen: list[str] = []
        answer = api.call

        def call(request: Request, on_reply: Any) -> None:
            if request.resource == "pods" and request.verb != "watch":
                seen.append(request.verb)
            answer(request, on_reply)

        api.call = call  # type: ignore[method-assign]
        api.delete("web", 30)
        await kernel.run_until(35 * SECOND)
        assert not api.has("web")
        # The pod begins to end; its container has ended; the pod is over; nothing of it is left.
        assert seen == ["get", "get", "patch", "get", "get", "delete"]


async def test_stopped_pod_is_deleted_although_batch_came_during_its_last_write() -> None:
    """A read or write takes 0.3 s: `b` is being written when the batch of 30 s queues it again,
    behind `a`; nothing is left of it when it is written and `a` is not yet.
    """
    async with one_node() as (kernel, api, node):
        for name in "ab":
            api.bind(name)
        await kernel.run_until(25 * SECOND)
        slow(api, 300 * MS)
        agent = node.machine.agent
        assert agent is not None
        statuses = agent.statuses
        uids = {name: api.pod(name)["metadata"]["uid"] for name in "ab"}
        await kernel.run_until(29_900 * MS)
        for name in "ba":
            entry, status = statuses.entry(uids[name]), statuses.status(uids[name])
            assert entry is not None and status is not None
            entry.running = False
            statuses.set(uids[name], {**status, "message": "it has ended"})
        await kernel.run_until(30_600 * MS)
        assert [name for _, name, _ in written_statuses(api)][-1:] == ["b"]
        api.objects["pods", "default", "b"]["metadata"]["deletionTimestamp"] = api.now()
        entry = statuses.entry(uids["b"])
        assert entry is not None
        entry.reclaimed = True
        statuses.push(entry.uid)
        await kernel.run_until(32 * SECOND)
        assert api.has("a") and not api.has("b")
