"""What pods are warned of when their resolvers' files are made."""

import random
from typing import Any

import pytest

from actors.node.sources.pod_dns import asks_cluster, fitting, misfits
from sim.api.types import Obj
from sim.options.node_agent import parse_node_agent

ALL = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "
LINE = "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "


def told(given: Obj, **spec: Any) -> list[str]:
    return misfits({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}, parse_node_agent(given))


def test_three_servers_and_six_paths_are_taken_each_once() -> None:
    own = {"nameservers": ["1.1.1.1", "10.0.0.10", "1.1.1.2"], "searches": ["a", "b", "c", "svc.home"]}
    assert told({"cluster-domain": "home"}, dnsConfig=own) == []
    own["nameservers"].append("1.1.1.3")
    own["searches"].append("d")
    assert told({"cluster-domain": "home"}, dnsConfig=own) == [
        ALL + "10.0.0.10 1.1.1.1 1.1.1.2",
        LINE + "shop.svc.home svc.home home a b c",
    ]


@pytest.mark.parametrize(
    ("given", "spec", "server"),
    [
        ({}, {"dnsPolicy": "Default"}, "127.0.0.53"),
        ({"resolv-conf": ""}, {"dnsPolicy": "Default"}, "127.0.0.1"),
        ({"cluster-dns": ""}, {}, "127.0.0.53"),
        ({"cluster-dns": "me,::01"}, {}, "::1"),
        ({}, {"hostNetwork": True}, "127.0.0.53"),
        ({}, {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, "10.0.0.10"),
        ({}, {"dnsPolicy": "None"}, ""),
    ],
)
def test_the_policy_says_whose_server_comes_first(given: Obj, spec: Obj, server: str) -> None:
    own = [f"1.1.1.{number}" for number in range(4)]
    line = " ".join(([server] if server else []) + own)
    assert told(given, dnsConfig={"nameservers": own}, **spec) == [ALL + " ".join(line.split()[:3])]


def test_without_a_file_nothing_is_searched_but_the_root() -> None:
    own = {"searches": list("abcdef")}
    assert told({"resolv-conf": ""}, dnsPolicy="Default", dnsConfig=own) == [LINE + ". a b c d e"]
    assert not told({}, dnsPolicy="Default", dnsConfig=own)


@pytest.mark.parametrize(
    ("policy", "host", "asks"),
    [("", False, True), ("ClusterFirst", True, False), ("ClusterFirstWithHostNet", True, True), ("Default", False, False)],
)  # fmt: skip
def test_who_asks_for_the_clusters_names(policy: str, host: bool, asks: bool) -> None:
    assert asks_cluster({"dnsPolicy": policy, "hostNetwork": host}) is asks


def test_drawn_paths_are_cut_as_upstream_counts_what_it_cuts() -> None:
    dice = random.Random(4)
    for _ in range(2000):
        paths = ["x" * dice.choice((1, 9, 60, 100, 253, 254)) for _ in range(dice.randint(0, 9))]
        kept = [path for path in paths[:6] if len(path) < 254]
        length, cut, letters = len(" ".join(kept)), 0, 0
        while kept and length - letters > 256:
            cut += 1
            letters += len(kept[-cut]) + 1
        assert fitting(paths) == kept[: len(kept) - cut]
