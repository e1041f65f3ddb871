"""Expectations at the borders of their windows, intervals and numbers."""

from typing import Any

import pytest

from sim.check import misplaced, parse_condition
from sim.check.availability import Loss, loss
from sim.check.build import Mistakes
from sim.check.condition import in_words, quantified, texts_of
from sim.check.expect import duration_us, is_step
from sim.ident import NAMES
from sim.series import Series
from tests.unit.sim.check.test_expect import Run, outage

N = NAMES["orch"]
ONE = "at least 1 pods exist"


@pytest.mark.parametrize(
    ("within", "ok"),
    [
        (["0s", "37s"], True),
        (["37s", "40s"], True),
        (["0s", "36s"], False),
        (["38s", "40s"], False),
        (["37s", "37s"], True),
    ],
)
def test_an_interval_includes_both_of_its_ends(within: list[str], ok: bool) -> None:
    when = "all nodes in zone a have Ready=Unknown"
    assert outage({"when": when, "within": within, "after": "dark"}).verdict().ok is ok
    each = outage({"when": "each nodes in zone a have Ready=Unknown", "within": within, "after": "dark"})
    assert each.verdict().ok is (within == ["0s", "37s"])


@pytest.mark.parametrize(("by", "ok"), [("37s", True), ("36s", False), ("36999ms", False), ("", True)])
def test_what_happens_at_its_time_happens_by_it(by: str, ok: bool) -> None:
    spec = {"eventually": "all nodes in zone a have Ready=Unknown", "after": "dark", "by": by}
    assert outage(spec).verdict().ok is ok


@pytest.mark.parametrize(
    ("after", "until", "at_s", "seen"),
    [
        ("", "", 5, True),
        ("10s", "", 9, False),
        ("10s", "", 10, True),
        ("10s", "20s", 20, True),
        ("10s", "20s", 21, False),
        ("", "20s", 20, True),
        ("", "20s", 21, False),
    ],
)
def test_a_window_includes_both_of_its_ends(after: str, until: str, at_s: int, seen: bool) -> None:
    window = {"after": after, "until": until}
    specs = (
        {"never": {"created": "pods"}, **window},
        {"count": {"created": "pods"}, "atMost": 0, **window},
        {"eventually": {"created": "pods"}, **window},
        {"when": {"created": "pods"}, "within": ["0s", "1h"], **window},
        {"order": [{"created": "pods"}, {"created": "pods"}], **window},
    )
    run = Run(*specs)
    run.pod(at_s, "p")
    assert [one.ok for one in run.checker.verdicts(100_000_000)] == [not seen, not seen, seen, seen, seen]


@pytest.mark.parametrize(("at_s", "seen"), [(10, True), (20, True), (21, False)])
def test_a_window_between_steps_includes_their_instants(at_s: int, seen: bool) -> None:
    run = Run({"count": {"created": "pods"}, "equals": 1, "after": "begin", "until": "end"})
    run.checker.step("begin", "fail", 10_000_000)
    if at_s == 10:
        run.pod(at_s, "p")
    run.checker.step("end", "heal", 20_000_000)
    run.checker.step("end", "heal", 50_000_000)  # of several steps the first one counts
    if at_s > 10:
        run.pod(at_s, "p")
    assert run.verdict().ok is seen


def test_of_several_steps_the_first_one_opens_the_window() -> None:
    run = Run({"eventually": {"created": "pods"}, "after": "begin"})
    for at_s in (10, 20):
        run.checker.step("begin", "fail", at_s * 1_000_000)
    run.pod(30, "p")
    assert run.verdict().measured == "20.00s"


@pytest.mark.parametrize(("end_s", "opens"), [(10, True), (9, False)])
def test_a_step_at_the_end_of_its_window_opens_it(end_s: int, opens: bool) -> None:
    run = Run({"never": {"created": "jobs"}, "after": "begin", "until": f"{end_s}s"})
    run.checker.step("begin", "fail", 10_000_000)
    wanted = (True, "never") if opens else (False, f"begin never came before {end_s}s")
    assert (run.verdict().ok, run.verdict().measured) == wanted


@pytest.mark.parametrize(
    ("wanted", "name", "kind", "is_it"),
    [
        ("fail", "dark", "fail", True),
        ("dark", "dark", "fail", True),
        ("dark", "dark/3", "fail", True),
        ("dark/3", "dark/3", "fail", True),
        ("", "", "", False),
        ("", "dark", "fail", False),
        ("other", "dark", "fail", False),
    ],
)
def test_a_step_is_named_by_its_name_its_kind_or_without_its_number(
    wanted: str, name: str, kind: str, is_it: bool
) -> None:
    assert is_step(wanted, name, kind) is is_it


def test_a_duration_is_one_or_none() -> None:
    assert [duration_us(text) for text in ("0s", "5ms", "soon", "-1s")] == [0, 5_000, None, -1_000_000]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"when": ONE, "within": ["2s", "1s"]}, "the interval 2s to 1s ends before it begins"),
        ({"when": ONE}, "'when' goes with 'within: "),
        ({"order": [ONE]}, "an order has at least two parts"),
        ({"count": "pods exist"}, "'count' goes with equals, atLeast or atMost"),
        ({"count": "pods exist", "atLeast": 3, "atMost": 2}, "no count is at least 3 and at most 2"),
        ({"count": "pods exist", "equals": 1, "atMost": 2}, "'equals' says how many there are"),
        ({"unavailability": {"of": "web", "atMost": "1s"}}, "'of': 'web' is no workload"),
        ({"unavailability": {"of": "pods/web", "atMost": "1s"}}, "'of': 'pods/web' is no workload"),
        ({"unavailability": {"of": "deployments/", "atMost": "1s"}}, "'of': 'deployments/' is no workload"),
        ({"unavailability": {"of": "deployments/a/b/c", "atMost": "1s"}}, "is no workload"),
        ({"unavailability": {"of": "deployments/a", "atMost": "-1s"}}, "'atMost': '-1s' is no duration"),
        ({"unavailability": {"of": "deployments/a", "atMost": "x"}}, "'atMost': 'x' is no duration"),
        ({"unavailability": {"of": "deployments/a", "atMost": "1s", "below": 0}}, "write below: 1 or more"),
        ({}, "give exactly one of when, never"),
        ({"never": ONE, "always": ONE}, "give exactly one of when, never"),
        ({"never": ONE, "by": "5s"}, "'by' has no effect on 'never', it goes with 'eventually'"),
        ({"always": ONE, "within": ["0s", "1s"]}, "'within' has no effect on 'always'"),
        ({"eventually": ONE, "equals": 0}, "'equals' has no effect on 'eventually', it goes with 'count'"),
        ({"order": [ONE, "x"]}, "has no 'have'"),
    ],
)
def test_what_says_nothing_is_refused(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Run(spec)


def test_bounds_that_say_something_are_taken() -> None:
    for spec in (
        {"when": ONE, "within": ["1s", "1s"]},
        {"when": ONE, "over": {"p50": "<= 1s"}},
        {"order": [ONE, ONE]},
        {"count": "pods exist", "atLeast": 2, "atMost": 2},
        {"count": "pods exist", "atMost": 0},
        {"count": "pods exist", "atLeast": 1},
        {"count": "pods exist", "atLeast": 0, "over": {"mean": ">= 0"}},
        {"count": "pods exist", "equals": 3, "over": {"share": ">= 90%"}},
        {"unavailability": {"of": "deployments/a/b", "atMost": "0s", "below": 1}},
    ):
        Run(spec)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(Mistakes) as caught:
        Run({"order": ["x", "y"], "by": "5s", "over": {"none": 1}})
    assert len(caught.value.found) == 4
    with pytest.raises(Mistakes) as caught:
        Run({"order": ["x"], "by": ""})
    assert len(caught.value.found) == 2


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [
        ({"equals": 2}, [False, False, True, False]),
        ({"atLeast": 2}, [False, False, True, True]),
        ({"atMost": 2}, [True, True, True, False]),
        ({"atLeast": 1, "atMost": 2}, [False, True, True, False]),
    ],
)
@pytest.mark.parametrize("what", ["pods exist", {"created": "pods"}])
def test_a_number_is_within_its_bounds(spec: dict[str, int], numbers: list[bool], what: Any) -> None:
    found = []
    for number in range(4):
        run = Run({"count": what, **spec})
        for index in range(number):
            run.pod(1, f"p{index}")
        verdict = run.verdict()
        found.append(verdict.ok)
        assert verdict.measured_s == (float(number),)
    assert found == numbers


@pytest.mark.parametrize(
    ("bounds", "witness"),
    [
        ({"equals": 2}, 3),
        ({"atMost": 2}, 3),
        ({"atMost": 0}, 1),
        ({"atLeast": 2}, 2),
        ({"atLeast": 9}, 4),
        ({"atLeast": 2, "atMost": 3}, 4),
    ],
)
def test_the_last_that_was_missing_or_the_first_too_much_decides_a_count(
    bounds: dict[str, int], witness: int
) -> None:
    run = Run({"count": {"created": "pods"}, **bounds})
    for index in range(4):
        run.pod(1, f"p{index}")
    assert run.verdict().witness == witness


def test_a_count_of_objects_is_that_at_the_end_of_its_window() -> None:
    run = Run({"count": "pods exist", "equals": 2, "until": "10s"})
    for at_s, name in ((1, "a"), (10, "b"), (11, "c")):
        run.pod(at_s, name)
    assert run.verdict().measured == "2"


def test_a_count_names_those_that_are_too_many_or_those_that_are_missing() -> None:
    def named(**bounds: int) -> tuple[str, ...]:
        run = Run({"count": "pods are bound", **bounds})
        for name, node in (("a", "n"), ("b", ""), ("c", "n")):
            run.pod(1, name, node)
        return run.verdict().objects

    a, b, c = (f"//pods/default/{name}" for name in "abc")
    assert named(atMost=1) == (a, c)
    assert named(equals=1) == (a, c)
    assert named(atLeast=3) == (b,)
    assert named(equals=3) == (b,)
    assert named(equals=2) == ()


@pytest.mark.parametrize(
    ("parts", "ok", "measured", "values"),
    [
        (["pods named a exist", "pods named b exist"], True, "5.00s, 10.00s", (5.0, 10.0)),
        (["pods named b exist", "pods named a exist"], False, "10.00s, 5.00s", (10.0, 5.0)),
        (["pods named a exist", "pods named c exist"], False, "5.00s, never", (5.0,)),
        (["pods named c exist", "pods named a exist"], False, "never, 5.00s", ()),
        (["pods named a exist", "pods named a exist"], True, "5.00s, 5.00s", (5.0, 5.0)),
        (["nodes exist", {"created": "nodes"}], False, "held already at 0m10s, never", (0.0,)),
    ],
)
def test_order_shows_the_first_time_of_each_part(
    parts: list[Any], ok: bool, measured: str, values: tuple[float, ...]
) -> None:
    run = Run({"order": parts, "after": "begin"})
    run.node(1, "n", "a", "True")
    run.checker.step("begin", "fail", 10_000_000)
    run.pod(15, "a")
    run.pod(20, "b")
    verdict = run.verdict()
    assert (verdict.ok, verdict.measured.split(" (")[0], verdict.measured_s) == (ok, measured, values)


def test_never_counts_each_time_and_names_the_first() -> None:
    run = Run(
        {"never": {"created": "pods"}}, {"never": "any pods are bound"}, {"never": "any pods are bound"}
    )
    run.pod(1, "a")
    run.pod(2, "b", "n")
    run.pod(3, "b", "m")
    found = [(one.measured, one.witness, one.measured_s) for one in run.checker.verdicts(9)]
    assert found[0] == ("2 times, first at 1.00s (pods/default/a)", 1, (1.0,))
    assert found[1] == ("once, at 2.00s (pods/default/b)", 2, (2.0,))


@pytest.mark.parametrize(
    ("resource", "early", "wanted"),
    [
        ("pods", False, "did not hold at 0m10s, when the window opened, and never did before"),
        ("pods", True, "did not hold at 0m10s, when the window opened"),
        ("nodes", False, "did not hold at 0m10s, when the window opened"),
    ],
)
def test_always_says_that_a_condition_never_held_before(resource: str, early: bool, wanted: str) -> None:
    run = Run({"always": f"{resource} exist", "after": "begin"})
    if early:
        run.pod(1, "a")
        run.put(2, "//pods/default/a", None)
    run.checker.step("begin", "fail", 10_000_000)
    assert run.verdict().measured == wanted


@pytest.mark.parametrize("key", ["when", "eventually"])
@pytest.mark.parametrize(
    ("condition", "after", "early", "wanted"),
    [
        (ONE, "10s", False, "never, not even before"),
        (ONE, "10s", True, "never"),
        (ONE, "", False, "never"),
        ("at least 1 nodes exist", "10s", False, "never"),
        ({"created": "pods"}, "10s", True, "never"),
    ],
)
def test_what_never_held_says_if_it_held_before(
    key: str, condition: Any, after: str, early: bool, wanted: str
) -> None:
    run = Run({key: condition, "after": after, **({"within": ["0s", "9s"]} if key == "when" else {})})
    if early:
        run.pod(1, "a")
        run.put(2, "//pods/default/a", None)
    run.put(20, "//services/default/s", {})
    verdict = run.verdict()
    assert (verdict.measured, verdict.ok, verdict.missing, verdict.held_already) == (wanted, False, 1, False)


def test_each_object_that_never_fulfils_a_condition_is_missing() -> None:
    run = Run({"when": "each pods are bound", "within": ["0s", "9s"]})
    run.pod(1, "a", "n")
    run.pod(2, "b")
    verdict = run.verdict()
    assert (verdict.ok, verdict.measured, verdict.missing) == (False, "1.00s to 1.00s, 1 never", 1)
    assert verdict.objects == ("//pods/default/b",)
    none = Run({"when": "each pods are bound", "within": ["0s", "9s"]}).verdict()
    assert (none.ok, none.measured, none.missing) == (False, "never", 0)


def test_first_of_the_objects_at_a_wrong_time_decides() -> None:
    run = Run({"when": "each pods are bound", "within": ["0s", "9s"]})
    for at_s, name in ((8, "a"), (10, "b"), (11, "c")):
        run.pod(at_s, name, "n")
    verdict = run.verdict()
    assert (verdict.witness, verdict.at_us) == (2, 10_000_000)
    assert verdict.objects == ("//pods/default/b", "//pods/default/c")


def test_what_is_measured_only_does_not_fail() -> None:
    specs = [
        {"when": each, "over": {"p50": "<= 1s"}} for each in (ONE, "each pods exist", {"created": "pods"})
    ]
    assert [one.ok for one in Run(*specs).checker.verdicts(9)] == [True, True, True]
    shares = [{**spec, "over": {"share": ">= 1%"}} for spec in specs]
    assert [one.ok for one in Run(*shares).checker.verdicts(9)] == [False, False, False]


@pytest.mark.parametrize(
    ("text", "numbers", "held"),
    [
        ("all pods are ready", [(0, 0), (1, 0), (2, 1), (2, 2)], [False, False, False, True]),
        ("each pods are ready", [(0, 0), (2, 1), (2, 2)], [False, False, True]),
        ("every pods are ready", [(0, 0), (2, 1), (2, 2)], [False, False, True]),
        ("any pods are ready", [(0, 0), (2, 0), (2, 1)], [False, False, True]),
        ("some pods are ready", [(2, 0), (2, 1)], [False, True]),
        ("no pods are ready", [(0, 0), (2, 0), (2, 1)], [True, True, False]),
        ("at least 2 pods are ready", [(3, 1), (3, 2), (3, 3)], [False, True, True]),
        ("at most 2 pods are ready", [(3, 1), (3, 2), (3, 3)], [True, True, False]),
        ("exactly 2 pods are ready", [(3, 1), (3, 2), (3, 3)], [False, True, False]),
        ("at most 0 pods exist", [(0, 0), (1, 1)], [True, False]),
        ("ALL pods are ready", [(2, 1), (2, 2)], [False, True]),
        ("pods exist", [(0, 0), (1, 1), (2, 2)], [False, True, True]),
    ],
)
def test_a_quantifier_holds_for_numbers(text: str, numbers: list[tuple[int, int]], held: list[bool]) -> None:
    condition = parse_condition(text, N)
    assert [condition.holds(*each) for each in numbers] == held
    assert condition.each is (condition.quantifier == "each")
    assert quantified(text) is not text.startswith("pods")


def test_words_of_a_selection_and_its_alternatives() -> None:
    assert in_words({"zone": ["a", "b"], "label": "app=web"}) == "in zone a,b labelled app=web"
    assert texts_of(["a", 3]) == ["a", "3"]
    assert texts_of("a, b") == ["a", "b"]
    for value in (None, {"a": "b"}):
        with pytest.raises(ValueError, match="selects nothing; give a text"):
            texts_of(value)


@pytest.mark.parametrize(
    ("resource", "where", "zones", "problem"),
    [
        ("pods", {"zone": "c"}, {"n0": "a", "n1": "b"}, "there is no zone 'c' (there are a, b)"),
        ("pods", {"node": "n2"}, {"n0": "a"}, "there is no node 'n2' (there are n0)"),
        ("nodes", {"name": "n2"}, {"n0": "a"}, "there is no node 'n2' (there are n0)"),
        ("pods", {"name": "n2"}, {"n0": "a"}, ""),
        ("pods", {"zone": "a,c"}, {"n0": "a"}, "there is no zone 'c' (there are a)"),
        ("pods", {"zone": "c"}, {}, ""),
        ("pods", {"zone": "c"}, {"n0": ""}, "there is no zone 'c' (there are \"\")"),
        ("pods", {"node": "x"}, dict.fromkeys("abc", "z"), "there is no node 'x' (there are a, b, c)"),
        ("pods", {"node": "x"}, dict.fromkeys("abcd", "z"), "there is no node 'x' (there are a, b, c …)"),
        ("pods", {"node": "n*"}, {"n0": "a"}, ""),
    ],
)
def test_a_place_that_does_not_exist_is_named_with_those_that_do(
    resource: str, where: dict[str, str], zones: dict[str, str], problem: str
) -> None:
    assert misplaced(resource, where, zones) == problem


def workload(replicas: int | None = 2, **spec: Any) -> Run:
    of = {"of": "deployments/web", "atMost": "10s", **spec.pop("more", {})}
    run = Run({"unavailability": of, **spec})
    wanted = {} if replicas is None else {"replicas": replicas}
    run.put(1, "//deployments/default/web", {"metadata": {"uid": "d"}, "spec": wanted})
    return run


READY = {"conditions": [{"type": "Ready", "status": "True"}]}
OWNED = {"ownerReferences": [{"kind": "Deployment", "name": "web", "uid": "d", "controller": True}]}


def serve(run: Run, at_s: float, name: str, node: str = "n0", owned: bool = True) -> None:
    meta = OWNED if owned else {}
    run.put(at_s, f"//pods/default/{name}", {"metadata": meta, "spec": {"nodeName": node}, "status": READY})


@pytest.mark.parametrize(("back_s", "ok"), [(30, True), (30.001, False)])
def test_a_workload_may_be_below_its_number_for_so_long(back_s: float, ok: bool) -> None:
    run = workload(after="10s")
    for name in "ab":
        serve(run, 2, name)
    serve(run, 2, "foreign", owned=False)
    run.put(20, "//pods/default/a", None)
    serve(run, back_s, "c")
    verdict = run.verdict()
    assert verdict.ok is ok
    assert verdict.measured == "10.00s, lowest 1, 10 pod-seconds missing"
    assert verdict.objects == (() if ok else ("//pods/default/a", "//deployments/default/web"))


@pytest.mark.parametrize(
    ("replicas", "more", "measured"),
    [
        (None, {}, "0.00s, lowest 1, 0 pod-seconds missing"),
        (2, {}, "90.00s, lowest 1, 90 pod-seconds missing"),
        (2, {"below": 1}, "0.00s, lowest 1, 0 pod-seconds missing"),
        (1, {"below": 3}, "90.00s, lowest 1, 180 pod-seconds missing"),
    ],
)
def test_the_number_below_which_it_is_missing_is_given_or_wanted(
    replicas: int | None, more: dict[str, int], measured: str
) -> None:
    run = workload(replicas, after="10s", more=more)
    serve(run, 2, "a")
    verdict = run.verdict()
    assert verdict.measured == measured
    if not verdict.ok:  # it had too few pods already
        assert verdict.objects == ("//deployments/default/web", "//pods/default/a")[: len(verdict.objects)]


def test_machines_are_counted_in_truth_and_not_by_the_control_plane() -> None:
    for view, measured in (
        ("truth", "50.00s, lowest 0, 100 pod-seconds missing; the control plane saw 0.00s"),
        ("controlPlane", "0.00s, lowest 2, 0 pod-seconds missing"),
    ):
        run = workload(after="10s", until="80s", more={"view": view})
        for name in "ab":
            serve(run, 2, name)
        run.checker.machine("n0", False, 20_000_000)
        run.checker.machine("n0", True, 70_000_000)
        assert run.verdict().measured == measured


def test_a_workload_that_was_never_ready_or_never_there_is_said_so() -> None:
    run = workload(after="10s")
    run.pod(2, "a", "n0", **OWNED)
    assert run.verdict(20).measured.endswith("; was never ready, not even before")
    ready = workload(after="10s")
    serve(ready, 10, "a")
    assert "never ready" not in ready.verdict(20).measured
    none = Run({"unavailability": {"of": "deployments/web", "atMost": "1s"}})
    assert not none.verdict().ok
    assert none.verdict().measured.startswith("there was no deployments/default/web (there were no pods ")
    unopened = workload(after="begin").verdict()
    assert not unopened.ok
    assert unopened.measured.startswith("begin never came (there were no pods ")
    assert unopened.wanted == "below the wanted replicas for at most 10.00s"


def test_a_workload_that_is_deleted_wants_no_pods() -> None:
    run = workload(after="10s")
    run.put(20, "//deployments/default/web", None)
    assert run.verdict(30).measured.startswith(
        "10.00s, lowest 0, 20 pod-seconds missing; was never ready, not even"
    )
    other = workload(after="10s")
    other.put(2, "//deployments/other/web", {"spec": {"replicas": 9}})
    assert other.verdict(30).measured.startswith("20.00s, lowest 0, 40 pod-seconds")


def steps(*points: tuple[int, int]) -> Series:
    made = Series()
    for at_us, value in points:
        made.put(at_us, value)
    return made


@pytest.mark.parametrize(
    ("wanted", "from_us", "end_us", "found"),
    [
        (3, 0, 20, Loss(20, 1, 25)),
        (2, 0, 20, Loss(5, 1, 5)),
        (1, 0, 20, Loss(0, 1, 0)),
        (2, 6, 9, Loss(3, 1, 3)),
        (2, 10, 20, Loss(0, 2, 0)),
        (9, 5, 5, Loss(0, 0, 0)),
        (steps((0, 2), (8, 1)), 0, 20, Loss(3, 1, 3)),
        (steps((0, 1), (8, 3)), 0, 20, Loss(12, 1, 14)),
    ],
)
def test_loss_is_summed_over_the_pieces_of_the_window(
    wanted: Series | int, from_us: int, end_us: int, found: Loss
) -> None:
    assert loss(steps((0, 2), (5, 1), (10, 2)), wanted, from_us, end_us) == found
