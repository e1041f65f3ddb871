"""Candidates are concrete, sound, within the limits of the hunt, and a function of their draws."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from sim.app.hunt.drawing import Drawing, shown
from sim.app.hunt.ground import ground_of
from sim.app.hunt.judging import planned
from sim.app.hunt.schedules import drawn_document
from sim.errors import InputError
from sim.faults.shared.kinds import Ends
from tests.cluster.hunt.test_judging import document

pytestmark = pytest.mark.slow
BUSY = {
    "palette": ["faults", "users"],
    "steps": [2, 6],
    "atOnce": 2,
    "from": "1m",
    "for": "90s",
    "quiet": "30s",
}


def drawing(hunt: dict[str, Any] | None = None, *own: dict[str, Any]) -> Drawing:
    found = document(*own)
    found["spec"] |= {"cluster": {"nodes": [{"count": 4, "zones": ["a", "b"]}]}}
    if hunt is not None:
        found["spec"]["hunt"] = hunt
    return Drawing(ground_of(found))


def candidates(of: Drawing, count: int) -> list[dict[str, Any]]:
    """Some that are drawn fresh, then some that are made from these."""
    random = Random(7)
    found = [of.fresh(random) for _ in range(count)]
    for _ in range(count):
        found.append(of.changed(random.choice(found), random.choice(found), random))
        found.append(of.continued(random.choice(found), random))
    return found


def test_candidates_are_sound_and_have_a_quiet_end() -> None:
    of, last_us = drawing(BUSY), 150_000_000
    for one in candidates(of, 25):
        steps = planned(one).steps
        assert 1 <= sum(step.start.at_us is not None for step in steps) <= 6
        spans = []
        for step in steps:
            if step.start.at_us is None:
                assert step.start.after in {each.name for each in steps}
                continue
            (begin_us, latest_us), action = step.start.at_us, step.choices[0]
            assert begin_us == latest_us
            assert action.pick is None
            lasts = (0, 0) if action.ends is Ends.AT_ONCE else action.for_us
            assert lasts is not None
            assert lasts[0] == lasts[1]
            spans.append((begin_us, begin_us + lasts[0]))
        assert all(begin >= 60_000_000 and end <= last_us for begin, end in spans)
        assert max(sum(begin <= at < end for begin, end in spans) for at, _ in spans) <= 2


def test_candidate_of_a_led_search_tries_as_many_steps_as_fit() -> None:
    of, random = drawing({"palette": ["compact", "loseLease"], "steps": [1, 6]}), Random(3)
    for _ in range(5):
        first = of.fresh(random, most=True)
        assert len(first["spec"]["timeline"]) == 6
        assert len(of.continued(first, random)["spec"]["timeline"]) == 6
        assert len(of.changed(first, first, random)["spec"]["timeline"]) == 6


def test_even_drawing_draws_each_value_about_as_often() -> None:
    drawn = []
    for evenly in (False, True):
        of, random = drawing({"palette": ["compact"], "steps": [1, 6]}), Random(3)
        of = Drawing(of.ground, evenly=evenly)
        steps = [step for _ in range(6) for step in of.fresh(random, most=True)["spec"]["timeline"]]
        counts = Counter(str(step["compact"]) for step in steps)
        drawn.append(max(counts.values()) - min(counts.values()))
    assert drawn[1] <= 2 < drawn[0]


def test_continued_candidate_keeps_a_step_or_two_of_an_earlier_one() -> None:
    of, random = drawing({"palette": ["compact", "loseLease"], "steps": [1, 6]}), Random(3)
    parent = of.fresh(random, most=True)
    shared = []
    for _ in range(20):
        steps = of.continued(parent, random)["spec"]["timeline"]
        shared.append(sum(step in parent["spec"]["timeline"] for step in steps))
    assert max(shared) == 2


def test_candidate_is_a_function_of_the_random_generator() -> None:
    assert candidates(drawing(BUSY), 5) == candidates(drawing(BUSY), 5)
    assert drawing(BUSY).fresh(Random("1/1")) != drawing(BUSY).fresh(Random("1/2"))


def test_candidate_keeps_the_steps_and_objects_of_the_file() -> None:
    own = {"at": "50s", "name": "mine", "scale": {"resource": "deployments", "name": "web", "replicas": 2}}
    of = drawing(BUSY, own)
    for one in candidates(of, 5):
        assert one["spec"]["timeline"][0] == own
        assert one["spec"]["objects"] == of.ground.document["spec"]["objects"]
        assert "hunt" not in one["spec"]


def test_varied_values_are_in_the_candidates() -> None:
    of = drawing({"vary": {"cluster.nodes[0].count": "2..4", "objects[0].spec.replicas": [1, 3]}})
    counts = {one["spec"]["cluster"]["nodes"][0]["count"] for one in candidates(of, 20)}
    assert counts == {2, 3, 4}


def test_invariants_of_the_section_are_expectations_of_candidates() -> None:
    names = [one["name"] for one in drawing({"invariants": ["steady"]}).fresh(Random(1))["spec"]["expect"]]
    assert names == ["nodes stay", "steady"]
    assert drawing().ground.unasked[0] == "invariant budgets-kept"
    with pytest.raises(InputError, match="there is no invariant 'stedy'; did you mean 'steady'"):
        drawing({"invariants": ["stedy"]})
    with pytest.raises(InputError, match="'of': 'deployments/a/b/c' is no workload"):
        drawing({"maximise": ["unavailability of deployments/a/b/c"]})


def test_durations_are_shown_as_a_person_writes_them() -> None:
    assert [shown(s * 1_000_000) for s in (120, 125, 3_600, 5_400)] == ["2m", "2m5s", "1h", "1h30m"]


def test_every_order_of_few_names_is_tried_before_others_are_drawn() -> None:
    of = drawing({"arrivals": {"among": ["pods", "scheduler-0", "node-a-0"]}})
    orders = [planned(each).cluster.arrivals for each in of.ordered()]
    assert [each.order for each in orders if each is not None] == [*range(6)]
    assert drawing({"arrivals": {"among": ["pods", "nodes", "leases", "events", "services"]}}).ordered() == []
    assert drawing(BUSY).ordered() == []


def test_candidate_of_a_test_is_a_function_of_its_number_and_a_sound_scenario() -> None:
    cluster = {"nodes": [{"count": 2}]}
    first, again, other = (drawn_document(number, {"palette": ["crash"]}, cluster) for number in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(planned(first).steps) == len(first["spec"]["timeline"])
