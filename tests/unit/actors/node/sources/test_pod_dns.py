"""Warnings about the resolver files of pods."""

import random
from typing import Any

import pytest

from actors.node.sources.pod_dns import applied_paths, excess_warnings, resolver_file, uses_cluster_dns
from sim.api.types import Obj
from sim.options.node.agent import parse_node_agent

ALL = "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "
LINE = "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "


def told(given: Obj, **spec: Any) -> list[str]:
    return excess_warnings(
        {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}, parse_node_agent(given)
    )


def test_three_servers_and_six_unique_paths_are_applied() -> None:
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
def test_dns_policy_decides_which_server_comes_first(given: Obj, spec: Obj, server: str) -> None:
    own = [f"1.1.1.{number}" for number in range(4)]
    line = " ".join(([server] if server else []) + own)
    assert told(given, dnsConfig={"nameservers": own}, **spec) == [ALL + " ".join(line.split()[:3])]


def test_without_resolver_file_only_the_root_is_searched() -> None:
    own = {"searches": list("abcdef")}
    assert told({"resolv-conf": ""}, dnsPolicy="Default", dnsConfig=own) == [LINE + ". a b c d e"]
    assert not told({}, dnsPolicy="Default", dnsConfig=own)


@pytest.mark.parametrize(
    ("policy", "host", "asks"),
    [("", False, True), ("ClusterFirst", True, False), ("ClusterFirstWithHostNet", True, True), ("Default", False, False)],
)  # fmt: skip
def test_cluster_dns_is_used_according_to_policy(policy: str, host: bool, asks: bool) -> None:
    assert uses_cluster_dns({"dnsPolicy": policy, "hostNetwork": host}) is asks


def test_random_search_paths_are_cut_as_upstream_cuts_them() -> None:
    dice = random.Random(4)
    for _ in range(2000):
        paths = ["x" * dice.choice((1, 9, 60, 100, 253, 254)) for _ in range(dice.randint(0, 9))]
        kept = [path for path in paths[:6] if len(path) < 254]
        length, cut, letters = len(" ".join(kept)), 0, 0
        while kept and length - letters > 256:
            cut += 1
            letters += len(kept[-cut]) + 1
        assert applied_paths(paths) == kept[: len(kept) - cut]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, "search shop.svc.home svc.home home\nnameserver 10.0.0.10\noptions ndots:5\n"),
        ({"dnsPolicy": "Default"}, "nameserver 127.0.0.53\n"),
        (
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["a.b"]}},
            "search a.b\nnameserver 1.1.1.1\n",
        ),
        (
            {"dnsConfig": {"options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]}},
            "search shop.svc.home svc.home home\nnameserver 10.0.0.10\noptions ndots:2 edns0\n",
        ),
    ],
)
def test_resolver_file_has_servers_search_domains_and_options(spec: Obj, text: str) -> None:
    pod = {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}
    assert resolver_file(pod, parse_node_agent({"cluster-domain": "home"})) == text
