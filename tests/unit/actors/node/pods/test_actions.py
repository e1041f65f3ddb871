"""The actions of a sync: what is killed, made and started."""

from actors.node.pods.actions import compute_actions, effective_grace_us
from sim.units import SECOND
from tests.unit.actors.node.pods.test_pod_status import ENDED, FAILED, RUNS, pod, runtime


def test_pod_without_sandbox_gets_one_and_starts_all_containers() -> None:
    actions = compute_actions(pod(names=("a", "b")), None, {}, 10)
    assert actions.create_sandbox and not actions.kill_pod
    assert [c["name"] for c in actions.starts] == ["a", "b"]


def test_lost_sandbox_is_made_again_unless_pod_never_restarts() -> None:
    sandbox = runtime(c=ENDED)
    sandbox.ready = False
    again = compute_actions(pod("Always"), sandbox, {}, 10)
    assert again.kill_pod and again.create_sandbox and again.starts
    never = compute_actions(pod("Never"), sandbox, {}, 10)
    assert never.kill_pod and not never.create_sandbox and not never.starts


def test_dead_container_starts_according_to_restart_policy() -> None:
    for policy, behaviour, wanted in [("Always", ENDED, 1), ("OnFailure", ENDED, 0), ("OnFailure", FAILED, 1),
                                      ("Never", FAILED, 0)]:  # fmt: skip
        actions = compute_actions(pod(policy), runtime(c=behaviour), {}, 10)
        assert len(actions.starts) == wanted
        assert actions.kill_pod is (wanted == 0)


def test_failed_liveness_probe_restarts_unless_policy_is_never() -> None:
    actions = compute_actions(pod(), runtime(c=RUNS), {"c": "liveness"}, 10)
    assert actions.kills[0][2] == "Container c failed liveness probe, will be restarted"
    assert len(actions.starts) == 1
    never = compute_actions(pod("Never"), runtime(c=RUNS), {"c": "liveness"}, 10)
    assert never.kills[0][2] == "Container c failed liveness probe" and not never.starts


def test_init_containers_run_one_by_one() -> None:
    obj = pod(initContainers=[{"name": "i1", "image": "i"}, {"name": "i2", "image": "i"}])
    assert compute_actions(obj, runtime(i1=RUNS), {}, 10).init is None
    following = compute_actions(obj, runtime(i1=ENDED), {}, 10).init
    assert following is not None and following["name"] == "i2"
    failed = compute_actions(obj, runtime(i1=FAILED), {}, 10).init
    assert failed is not None and failed["name"] == "i1"
    assert compute_actions(obj, runtime(i1=ENDED, i2=ENDED), {}, 10).starts


def test_grace_override_of_zero_counts_as_none() -> None:
    obj = pod(terminationGracePeriodSeconds=7)
    assert effective_grace_us(obj) == 7 * SECOND
    assert effective_grace_us(obj, 0) == 7 * SECOND
    assert effective_grace_us(obj, 3) == 3 * SECOND
    assert effective_grace_us(obj, -1) == SECOND
