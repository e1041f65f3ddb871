"""Packing of endpoints into slices."""

from __future__ import annotations

from actors.controllers.endpoint import truncate
from actors.controllers.endpointslice_decide import Changes, Groups, Pool, SliceTracker, Wanted, reconcile
from sim.machinery.api import Obj

PORTS: list[Obj] = [{"name": "", "port": 80, "protocol": "TCP"}]
SERVICE: Obj = {"metadata": {"name": "s", "namespace": "d"}}
WANTED = Wanted(SERVICE, {"uid": "u"}, {"l": "1"}, None, "trigger", 3)


def endpoint(name: str, ready: bool = True) -> Obj:
    return {"addresses": [name], "conditions": {"ready": ready}, "targetRef": {"uid": name}}


def piece(name: str, *endpoints: str) -> Obj:
    meta = {"name": name, "uid": name, "labels": {"l": "1"}, "generation": 1}
    return {
        "metadata": meta,
        "addressType": "IPv4",
        "ports": PORTS,
        "endpoints": [endpoint(e) for e in endpoints],
    }


def run(existing: list[Obj], *names: str) -> Changes:
    pool: Pool = {(n, "", n): endpoint(n) for n in names}
    groups: Groups = {repr(PORTS): (PORTS, pool)} if names else {}
    return reconcile(WANTED, groups, existing, "IPv4")


def held(pieces: list[Obj]) -> list[list[str]]:
    return [[e["addresses"][0] for e in p["endpoints"]] for p in pieces]


def test_new_endpoints_fill_new_slices_to_the_limit() -> None:
    assert held(run([], "a", "b", "c", "d").create) == [["a", "b", "c"], ["d"]]


def test_what_is_in_a_slice_stays_there_and_nothing_is_written_for_it() -> None:
    changes = run([piece("x", "a", "b"), piece("y", "c")], "a", "b", "c")
    assert changes == Changes()


def test_a_slice_that_is_written_anyway_is_filled_first() -> None:
    changes = run([piece("x", "a", "gone"), piece("y", "b", "c")], "a", "b", "c", "d")
    assert (held(changes.update), changes.create) == ([["a", "d"]], [])


def test_few_new_endpoints_go_to_the_slice_that_they_fit_best() -> None:
    changes = run([piece("x", "a"), piece("y", "b", "c")], "a", "b", "c", "d")
    assert held(changes.update) == [["b", "c", "d"]]


def test_an_emptied_slice_becomes_the_placeholder_and_stays_as_it_is() -> None:
    changes = run([piece("x", "a")])
    assert [p["metadata"]["name"] for p in changes.update] == ["x"]
    assert held(changes.update) == [[]]
    placeholder = {**changes.update[0]}
    assert run([placeholder]) == Changes()


def test_the_cache_is_stale_until_it_shows_our_own_writes() -> None:
    tracker = SliceTracker()
    written = {"metadata": {"name": "x", "uid": "x", "generation": 2}}
    tracker.written("d/s", written)
    assert tracker.is_stale("d/s", [])
    assert tracker.is_stale("d/s", [{"metadata": {"uid": "x", "generation": 1}}])
    assert not tracker.is_stale("d/s", [written])
    tracker.deleted("d/s", written)
    assert tracker.is_stale("d/s", [written])
    assert not tracker.was_unexpected("d/s", written)


def test_endpoints_beyond_a_thousand_drop_the_unready_ones_first() -> None:
    ready = [{"ip": str(n)} for n in range(990)]
    unready = [{"ip": str(n)} for n in range(100)]
    (subset,), cut = truncate([{"addresses": ready, "notReadyAddresses": unready}])
    assert (cut, len(subset["addresses"]), len(subset["notReadyAddresses"])) == (True, 990, 10)
    (subset,), _ = truncate([{"addresses": ready * 2, "notReadyAddresses": unready}])
    assert (len(subset["addresses"]), "notReadyAddresses" in subset) == (1000, False)
