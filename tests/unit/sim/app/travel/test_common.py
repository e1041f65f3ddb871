"""Which steps are later, and which plans share a common part."""

from dataclasses import replace

import pytest

from sim.app.director import spaced
from sim.app.travel import common_key, common_part, later_steps
from sim.units import SECOND, Virtual
from tests.cluster.travel.plans import fails, plan_of

MINUTE = Virtual(60 * SECOND)
CHAIN = [
    {"name": "second", "after": "end of first", "fail": {"nodes": {"name": "node-b-0"}, "how": "hang"}},
    {**fails("node-a-0", "61s"), "name": "first", "for": "10s"},
    {"name": "watches", "when": "any nodes have Ready=Unknown", "after": "first", "heal": {"step": "first"}},
    {**fails("node-c-0", "55s..70s"), "name": "maybe"},
]


def test_later_steps_cannot_occur_before_the_instant() -> None:
    plan = plan_of(*CHAIN)
    assert sorted(later_steps(plan, MINUTE)) == ["first", "second"]
    assert [step.name for step in common_part(plan, MINUTE).steps] == ["early", "watches", "maybe"]


def test_step_that_the_storage_keeps_history_for_belongs_to_the_common_part() -> None:
    back = {"name": "back", "at": "100s", "storage": {"how": "restore", "to": "30s"}}
    assert not later_steps(plan_of(back), MINUTE)


def test_key_depends_on_all_but_later_steps_and_name() -> None:
    plan = plan_of(fails("node-a-0", "61s"))
    key = common_key(plan, 1, MINUTE)
    same = [plan_of(), plan_of(fails("node-b-0", "2m")), replace(plan, name="other", duration_us=1)]
    assert {common_key(one, 1, MINUTE) for one in same} == {key}
    others = [
        plan_of(fails("node-a-0", "60s")),
        plan_of(expect=[]),
        plan_of(objects=[]),
        plan_of(early=[]),
        replace(plan, cluster=replace(plan.cluster, places={"deployments/default/web": ("node-a-0",)})),
    ]
    keys = [common_key(one, 1, MINUTE) for one in others]
    assert len({key, *keys, common_key(plan, 2, MINUTE), common_key(plan, 1, Virtual(1))}) == 8


def test_spaced_orders_increase_and_known_ones_stay() -> None:
    first = spaced(["b", "d"], {}, 100, 200)
    assert first == {"b": 133, "d": 166}
    more = spaced(["a", "b", "c1", "c2", "d", "e"], first, 100, 200)
    assert more == {"a": 116, "b": 133, "c1": 144, "c2": 155, "d": 166, "e": 183}
    with pytest.raises(ValueError, match="no room"):
        spaced([str(number) for number in range(100)], {}, 100, 200)
