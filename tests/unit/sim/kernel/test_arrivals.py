"""Arranged orders of arrival: permutations, bounds of delays, draws."""

from __future__ import annotations

from itertools import permutations

import pytest

from sim.kernel.causes import Standing
from sim.kernel.draws.arrivals import Arrivals, permuted
from sim.kernel.network import DEFAULT_HIGH_US, DEFAULT_LOW_US, Link, Network, Rule
from sim.units import MS, Virtual


def network(arrivals: Arrivals | None = None) -> Network:
    new = Network(7, Standing(lambda: Virtual(0), lambda: 0))
    new.arrange(arrivals)
    return new


def drawn(link: Link) -> list[int]:
    return [link.delay_at_us(Virtual(at_us)) for at_us in range(20)]


def test_every_permutation_has_one_number() -> None:
    names = ["a", "b", "c", "d"]
    assert [tuple(permuted(names, number)) for number in range(24)] == [*permutations(names)]


def test_delays_of_names_do_not_overlap_and_fill_the_range() -> None:
    arrivals = Arrivals(1, 5 * MS, ("x", "y", "z"))
    bounds = {name: arrivals.bounds_us((name,), 200, 800) for name in ("x", "y", "z")}
    assert bounds == {"x": (200, 2_066), "z": (2_066, 3_933), "y": (3_933, 5_800)}
    assert arrivals.bounds_us(("other",), 200, 800) == (200, 5_800)


def test_resource_of_a_watch_decides_before_its_hosts() -> None:
    arrivals = Arrivals(0, 0, ("scheduler-0", "pods"))
    net = network(arrivals)
    back = net.link("apiserver-0", "scheduler-0")
    pods, nodes = net.watch_link(back, "pods"), net.watch_link(back, "nodes")
    assert (back.low_us, back.high_us) == (200, 500)
    assert (pods.low_us, pods.high_us) == (500, 800)
    assert (nodes.low_us, nodes.high_us) == (200, 500)


def test_network_without_an_arrangement_has_one_link_for_all() -> None:
    net = network()
    link = net.link("a", "b")
    assert net.watch_link(link, "pods") is link
    assert (link.low_us, link.high_us) == (DEFAULT_LOW_US, DEFAULT_HIGH_US)


@pytest.mark.parametrize("arrivals", [Arrivals(), Arrivals(0, 0, ("other",))])
def test_order_zero_has_the_draws_of_the_seed(arrivals: Arrivals) -> None:
    assert drawn(network(arrivals).link("a", "b")) == drawn(network().link("a", "b"))


def test_orders_and_watches_have_draws_of_their_own() -> None:
    first, second = (network(Arrivals(order)) for order in (1, 2))
    links = [network().link("a", "b"), first.link("a", "b"), second.link("a", "b")]
    links += [first.watch_link(links[1], resource) for resource in ("pods", "nodes")]
    assert len({tuple(drawn(link)) for link in links}) == len(links)


def test_rule_of_a_fault_moves_the_bounds_of_an_arranged_link_and_its_watches() -> None:
    net = network(Arrivals(0, 0, ("a", "c")))
    link = net.link("a", "b")
    pods = net.watch_link(link, "pods")
    net.impose(Rule("slow", frozenset({"a"}), frozenset({"b"}), low_us=10 * MS, high_us=20 * MS))
    assert [(each.low_us, each.high_us) for each in (link, pods)] == [(10 * MS, 15 * MS)] * 2
    net.lift("slow")
    assert [(each.low_us, each.high_us) for each in (link, pods)] == [(200, 500)] * 2
