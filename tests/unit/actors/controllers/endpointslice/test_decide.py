"""Packing of endpoints into slices."""

from __future__ import annotations

from actors.controllers.endpoint import PodView as EndpointView
from actors.controllers.endpoint import subsets_of, truncate
from actors.controllers.endpoint import view_of as endpoint_view
from actors.controllers.endpointslice.decide import (
    Changes,
    Groups,
    Nodes,
    Pool,
    SliceTracker,
    Wanted,
    desired_groups,
    reconcile,
    view_of,
)
from sim.api.types import Obj

PORTS: list[Obj] = [{"name": "", "port": 80, "protocol": "TCP"}]
SERVICE: Obj = {"metadata": {"name": "s", "namespace": "d"}}
REF: Obj = {"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "u"}
WANTED = Wanted(SERVICE, REF, {"l": "1", "own": "x"}, None, "trigger", 3, reserved=("own",))


def endpoint(name: str, ready: bool = True) -> Obj:
    return {"addresses": [name], "conditions": {"ready": ready}, "targetRef": {"uid": name}}


def piece(name: str, *endpoints: str) -> Obj:
    meta: Obj = {"name": name, "uid": name, "labels": {"l": "1", "own": "x"}, "generation": 1}
    meta["ownerReferences"] = [REF]
    return {
        "metadata": meta,
        "addressType": "IPv4",
        "ports": PORTS,
        "endpoints": [endpoint(e) for e in endpoints],
    }


def run(existing: list[Obj], *names: str) -> Changes:
    pool: Pool = {((n,), ""): endpoint(n) for n in names}
    groups: Groups = {repr(sorted(map(repr, PORTS))): (PORTS, pool)} if names else {}
    return reconcile(WANTED, groups, existing, "IPv4")


def held(pieces: list[Obj]) -> list[list[str]]:
    return [[e["addresses"][0] for e in p["endpoints"] or ()] for p in pieces]


def test_new_endpoints_fill_new_slices_to_the_limit() -> None:
    assert held(run([], "a", "b", "c", "d").create) == [["a", "b", "c"], ["d"]]


def test_endpoints_stay_in_their_slice_without_a_write() -> None:
    changes = run([piece("x", "a", "b"), piece("y", "c")], "a", "b", "c")
    assert changes == Changes()


def test_endpoints_stay_in_their_slice_without_a_write_while_their_hints_stay() -> None:
    hinted = piece("x", "a", "b")
    for one, zone in zip(hinted["endpoints"], "yz", strict=True):
        one |= {"zone": zone, "hints": {"forZones": [{"name": zone}]}}
    pool: Pool = {((name,), ""): {**endpoint(name), "zone": zone} for name, zone in ("ay", "bz")}
    groups: Groups = {repr(sorted(map(repr, PORTS))): (PORTS, pool)}
    changes = reconcile(WANTED, groups, [hinted], "IPv4", {"y": 0.5, "z": 0.5})
    assert (changes.update, changes.hinted) == ([], {"y": 1, "z": 1})


def test_changed_slices_are_filled_before_unchanged_ones() -> None:
    changes = run([piece("x", "a", "gone"), piece("y", "b", "c")], "a", "b", "c", "d")
    assert (held(changes.update), changes.create) == ([["a", "d"]], [])


def test_few_new_endpoints_go_to_the_slice_that_they_fill_best() -> None:
    changes = run([piece("x", "a"), piece("y", "b", "c")], "a", "b", "c", "d")
    assert held(changes.update) == [["b", "c", "d"]]


def test_emptied_slice_becomes_the_placeholder_and_stays_unchanged() -> None:
    changes = run([piece("x", "a")])
    assert [p["metadata"]["name"] for p in changes.update] == ["x"]
    assert held(changes.update) == [[]]
    placeholder = {**changes.update[0]}
    assert run([placeholder]) == Changes()


def test_reserved_label_is_ignored_and_other_label_is_written() -> None:
    odd, old = piece("x", "a"), piece("x", "a")
    odd["metadata"]["labels"] = {"l": "1"}
    assert run([odd], "a") == Changes()
    old["metadata"]["labels"] = {"l": "0", "own": "x"}
    assert [p["metadata"]["labels"] for p in run([old], "a").update] == [WANTED.labels]


def test_slice_of_a_former_service_is_deleted_and_not_reused() -> None:
    foreign = piece("x", "a")
    foreign["metadata"]["ownerReferences"] = [{**REF, "uid": "old"}]
    changes = run([foreign], "a")
    assert (held(changes.create), changes.update, held(changes.delete)) == ([["a"]], [], [["a"]])


def test_reused_slice_keeps_only_its_name() -> None:
    used = piece("x", "gone")
    used["metadata"] |= {"annotations": {"k": "v"}, "resourceVersion": "7"}
    (written,) = run([used], "a").update
    assert held([written]) == [["a"]]
    assert written["metadata"]["name"] == "x" and not {"annotations", "resourceVersion"} & {
        *written["metadata"]
    }


def test_two_pods_with_one_address_are_one_endpoint() -> None:
    service = {**SERVICE, "spec": {"ports": [{"port": 80, "protocol": "TCP"}], "ipFamilies": ["IPv4"]}}

    def pod(name: str) -> Obj:
        status = {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "podIP": "10.0.0.1"}
        meta = {"name": name, "namespace": "d", "uid": name}
        return {"metadata": meta, "spec": {"nodeName": "n"}, "status": status}

    views = [view_of(pod(name), service) for name in ("a", "b")]
    groups, errors = desired_groups(service, views, "IPv4", Nodes(1, lambda _: {}), "zone")
    ((_, pool),) = groups.values()
    assert [e["targetRef"]["name"] for e in pool.values()] == ["b"] and not errors
    groups, errors = desired_groups(service, views, "IPv4", Nodes(2, lambda _: None), "zone")
    assert [pool for _, pool in groups.values()] == [{}] and len(errors) == 2


def test_ports_of_equal_addresses_share_a_subset() -> None:
    service: Obj = {
        "metadata": {"name": "s", "namespace": "d"},
        "spec": {
            "ports": [{"name": "web", "port": 80, "targetPort": "web"}, {"name": "stats", "port": 9}],
            "ipFamilies": ["IPv4"],
        },
    }

    def view(name: str, number: int) -> EndpointView:
        container = {"ports": [{"name": "web", "containerPort": number}]}
        status = {"phase": "Running", "podIPs": [{"ip": f"10.0.0.{number}"}], "podIP": f"10.0.0.{number}"}
        meta = {"name": name, "namespace": "d", "uid": name}
        pod: Obj = {"metadata": meta, "spec": {"nodeName": "n", "containers": [container]}, "status": status}
        return endpoint_view(pod, service)

    subsets = subsets_of([view("a", 1), view("b", 2)])
    told = [
        ([a["ip"] for a in s["notReadyAddresses"]], [(p["name"], p["port"]) for p in s["ports"]])
        for s in subsets
    ]
    assert sorted(told) == [
        (["10.0.0.1"], [("web", 1)]),
        (["10.0.0.1", "10.0.0.2"], [("stats", 9)]),
        (["10.0.0.2"], [("web", 2)]),
    ]


def test_cache_is_stale_until_it_shows_own_writes() -> None:
    tracker = SliceTracker()
    written = {"metadata": {"name": "x", "uid": "x", "generation": 2}}
    tracker.written("d/s", written)
    assert tracker.is_stale("d/s", [])
    assert tracker.is_stale("d/s", [{"metadata": {"uid": "x", "generation": 1}}])
    assert not tracker.is_stale("d/s", [written])
    tracker.deleted("d/s", written)
    assert tracker.is_stale("d/s", [written])
    assert not tracker.was_unexpected("d/s", written)


def test_endpoints_beyond_a_thousand_drop_unready_addresses_first() -> None:
    ready = [{"ip": str(n)} for n in range(990)]
    unready = [{"ip": str(n)} for n in range(100)]
    (subset,), cut = truncate([{"addresses": ready, "notReadyAddresses": unready}])
    assert (cut, len(subset["addresses"]), len(subset["notReadyAddresses"])) == (True, 990, 10)
    (subset,), _ = truncate([{"addresses": ready * 2, "notReadyAddresses": unready}])
    assert (len(subset["addresses"]), "notReadyAddresses" in subset) == (1000, False)


def test_terminating_pods_have_no_endpoint_while_their_condition_is_off() -> None:
    spec = {"ports": [{"port": 80, "protocol": "TCP"}], "ipFamilies": ["IPv4"]}
    status = {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "podIP": "10.0.0.1"}
    meta = {"name": "p", "namespace": "d", "uid": "p"}
    live = {"metadata": meta, "spec": {"nodeName": "n"}, "status": status}
    ending = {**live, "metadata": {**meta, "deletionTimestamp": "2026-01-01T00:00:00Z"}}

    def conditions(pod: Obj, states: bool, **more: object) -> list[Obj]:
        view = view_of(pod, {**SERVICE, "spec": {**spec, **more}}, states)
        return [endpoint["conditions"] for _, endpoint in view.endpoints.values()]

    assert conditions(live, True) == [{"ready": False, "serving": False, "terminating": False}]
    assert conditions(live, False) == [{"ready": False}]
    assert conditions(ending, True)[0]["terminating"] and conditions(ending, False) == []
    assert conditions(ending, False, publishNotReadyAddresses=True) == [{"ready": True}]
