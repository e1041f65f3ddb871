"""The list of metric families, and how numbers become series of them.

To see it fail: read a bound as a step, or show a family of another kind of process.
"""

from __future__ import annotations

from sim.kernel.meters import Meters
from sim.wire.http.measures.families import BOUNDS, FAMILIES, families, parse_families
from sim.wire.http.measures.text import text_format


def test_a_line_of_the_list_becomes_a_family() -> None:
    text = """# a comment
[scheduler]
a_seconds | histogram exp 0.5 2 3 | STABLE | x,y | Text with a | in it.
b | gauge | ALPHA 1.23 | - | Old.
c | histogram lin 5 5 2 | ALPHA | {} | One.
d | counter | ALPHA | x |
e | counter | NONE | x | Of a library."""
    found = parse_families(text)
    assert found["a_seconds"].buckets == (0.5, 1, 2) and found["a_seconds"].labels == ("x", "y")
    assert found["a_seconds"].help == "[STABLE] Text with a | in it."
    assert found["b"].always and found["b"].hidden
    assert found["b"].help == "[ALPHA] (Deprecated since 1.23.0) Old."
    assert found["c"].buckets == (5, 10) and not found["c"].always
    assert found["e"].help == "Of a library."
    assert found["d"].help == "[ALPHA] " and not found["d"].hidden


def test_every_family_of_the_list_is_well_formed() -> None:
    for name, family in FAMILIES.items():
        assert family.type in ("counter", "gauge", "histogram", "summary"), name
        assert family.stability in ("ALPHA", "STABLE", "NONE"), name
        assert (family.type == "histogram") == bool(family.buckets), name
        assert list(family.buckets) == sorted(set(family.buckets)), name


def page(process: str, meters: Meters, shown: Meters | None = None) -> list[str]:
    kind = str.rstrip
    found = families(process, meters, shown or Meters(BOUNDS), lambda owner: kind(owner, "-0123456789"))
    return [line for line in text_format(found).splitlines() if not line.startswith("#")]


def test_a_process_has_its_own_families_and_its_share_of_those_of_all() -> None:
    meters = Meters(BOUNDS)
    meters.count("scheduler_schedule_attempts_total", ("p", "scheduled"))
    for owner, name in (("scheduler-0", "a"), ("scheduler-1", "a"), ("apiserver-0", "a")):
        meters.count("workqueue_adds_total", (owner, name))
        meters.observe("workqueue_work_duration_seconds", (owner, name), 0.5, 2)
    lines = page("scheduler", meters)
    assert 'workqueue_adds_total{name="a"} 2' in lines
    assert 'workqueue_work_duration_seconds_count{name="a"} 4' in lines
    assert 'workqueue_work_duration_seconds_sum{name="a"} 2' in lines
    assert any(line.startswith("scheduler_schedule_attempts_total{") for line in lines)
    assert "scheduler_preemption_attempts_total 0" in lines
    others = page("apiserver", meters)
    assert 'workqueue_adds_total{name="a"} 1' in others
    assert not any(line.startswith("scheduler_") for line in others)


def test_present_values_stand_beside_counted_ones() -> None:
    meters, shown = Meters(BOUNDS), Meters(BOUNDS)
    shown.set("apiserver_storage_objects", ("pods",), 3)
    shown.set("apiserver_storage_objects", ("pods",), 2)
    assert 'apiserver_storage_objects{resource="pods"} 3' in page("apiserver", meters, shown)
