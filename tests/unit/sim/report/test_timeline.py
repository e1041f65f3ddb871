"""The timeline counts what happened; the picture and the page show it, with names of any content."""

import json
import re
from typing import Any

from sim.api.store import Change, Item
from sim.check import Verdict
from sim.ident import NAMES
from sim.report import Timeline, answered_line, render, sparkline
from sim.report.story import Line
from sim.series import Series

NAMES_ = NAMES["orch"]


def change(
    at_s: float, key: str, obj: dict[str, Any], prev: dict[str, Any] | None = None, deleted: bool = False
) -> Change:
    item = Item(key, {"metadata": {"name": key.rsplit("/", 1)[1]}, **obj}, 1, 1)
    before = None if prev is None else Item(key, {"metadata": {}, **prev}, 1, 1)
    return Change(1, item, before, deleted, int(at_s * 1e6))


def node(ready: str, taints: list[dict[str, str]] | None = None) -> dict[str, Any]:
    meta = {"name": "n", "labels": {NAMES_.label_zone: "a<b"}}
    return {
        "metadata": meta,
        "spec": {"taints": taints or []},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def story() -> Timeline:
    timeline = Timeline(NAMES_)
    timeline.see(change(1, "//nodes//n", node("True")))
    timeline.see(change(2, "//pods/default/p", {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}))
    timeline.step("dark <1>", "fail", 30_000_000)
    timeline.see(change(40, "//nodes//n", node("Unknown", [{"key": "k", "effect": "NoExecute"}])))
    timeline.see(
        change(
            60,
            "//pods/default/p",
            {"metadata": {"name": "p", "deletionTimestamp": "x"}, "spec": {"nodeName": "n"}},
        )
    )
    lease = f"/coordination/leases/s/{NAMES_.lease_scheduler}"
    timeline.see(change(5, lease, {"spec": {"holderIdentity": "scheduler-0_x"}}))
    timeline.see(change(70, lease, {"spec": {"holderIdentity": "scheduler-1_y"}}))
    timeline.sample(10_000_000, 50)
    timeline.sample(20_000_000, 80)
    return timeline


def test_nodes_taints_pods_and_leaders_are_counted_from_commits() -> None:
    timeline = story()
    nodes = timeline.nodes["a<b"]
    assert (nodes["ready"].at(39_000_000), nodes["ready"].at(41_000_000), nodes["unknown"].last) == (1, 0, 1)
    assert timeline.taints["a<b"].last == 1
    assert (timeline.pods["running"].last, timeline.pods["terminating"].last) == (0, 1)
    assert timeline.evictions == [(60_000_000, "a<b")]
    assert [(reign.holder, reign.from_us) for reign in timeline.reigns] == [
        ("scheduler-0_x", 5_000_000),
        ("scheduler-1_y", 70_000_000),
    ]
    assert timeline.requests == {0: 50, 1: 30}


def test_pods_are_counted_by_workload_and_reason_until_they_are_gone() -> None:
    timeline, key = Timeline(NAMES_), "//pods/shop/web-1"
    meta = {"name": "web-1", "ownerReferences": [{"kind": "StatefulSet", "name": "web", "controller": True}]}
    timeline.see(change(1, key, {"metadata": meta, "status": {"phase": "Pending"}}))
    running = {"metadata": meta, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    timeline.see(change(3, key, running))
    timeline.see(change(9, key, running, deleted=True))
    assert {name: list(states) for name, states in timeline.workloads.items()} == {
        "statefulset shop/web": ["pending: not scheduled yet", "running"]
    }
    states = timeline.workloads["statefulset shop/web"]
    assert states["pending: not scheduled yet"].points == [(1_000_000, 1), (3_000_000, 0)]
    assert states["running"].points == [(3_000_000, 1), (9_000_000, 0)]
    assert timeline.pods == states


def test_plain_values_keep_the_workloads_and_older_ones_have_none() -> None:
    plain = json.loads(json.dumps(story().to_plain()))
    again = Timeline.of_plain(plain)
    assert again.workloads == story().workloads != {}
    del plain["workloads"]
    older = Timeline.of_plain(plain)
    assert older.workloads == {} and older.pods == story().pods


def clients() -> Timeline:
    """Requests to two Services in ten seconds, none in the last two; those to api fail at first."""
    timeline = Timeline(NAMES_)
    for second in range(8):
        for _ in range(9):
            timeline.request("shop/web", "answered", second * 1_000_000 + 999_999)
        timeline.request("shop/api", "refused" if second < 2 else "answered", second * 1_000_000)
    return timeline


def test_requests_of_clients_are_counted_by_service_outcome_and_second() -> None:
    assert clients().clients == {
        "shop/web": {"answered": dict.fromkeys(range(8), 9)},
        "shop/api": {"refused": {0: 1, 1: 1}, "answered": dict.fromkeys(range(2, 8), 1)},
    }


def test_plain_values_keep_the_requests_of_clients_and_have_none_without_clients() -> None:
    plain = json.loads(json.dumps(clients().to_plain()))
    again = Timeline.of_plain(plain)
    assert again.clients == clients().clients
    assert again.clients["shop/web"]["answered"][99] == 0
    assert "clients" not in story().to_plain()
    assert Timeline.of_plain(story().to_plain()).clients == {}


def test_the_page_needs_nothing_from_elsewhere_and_escapes_names() -> None:
    verdict = Verdict("<b>", False, "1", "2", after="dark <1>")
    page = render("t", "d", {"seed": "1"}, [verdict], story(), 120_000_000, {})
    assert "<b>" not in page and "&lt;b&gt;" in page
    assert page.index("<th>after</th>") < page.index("<td>dark &lt;1&gt;</td>")
    # No element of the page names an address, and no text of a chart ends its script element.
    assert not re.search(r"(src|href)=", page.partition('class="orrery-scripts"')[0])
    assert page.count("<script") == page.count("</script>") == 4


def test_failed_verdict_is_unfolded_in_the_report_with_its_facts() -> None:
    failed = Verdict("lost", False, "45.00s", "0.00s to 9.00s", at_us=50_000_000, objects=("//nodes//n<1>",))
    kept, already = Verdict("kept", True, "1", "1"), Verdict("open", True, "0", "1", held_already=True)
    line = Line(1, 10, None, "scenario", "step", "step", {})
    chains = {"lost": [line], "kept": [line]}
    page = render("t", "d", {}, [failed, kept, already], story(), 120_000_000, chains)
    assert page.count("<details open>") == 1 and page.count("<details>") == 1
    unfolded = page[page.index("<details open>") :].partition("</details>")[0]
    assert "<dd>nodes/n&lt;1&gt;</dd>" in unfolded and "<dd>0m50.000s of the run</dd>" in unfolded
    assert '<td class="open">held already</td>' in page and '<td class="no">FAILED</td>' in page


def test_a_sparkline_shows_shares_over_time() -> None:
    ready, lost = Series([(0, 4), (50, 2), (75, 0)]), Series([(50, 2), (75, 4)])
    assert sparkline({"ready": ready, "unknown": lost}, "ready", 100, 4) == "█▄  "


def test_line_of_answered_requests_is_full_only_where_all_were_answered() -> None:
    second_us = 1_000_000
    assert answered_line(clients(), 10 * second_us, 10) == "▇▇██████··"
    assert answered_line(clients(), 10 * second_us, 5) == "▇███·"
    # A column narrower than a second has the requests of its second, and a wide one those of all.
    assert answered_line(clients(), 2 * second_us, 4) == "▇▇▇▇"
    assert answered_line(clients(), 10 * second_us, 1) == "▇"
    lost = Timeline(NAMES_)
    for second, outcome in enumerate(("refused", "timed out", "answered")):
        lost.request("shop/web", outcome, second * second_us)
    for _ in range(99):
        lost.request("shop/web", "refused", 3 * second_us)
    lost.request("shop/web", "answered", 3 * second_us)
    assert answered_line(lost, 4 * second_us, 4) == "  █▁"
