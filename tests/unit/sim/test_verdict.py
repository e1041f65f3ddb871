"""Verdicts say what held already, what decided them, and times in the unit of the question."""

from typing import Any

import pytest

from sim.verdict import shown_us, unit_of
from tests.unit.sim.check.test_expect import WHEN, Run, outage

READY = "all nodes have Ready=True"


@pytest.mark.parametrize(
    ("texts", "unit"),
    [
        (("5m", "6m"), "m"),
        (("30s", "1h"), "m"),
        (("300s", "360s"), "s"),
        (("0s", "500ms"), "s"),
        (("100ms", "250ms"), "ms"),
        (("10us", "250ms"), "ms"),
        ((), "s"),
    ],
)
def test_unit_is_the_largest_one_of_the_question(texts: tuple[str, ...], unit: str) -> None:
    assert unit_of(*texts) == unit


@pytest.mark.parametrize(
    ("us", "unit", "text"),
    [
        (339_540_000, "m", "5m39.54s"),
        (339_540_000, "s", "339.54s"),
        (360_000_000, "m", "6m00s"),
        (59_999_999, "m", "1m00s"),
        (3_723_500_000, "m", "1h02m03.50s"),
        (12_500, "ms", "12.50ms"),
    ],
)
def test_time_is_shown_in_its_unit(us: int, unit: Any, text: str) -> None:
    assert shown_us(us, unit) == text


@pytest.mark.parametrize(
    ("spec", "measured", "wanted"),
    [
        ({"when": WHEN, "within": ["0s", "1m"]}, "0m37s", "0m00s to 1m00s"),
        ({"when": WHEN, "within": ["0s", "60s"]}, "37.00s", "0.00s to 60.00s"),
        ({"eventually": WHEN, "by": "1m"}, "0m37s", "by 1m00s"),
        ({"when": WHEN, "over": {"p99": "<= 2m"}}, "37.00s", "p99 <= 2m00s over seeds"),
    ],
)
def test_measured_and_wanted_have_the_same_unit(spec: dict[str, Any], measured: str, wanted: str) -> None:
    verdict = outage({**spec, "after": "dark"}).verdict()
    assert (verdict.measured, verdict.wanted) == (measured, wanted)


@pytest.mark.parametrize(
    ("spec", "already"),
    [
        ({"when": READY, "within": ["0s", "9s"]}, True),
        ({"when": "each nodes have Ready=True", "within": ["0s", "9s"]}, True),
        ({"eventually": READY}, True),
        ({"order": [READY, WHEN]}, False),
        ({"order": [READY, "nodes exist"]}, True),
        ({"when": WHEN, "within": ["0s", "90s"]}, False),
        ({"never": WHEN}, False),
        ({"never": "nodes have Ready=True"}, True),
        ({"always": "nodes exist"}, False),
    ],
)
def test_verdict_is_marked_if_it_held_when_the_window_opened(spec: dict[str, Any], already: bool) -> None:
    assert outage({**spec, "after": "dark"}).verdict().held_already is already


@pytest.mark.parametrize("kind", ["when", "eventually"])
def test_first_instant_of_a_run_is_the_opening_of_its_window(kind: str) -> None:
    within = {"within": ["0s", "9s"]} if kind == "when" else {}
    run = Run({kind: "nodes exist", **within}, {kind: "pods exist", **within})
    run.node(0, "n0", "a", "True")
    run.pod(1, "p0")
    first, second = run.checker.verdicts(9_000_000)
    assert (first.held_already, first.measured, first.mark) == (True, "held already at 0m00s", "held already")
    assert (second.held_already, second.measured, second.mark) == (False, "1.00s", "holds")


@pytest.mark.parametrize(
    ("spec", "measured"),
    [
        ({"when": "all nodes in zone a have Ready=True", "within": ["0s", "90s"]}, "60.00s"),
        ({"eventually": "all nodes in zone a have Ready=True"}, "60.00s"),
        ({"when": "all nodes in zone b have Ready=True", "within": ["0s", "90s"]}, "never ceased to hold"),
        ({"eventually": "all nodes in zone b have Ready=True"}, "never ceased to hold"),
        ({"eventually": "all nodes in zone a have Ready=False"}, "never"),
        ({"when": "each nodes in zone a have Ready=True", "within": ["0s", "90s"]}, "50.00s to 60.00s"),
        ({"when": "each nodes have Ready=True", "within": ["0s", "90s"]}, "50.00s to 60.00s, 2 never"),
    ],
)
def test_condition_that_is_to_hold_again_has_to_cease_first(spec: dict[str, Any], measured: str) -> None:
    run = outage({**spec, "again": True, "after": "dark"})
    run.node(60, "n0", "a", "True")
    run.node(70, "n1", "a", "True")
    verdict = run.verdict()
    expected = "never again" if measured == "never" else measured
    assert (verdict.measured, verdict.held_already) == (expected, False)
    assert verdict.ok is not ("never" in measured)


def test_condition_that_does_not_hold_at_the_opening_has_ceased() -> None:
    run = Run({"eventually": READY, "again": True, "after": "dark"})
    run.node(1, "n0", "a", "Unknown")
    run.checker.step("dark", "fail", 10_000_000)
    run.node(20, "n0", "a", "True")
    assert run.verdict().measured == "10.00s"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"never": "nodes exist", "again": True}, "'again' has no effect on 'never'"),
        ({"eventually": {"created": "pods"}, "again": True}, "'again' goes with a condition"),
    ],
)
def test_again_without_effect_is_refused(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Run(spec)


N0, N1, N2, N3 = (f"//nodes//n{index}" for index in range(4))


@pytest.mark.parametrize(
    ("spec", "at_s", "objects"),
    [
        ({"when": WHEN, "within": ["0s", "9s"]}, 47, (N1,)),
        ({"when": "all nodes have Ready=Unknown", "within": ["0s", "9s"]}, None, (N2, N3)),
        ({"when": "each nodes have Ready=Unknown", "within": ["0s", "36s"]}, 47, (N1, N2, N3)),
        ({"when": "each nodes in zone a have Ready=Unknown", "within": ["0s", "9s"]}, 45, (N0, N1)),
        ({"never": WHEN}, 47, (N1,)),
        ({"never": "nodes in zone a have Ready=True"}, 10, (N0, N1)),
        ({"always": READY}, 45, (N0,)),
        ({"always": "all nodes in zone a have Ready=Unknown"}, 10, (N0, N1)),
        ({"eventually": "at most 1 nodes have Ready=True"}, None, (N2, N3)),
        ({"eventually": WHEN, "by": "9s"}, 47, (N1,)),
        ({"never": "nodes have Ready=Unknown", "until": "40s"}, None, ()),
    ],
)
def test_failed_verdict_names_instant_and_objects(
    spec: dict[str, Any], at_s: int | None, objects: tuple[str, ...]
) -> None:
    verdict = outage({**spec, "after": "dark"}).verdict()
    assert verdict.objects == objects and verdict.ok is (not objects)
    assert verdict.at_us == (None if at_s is None else at_s * 1_000_000)
    assert verdict.since_us == (None if at_s is None else (at_s - 10) * 1_000_000)


def test_verdict_counts_the_objects_of_which_its_condition_is_true() -> None:
    run = outage(
        {"when": "all nodes have Ready=Unknown", "within": ["0s", "9s"]}, {"always": READY, "after": "dark"}
    )
    assert [one.counted for one in run.checker.verdicts(100_000_000)] == ["2 of 4 nodes", "3 of 4 nodes"]


@pytest.mark.parametrize(
    ("spec", "objects", "at_s"),
    [
        ({"count": {"deleted": "pods"}, "atMost": 1}, ("//pods/default/p1",), 51),
        ({"count": {"deleted": "pods"}, "equals": 0}, ("//pods/default/p0",), 50),
        ({"count": {"deleted": "pods"}, "atLeast": 9}, ("//pods/default/p2",), 52),
        ({"count": "nodes have Ready=True", "atLeast": 3}, (N0, N1), None),
        ({"count": "nodes have Ready=True", "atMost": 1}, (N2, N3), None),
    ],
)
def test_failed_count_names_what_was_too_much_or_is_missing(
    spec: dict[str, Any], objects: tuple[str, ...], at_s: int | None
) -> None:
    run = outage(spec)
    for index in range(3):
        run.put(50 + index, f"//pods/default/p{index}", None)
    verdict = run.verdict()
    assert not verdict.ok and verdict.objects == objects
    assert verdict.at_us == (None if at_s is None else at_s * 1_000_000)


def test_failed_unavailability_names_the_first_loss_of_its_window() -> None:
    spec = {"unavailability": {"of": "deployments/web", "atMost": "1m"}, "after": "dark"}
    runs = Run(spec), Run(spec)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    owner = {"ownerReferences": [{"kind": "Deployment", "name": "web", "uid": "d", "controller": True}]}
    for run in runs:
        run.put(1, "//deployments/default/web", {"metadata": {"uid": "d"}, "spec": {"replicas": 2}})
        for name in ("p0", "p1"):
            run.put(
                2, f"//pods/default/{name}", {"metadata": owner, "spec": {"nodeName": "n0"}, "status": ready}
            )
    by_machine = runs[1]
    by_machine.checker.machine("n0", False, 10_000_000)  # by the step that opens the window
    for run in runs:
        run.checker.step("dark", "fail", 10_000_000)
        run.put(20, "//pods/default/p1", None)
    found = [run.verdict(200) for run in runs]
    assert [one.measured.partition(",")[0] for one in found] == ["3m00s", "3m10s"]
    assert [(one.objects, one.since_us) for one in found] == [
        (("//pods/default/p1", "//deployments/default/web"), 10_000_000),
        (("//nodes//n0", "//deployments/default/web"), 0),
    ]
