"""Expectations give the right verdict, and the wrong run fails them."""

from typing import Any

import msgspec
import pytest

from sim.api.store import Change, Item
from sim.check import Checker, Verdict, World, build, misplaced, parse_condition
from sim.ident import NAMES
from sim.scenario.schema.sections import Expectation

NAMES_ = NAMES["orch"]


class Run:
    """Feeds a checker with commits, one revision each."""

    def __init__(self, *specs: dict[str, Any], zones: dict[str, str] | None = None) -> None:
        expectations = [build(msgspec.convert({"name": "x", **spec}, Expectation), NAMES_) for spec in specs]
        self.checker = Checker(World(NAMES_, zones), expectations)
        self.items: dict[str, Item] = {}
        self.rev = 0

    def put(self, at_s: float, key: str, obj: dict[str, Any] | None) -> None:
        self.rev += 1
        prev = self.items.get(key)
        meta = {"name": key.rsplit("/", 1)[1], "namespace": key.split("/")[3], "uid": key}
        full = (
            prev.obj
            if obj is None and prev
            else {**(obj or {}), "metadata": {**meta, **(obj or {}).get("metadata", {})}}
        )
        item = Item(key, full, self.rev, self.rev)
        self.checker.see(Change(self.rev, item, prev, obj is None, int(at_s * 1e6)))
        if obj is None:
            del self.items[key]
        else:
            self.items[key] = item

    def node(self, at_s: float, name: str, zone: str, ready: str) -> None:
        labels = {NAMES_.label_zone: zone}
        self.put(
            at_s,
            f"//nodes//{name}",
            {"metadata": {"labels": labels}, "status": {"conditions": [{"type": "Ready", "status": ready}]}},
        )

    def pod(self, at_s: float, name: str, node: str = "", **meta: Any) -> None:
        self.put(
            at_s, f"//pods/default/{name}", {"metadata": meta, "spec": {"nodeName": node} if node else {}}
        )

    def verdict(self, end_s: float = 100) -> Verdict:
        return self.checker.verdicts(int(end_s * 1e6))[0]


def outage(*specs: dict[str, Any]) -> Run:
    """Two zones of two nodes; at 10 zone a fails, its nodes are Unknown at 45 and 47."""
    run = Run(*specs)
    for index, zone in enumerate("aabb"):
        run.node(1, f"n{index}", zone, "True")
        run.pod(2, f"p{index}", f"n{index}")
    run.checker.step("dark", "fail", 10_000_000)
    run.node(45, "n0", "a", "Unknown")
    run.node(47, "n1", "a", "Unknown")
    return run


WHEN = "all nodes in zone a have Ready=Unknown"


def test_the_first_time_a_condition_holds_is_measured_from_the_step() -> None:
    verdict = outage({"when": WHEN, "within": ["30s", "46s"], "after": "fail"}).verdict()
    assert (verdict.ok, verdict.measured, verdict.measured_s) == (True, "37.00s", (37.0,))


def test_a_time_outside_the_interval_fails() -> None:
    assert not outage({"when": WHEN, "within": ["30s", "36s"], "after": "dark"}).verdict().ok


def test_each_measures_every_object() -> None:
    verdict = outage(
        {
            "when": "each nodes in zone a have Ready=Unknown".replace("node ", "nodes "),
            "within": ["30s", "36s"],
            "after": "fail",
        }
    ).verdict()
    assert (verdict.ok, verdict.measured_s) == (False, (35.0, 37.0))


def test_what_never_happened_never_fails_and_what_happened_names_the_first() -> None:
    spec = {"never": {"deleted": "pods", "where": {"zone": ["b"]}}}
    run = outage(spec)
    run.pod(50, "p0", "n0", deletionTimestamp="x")
    assert run.verdict().ok
    run.pod(60, "p2", "n2", deletionTimestamp="x")
    run.put(70, "//pods/default/p2", None)
    verdict = run.verdict()
    assert not verdict.ok
    assert verdict.measured == "once, at 60.00s (pods/default/p2)"


@pytest.mark.parametrize(
    ("how_many", "holds"), [("", False), ("any ", False), ("all ", True), ("at least 3 ", True)]
)
def test_what_must_never_be_must_be_of_no_object_unless_it_is_said_of_how_many(
    how_many: str, holds: bool
) -> None:
    assert outage({"never": f"{how_many}nodes have Ready=Unknown", "after": "dark"}).verdict().ok == holds


def test_what_must_always_be_must_be_of_every_object() -> None:
    assert not outage({"always": "nodes have Ready=True", "after": "dark"}).verdict().ok


def test_continued_condition_counts_once_and_is_timed_from_the_step() -> None:
    run = outage({"never": "any nodes have Ready=Unknown", "after": "dark"})
    run.node(60, "n0", "a", "True")
    run.node(61, "n1", "a", "True")
    run.node(70, "n1", "a", "Unknown")
    verdict = run.verdict()
    assert verdict.measured == "2 times, first at 35.00s (nodes/n0)"
    assert verdict.measured_s == (35.0,)


@pytest.mark.parametrize(
    "spec",
    [
        {"never": {"deleted": "pods"}},
        {"always": "all nodes have Ready=True"},
        {"count": {"deleted": "pods"}, "atMost": 3},
    ],
)
def test_what_was_to_hold_after_a_step_that_never_came_is_not_taken_to_hold(spec: dict[str, Any]) -> None:
    verdict = outage({**spec, "after": "dusk"}).verdict()
    assert (verdict.ok, verdict.measured) == (False, "dusk never came")


def test_bounds_that_no_number_keeps_are_refused() -> None:
    with pytest.raises(ValueError, match="no count is at least 9 and at most 3"):
        Run({"count": {"created": "pods"}, "atLeast": 9, "atMost": 3})
    with pytest.raises(ValueError, match="at least 0 is always true"):
        Run({"count": {"created": "pods"}, "atLeast": 0})
    assert Run({"count": {"created": "pods"}, "atLeast": 0, "atMost": 3})


def test_always_fails_at_the_first_break() -> None:
    assert outage({"always": "all nodes in zone b have Ready=True", "after": "dark"}).verdict().ok
    assert (
        outage({"always": "all nodes have Ready=True", "after": "dark"}).verdict().measured == "not at 35.00s"
    )


def test_always_holds_from_the_start_of_its_window() -> None:
    run = Run({"always": "at least 1 pods exist", "after": "dark"})
    run.checker.step("dark", "fail", 5)
    assert not run.verdict().ok


@pytest.mark.parametrize("after", ["dark", "10s"])
@pytest.mark.parametrize(
    ("spec", "ok", "measured"),
    [
        ({"never": "any nodes have Ready=True"}, False, "held already at 0m10s"),
        (
            {"always": "no nodes have Ready=True"},
            False,
            "did not hold at 0m10s, when the window opened",
        ),
        ({"always": "all nodes have Ready=True"}, True, "always"),
        ({"eventually": "all nodes have Ready=True", "by": "0s"}, True, "held already at 0m10s"),
        ({"when": "all nodes have Ready=True", "within": ["0s", "0s"]}, True, "held already at 0m10s"),
        ({"when": "each nodes have Ready=True", "within": ["0s", "0s"]}, True, "held already at 0m10s"),
        (
            {"order": ["all nodes have Ready=True", "no jobs exist"]},
            True,
            "held already at 0m10s, held already at 0m10s",
        ),
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_condition_that_holds_at_the_opening_counts_without_a_later_write(
    spec: dict[str, Any], ok: bool, measured: str, after: str, later: bool
) -> None:
    run = Run({**spec, "after": after})
    run.node(1, "n0", "a", "True")
    run.checker.step("dark", "fail", 10_000_000)
    if later:
        run.node(20, "n0", "a", "True")
    verdict = run.verdict()
    assert (verdict.ok, verdict.measured) == (ok, measured)


def test_each_object_that_holds_when_the_window_opens_is_counted_in_the_verdict() -> None:
    run = Run({"when": "each nodes have Ready=True", "within": ["0s", "9s"], "after": "dark"})
    for name, ready in (("n0", "True"), ("n1", "True"), ("n2", "False"), ("n3", "False")):
        run.node(1, name, "a", ready)
    run.checker.step("dark", "fail", 120_000_000)
    run.node(125, "n2", "a", "True")
    verdict = run.verdict(200)
    assert verdict.measured == "0.00s to 5.00s, 2 held already at 2m00s, 1 never"
    assert verdict.measured_s == (0.0, 0.0, 5.0)


def test_condition_that_occurs_again_after_it_held_at_the_opening_is_counted() -> None:
    run = Run({"never": "any nodes have Ready=True", "after": "dark"})
    for at_s, ready in ((1, "True"), (20, "False"), (30, "True")):
        if at_s == 20:
            run.checker.step("dark", "fail", 10_500_000)
        run.node(at_s, "n0", "a", ready)
    assert run.verdict().measured == "2 times, first held already at 0m10.5s"


def test_what_holds_of_nothing_is_found_though_nothing_is_ever_written() -> None:
    specs = ({"eventually": "no jobs exist"}, {"never": "no jobs exist"}, {"always": "no jobs exist"})
    verdicts = Run(*specs).checker.verdicts(100)
    assert [(verdict.ok, verdict.measured) for verdict in verdicts] == [
        (True, "held already at 0m00s"),
        (False, "held already at 0m00s"),
        (True, "always"),
    ]


@pytest.mark.parametrize(
    ("where", "times"),
    [
        ({"name": "n1"}, 1),
        ({"name": "n1.17ab"}, 1),
        ({"node": "n1"}, 2),
        ({"zone": "a"}, 2),
        ({"zone": "b"}, 0),
        ({"name": "p?"}, 1),
    ],
)
def test_events_are_distinguished_by_their_objects(where: dict[str, Any], times: int) -> None:
    run = outage({"count": {"event": "Lost", "where": where}, "equals": times})
    about_node = {"kind": "Node", "name": "n1"}
    about_pod = {"kind": "Pod", "name": "p7", "namespace": "default"}
    run.put(50, "//events/default/n1.17ab", {"reason": "Lost", "involvedObject": about_node})
    run.put(
        51,
        "//events/default/p7.17ac",
        {"reason": "Lost", "involvedObject": about_pod, "source": {"host": "n1"}},
    )
    assert run.verdict().ok, run.verdict().measured


@pytest.mark.parametrize(
    "condition",
    [
        "leases named kube-scheduler are held",
        "leases named orch-scheduler are held",
        "leases in namespace kube-system named kube-scheduler are held",
        "leases labelled kubernetes.io/hostname=h are held",
        "leases labelled orch.io/hostname=h are held",
    ],
)
def test_what_either_set_of_identifiers_calls_otherwise_is_found_by_both(condition: str) -> None:
    run = Run({"eventually": condition})
    meta = {"labels": {NAMES_.label_hostname: "h"}}
    key = f"/coordination/leases/{NAMES_.system_namespace}/{NAMES_.lease_scheduler}"
    run.put(1, key, {"metadata": meta, "spec": {"holderIdentity": "a"}})
    assert run.verdict().ok


def test_an_agent_is_in_its_zone_before_its_node_is_registered() -> None:
    run = Run({"count": {"event": "Starting", "where": {"zone": "a"}}, "equals": 1}, zones={"n1": "a"})
    about = {"kind": "Node", "name": "n1"}
    run.put(1, "//events/default/n1.17ab", {"reason": "Starting", "involvedObject": about})
    assert run.verdict().ok, run.verdict().measured


def test_controllers_event_about_a_pod_belongs_to_the_pods_node() -> None:
    """Its source has no host; an expectation without evictions in a zone is about the zone of the
    pod.
    """
    run = Run(
        {"count": {"event": "Evicted", "where": {"zone": "a"}}, "equals": 2},
        {"count": {"event": "Evicted", "where": {"node": "n1"}}, "equals": 0},
        zones={"n0": "a", "n1": "b"},
    )
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    run.pod(1, "p", "n0")
    run.put(2, "//events/default/p.1", {"reason": "Evicted", "involvedObject": about})
    run.put(3, "//pods/default/p", None)
    run.put(4, "//events/default/p.2", {"reason": "Evicted", "involvedObject": about})
    run.pod(5, "p")  # its successor, which has no node yet
    run.put(6, "//events/default/p.3", {"reason": "Evicted", "involvedObject": about})
    assert [verdict.measured for verdict in run.checker.verdicts(9)] == ["2", "0"]


@pytest.mark.parametrize(("resource", "owner"), [("replicasets", "web"), ("jobs", "web")])
def test_pods_are_owned_by_the_owner_of_their_replica_set_or_job_too(resource: str, owner: str) -> None:
    """Deployments and CronJobs are what people speak of; a rule that goes by them must see their
    pods go.
    """
    run = Run(
        {"never": {"deleted": "pods", "where": {"owner": owner}}},
        {"never": {"deleted": "pods", "where": {"owner": f"{owner}-1"}}},
        {"never": {"deleted": "pods", "where": {"owner": "other"}}},
        {"count": f"pods owned by {owner} exist", "equals": 1},
    )
    ref = {"uid": "d", "name": "web"}
    run.put(1, f"//{resource}/default/web-1", {"metadata": {"uid": "r", "ownerReferences": [ref]}})
    of_web = [{"uid": "r", "name": "web-1"}]
    run.pod(2, "a", ownerReferences=of_web)
    run.pod(2, "b", ownerReferences=of_web)
    run.put(3, f"//{resource}/default/web-1", None)
    run.pod(4, "a", ownerReferences=of_web, deletionTimestamp="x")
    run.put(5, "//pods/default/a", None)
    assert [verdict.ok for verdict in run.checker.verdicts(9)] == [False, False, True, True]


def test_orphaned_replica_set_makes_its_pods_unowned() -> None:
    run = Run({"never": {"deleted": "pods", "where": {"owner": "web"}}})
    ref = {"uid": "d", "name": "web"}
    run.put(1, "//replicasets/default/web-1", {"metadata": {"uid": "r", "ownerReferences": [ref]}})
    run.put(2, "//replicasets/default/web-1", {"metadata": {"uid": "r"}})
    run.pod(3, "a", ownerReferences=[{"uid": "r", "name": "web-1"}], deletionTimestamp="x")
    run.put(4, "//pods/default/a", None)
    assert run.verdict().ok


@pytest.mark.parametrize(
    ("spec", "doubt"),
    [
        ({"never": {"deleted": "pods", "where": {"owner": "wbe"}}}, "never (there were no pods owned by wbe)"),
        ({"count": {"removed": "pods", "where": {"zone": ["c", "d"]}}, "equals": 0}, "0 (there were no pods in zone c,d)"),
        ({"never": "pods named q* on node n0 are bound"}, "never (there were no pods named q* on node n0)"),
        ({"order": ["pods named a exist", "pods named p0 exist"]}, "(there were no pods named a)"),
        ({"never": {"deleted": "pods", "where": {"zone": "b"}}}, "never"),
        ({"never": "pods named p0 are terminating"}, "never"),
        ({"never": {"deleted": "jobs"}}, "never"),
        ({"never": {"event": "BackOff", "where": {"name": "q*"}}}, "never"),
    ],
)  # fmt: skip
def test_an_expectation_about_what_was_never_there_says_so(spec: dict[str, Any], doubt: str) -> None:
    measured = outage(spec).verdict().measured
    assert measured.endswith(doubt) and ("there were" in doubt or "there were" not in measured)


def test_a_pod_that_gets_its_node_later_was_not_created_there() -> None:
    """An expectation without creations in a zone is reported as ineffective; the mirror of a static
    pod has its node at once.
    """
    run = Run({"never": {"created": "pods", "where": {"zone": "a"}}}, zones={"n0": "a"})
    run.pod(1, "p")
    run.pod(2, "p", "n0")
    assert run.verdict().measured == "never (pods are created before they have a node)"
    run.pod(3, "static-n0", "n0")
    assert run.verdict().measured == "once, at 3.00s (pods/default/static-n0)"


def test_an_event_is_of_no_owner() -> None:
    with pytest.raises(ValueError, match="an event has no owner"):
        Run({"never": {"event": "BackOff", "where": {"owner": "web"}}})


@pytest.mark.parametrize("where", [{"label": "app"}, {"label": "app!=web"}, {"label": {"app": "web"}}])
def test_a_label_is_a_key_with_its_value(where: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is not KEY=VALUE|give a text"):
        Run({"never": {"deleted": "pods", "where": where}})


def test_a_count_may_be_bounded_by_its_distribution_alone() -> None:
    run = outage({"count": {"created": "pods"}, "over": {"mean": [3, 5]}})
    assert (run.verdict().ok, run.verdict().measured, run.verdict().wanted) == (
        True,
        "4",
        "mean 3 to 5 over seeds",
    )


@pytest.mark.parametrize(
    ("condition", "happened"),
    [
        ("any nodes have Ready=Unknown", True),
        ("any nodes have Ready=False", False),
        ("each nodes have Ready=Unknown", False),
    ],
)
def test_a_share_of_the_runs_in_which_something_happens_is_of_those_in_which_it_does(
    condition: str, happened: bool
) -> None:
    over = {"over": {"share": ">= 90%"}}
    assert outage({"when": condition, "after": "dark", **over}).verdict().ok is happened
    assert outage({"when": condition, "after": "dark", "over": {"p50": "<= 9s"}}).verdict().ok


def test_a_share_of_runs_none_of_which_can_fail_is_refused() -> None:
    with pytest.raises(ValueError, match="'over: share' of a count goes with equals, atLeast or atMost"):
        outage({"count": {"created": "pods"}, "over": {"share": ">= 90%"}})


def test_eventually_needs_it_once_and_by_its_time() -> None:
    assert outage({"eventually": WHEN, "by": "40s", "after": "dark"}).verdict().ok
    assert not outage({"eventually": WHEN, "by": "36s", "after": "dark"}).verdict().ok
    assert not outage({"eventually": "no pods exist"}).verdict().ok


def test_counting_matters_in_a_window_and_objects_at_its_end() -> None:
    run = outage(
        {"count": {"created": "pods"}, "equals": 4},
        {"count": "nodes have Ready=Unknown", "atLeast": 2},
        {"count": {"created": "pods"}, "after": "dark", "atMost": 0},
    )
    assert [verdict.ok for verdict in run.checker.verdicts(100)] == [True, True, True]
    run.pod(50, "p9", "n2")
    assert [verdict.ok for verdict in run.checker.verdicts(100)] == [False, True, False]


def test_order_wants_every_part_in_its_turn() -> None:
    first, second = "any nodes have Ready=Unknown", WHEN
    assert outage({"order": [first, second], "after": "dark"}).verdict().ok
    assert not outage({"order": [second, first], "after": "dark"}).verdict().ok
    assert not outage({"order": [first, {"deleted": "pods"}], "after": "dark"}).verdict().ok


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("all nodes Ready", "has no 'have'"),
        ("node is ready", "write the plural"),
        ("nodes at noon are ready", "'at noon' is not understood"),
        ("nodes are tired", "'tired' is not a predicate"),
        ("nodes have Redy=True", "'Redy' is no known condition; did you mean 'Ready'"),
        ("nodes are Ready", "did you mean 'ready'"),
        ("nodes have memorypressure", "did you mean 'MemoryPressure=True'"),
        ("at least two nodes are ready", "'at' is not a resource; .* at least 2"),
        ("3 nodes are ready", "'3' is not a resource; .* exactly 2"),
        ("nodes have status.capacity.cpu>=many", "'many' is not a number or quantity"),
        (
            "nodes have taint unreachable:NoExekute",
            "'NoExekute' is no effect of a taint; did you mean 'NoExecute'",
        ),
        (
            "nodes have taint unreachabel",
            "'unreachabel' is no known taint; did you mean 'unreachable'",
        ),
        ("nodes have Ready=Unkown", "the condition Ready is True, False or Unknown, never 'Unkown'"),
        ("pods named a in zone x named b are ready", "'named' is given twice; give alternatives as a,b"),
        ("nodes in namespace default are ready", "nodes are in no namespace"),
        (
            "services in zone a exist",
            "services are in no zone; only pods, nodes, their leases and events can",
        ),
        ("deployments on node n1 exist", "deployments are on no node"),
        ("events owned by web exist", "an event has no owner"),
        ("at least 0 pods are ready", "at least 0 is always true"),
    ],
)
def test_a_condition_that_is_not_understood_says_what(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_condition(text, NAMES_)


def test_labels_that_are_given_one_by_one_are_all_wanted() -> None:
    run = Run({"count": "pods labelled app=web labelled tier=back exist", "equals": 1})
    for name, tier in (("p0", "front"), ("p1", "back")):
        run.pod(1, name, labels={"app": "web", "tier": tier})
    run.pod(1, "p2", labels={"app": "db", "tier": "back"})
    assert run.verdict().ok, run.verdict().measured


@pytest.mark.parametrize("where", [{"zone": []}, {"name": ""}, {"owner": ["web", ""]}])
def test_a_selection_of_nothing_is_refused(where: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="selects nothing"):
        Run({"never": {"deleted": "pods", "where": where}})


def test_names_in_a_text_may_have_spaces_between_them() -> None:
    run = outage({"count": {"created": "pods", "where": {"name": "p0, p3"}}, "equals": 2})
    assert run.verdict().ok, run.verdict().measured


def test_a_count_says_of_how_many_by_its_bounds_alone() -> None:
    with pytest.raises(ValueError, match="leave out the quantifier, and give equals, atLeast or atMost"):
        Run({"count": "any pods are ready", "equals": 3})


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (
            {"when": WHEN, "within": ["-5s", "10s"]},
            "'within': '-5s' is no time after the start of the window",
        ),
        ({"when": WHEN, "within": ["soon", "10s"]}, "'soon' is no time"),
        ({"eventually": WHEN, "by": "-5s"}, "'by': '-5s' is no time after the start of the window"),
        ({"never": {"event": ""}}, "'event' names nothing"),
        ({"count": "pods exist", "equals": 3, "atLeast": 5}, "'equals' says how many there are"),
    ],
)
def test_what_would_never_hold_or_say_nothing_is_refused(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Run(spec)


def test_a_step_before_the_window_does_not_end_it() -> None:
    run = outage({"count": {"changed": "nodes"}, "after": "40s", "until": "dark", "equals": 2})
    assert run.verdict().ok, run.verdict().measured


@pytest.mark.parametrize("kind", ["when", "never", "always", "eventually", "count"])
def test_window_with_a_step_after_its_end_never_opens(kind: str) -> None:
    bounds = {"when": {"within": ["0s", "90s"]}, "count": {"equals": 4}}
    spec = {kind: "nodes exist", "after": "dark", "until": "8s", **bounds.get(kind, {})}
    assert not outage(spec).verdict().ok


def test_object_created_after_the_window_is_not_missing_in_it() -> None:
    run = outage(
        {
            "when": "each nodes in zone a have Ready=Unknown",
            "after": "dark",
            "until": "50s",
            "within": ["0s", "40s"],
        }
    )
    run.node(60, "n9", "a", "True")
    assert run.verdict().ok, run.verdict().measured


def test_a_window_in_which_nothing_is_written_yet_is_judged_by_nothing() -> None:
    verdicts = []
    for spec in ({"always": "at least 1 pods are bound"}, {"eventually": "no pods are bound"}):
        verdicts.append(outage({**spec, "until": "1500ms"}).verdict())
    assert [(verdict.ok, verdict.measured) for verdict in verdicts] == [
        (False, "did not hold at 0m00s, when the window opened"),
        (True, "held already at 0m00s"),
    ]


def test_of_an_order_each_part_is_looked_at_when_something_of_its_own_is_written() -> None:
    run = Run({"order": ["no pods are bound", "nodes exist"]})
    run.node(1, "n0", "a", "True")
    run.pod(2, "p0")
    assert run.verdict().measured == "2.00s, 1.00s"


@pytest.mark.parametrize(
    ("spec", "rev"),
    [
        ({"when": WHEN, "after": "dark", "within": ["30s", "40s"]}, 10),
        ({"when": "each nodes in zone a have Ready=Unknown", "after": "dark", "within": ["30s", "40s"]}, 10),
        ({"never": "any nodes in zone a have Ready=Unknown"}, 9),
        ({"always": "all nodes have Ready=True"}, 9),
        ({"eventually": "any nodes have Ready=Unknown"}, 9),
        ({"never": {"deleted": "pods"}}, 0),
    ],
)
def test_a_verdict_names_the_commit_that_decided_it(spec: dict[str, Any], rev: int) -> None:
    assert outage(spec).verdict().witness == rev


@pytest.mark.parametrize(
    ("resource", "where", "problem"),
    [
        ("nodes", {"zone": "a"}, ""),
        ("nodes", {"zone": ["a", "c"]}, "there is no zone 'c' (there are a, b)"),
        ("nodes", {"name": "n-*"}, ""),
        ("nodes", {"name": "m-1"}, "there is no node 'm-1' (there are n-0, n-1)"),
        ("pods", {"name": "m-1"}, ""),
        ("pods", {"node": "n-7"}, "there is no node 'n-7' (there are n-0, n-1)"),
    ],
)
def test_missing_node_or_zone_is_reported(resource: str, where: dict[str, Any], problem: str) -> None:
    assert misplaced(resource, where, {"n-0": "a", "n-1": "b"}) == problem


@pytest.mark.parametrize(
    ("reason", "doubt"),
    [
        ("Faild", " (no event Faild came; did you mean 'Failed'?)"),
        ("Backoff", " (no event Backoff came; did you mean 'BackOff'?)"),
        ("NodeNotReady", ""),  # which is another thing than NodeReady
        ("Evicted", ""),
    ],
)
def test_missing_event_with_a_similarly_named_one_is_reported(reason: str, doubt: str) -> None:
    run = Run({"never": {"event": reason}}, {"never": {"event": "Failed"}, "until": "1s"})
    for at_s, each in enumerate(("Failed", "NodeReady", "BackOff", "Failed"), 2):
        about = {"kind": "Pod", "namespace": "default", "name": "p"}
        run.put(at_s, f"//events/default/e{at_s}", {"reason": each, "involvedObject": about})
    first, second = run.checker.verdicts(100_000_000)
    assert (first.ok, first.measured) == (True, f"never{doubt}")
    assert (second.ok, second.measured) == (True, "never")


@pytest.mark.parametrize(("spec", "measured"), [
    ({"when": "all pods in zone b are bound", "within": ["0s", "9s"]}, "4.00s"),
    ({"when": "each pods in zone b are bound", "within": ["0s", "9s"]}, "4.00s to 4.00s"),
    ({"never": "at least 1 pods in zone b exist"}, "once, at 4.00s (nodes/n0)"),
    ({"always": "at most 1 pods in zone b exist", "after": "1s"}, "not at 3.00s"),
    ({"eventually": "exactly 2 pods in zone b exist"}, "4.00s"),
    ({"count": "pods in zone b exist", "equals": 2}, "2"),
    ({"order": ["exactly 2 pods in zone a exist", "exactly 2 pods in zone b exist"]}, "3.00s, 4.00s"),
])  # fmt: skip
def test_pods_go_with_their_node_to_another_zone_all_at_once(spec: dict[str, Any], measured: str) -> None:
    run = Run(spec)
    run.node(1, "n0", "a", "True")
    run.pod(2, "p0", "n0")
    run.pod(3, "p1", "n0")
    run.node(4, "n0", "b", "True")
    run.node(5, "n0", "b", "False")
    assert run.verdict().measured == measured


def test_verdict_in_a_notebook_shows_what_was_measured_and_wanted() -> None:
    shown = Verdict("pods <move>", False, "never", "within 0s to 1s")._repr_html_()
    assert "FAILED" in shown and "pods &lt;move&gt;: never, wanted within 0s to 1s" in shown
    assert "holds" in Verdict("pods", True, "1s", "")._repr_html_()
