"""The timeline counts what happened; the picture and the page show it, with names of any content."""

import xml.etree.ElementTree as ET
from typing import Any

from sim.api.store import Change, Item
from sim.check import Verdict
from sim.ident import NAMES
from sim.report import Timeline, render, sparkline
from sim.report.story import Line
from sim.report.svg import LETTER, draw
from sim.series import Series

NAMES_ = NAMES["orch"]
SVG = "{http://www.w3.org/2000/svg}"


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


def test_picture_is_well_formed_and_names_rows_and_steps() -> None:
    root = ET.fromstring(draw(story(), 120_000_000))
    texts = [text.text for text in root.iter(SVG + "text")]
    assert {"nodes, zone a<b", "NoExecute taints", "pods", "API requests a second", "dark <1>"} <= set(texts)


def test_lines_of_several_zones_are_distinguished_by_a_legend() -> None:
    timeline = story()
    timeline.taints["z&"] = Series()
    for at_us, value in ((1, 1), (2, 0)):
        timeline.taints["z&"].put(at_us, value)
    root = ET.fromstring(draw(timeline, 120_000_000))
    lines = {
        str(path[0].text): path.get("stroke")
        for path in root.iter(SVG + "path")
        if len(path) and path.get("stroke")
    }
    key = {
        f"zone {one.text}": str(one.get("style")).removeprefix("fill:") for one in root.iter(SVG + "tspan")
    }
    assert key == lines and len(key) == 2
    assert not list(ET.fromstring(draw(story(), 120_000_000)).iter(SVG + "tspan"))


def test_largest_number_of_a_row_fits_into_the_picture() -> None:
    timeline = Timeline(NAMES_)
    timeline.pods["running"] = Series()
    timeline.pods["running"].put(1, 150_000)
    root = ET.fromstring(draw(timeline, 100, width=1000))
    (number,) = [text for text in root.iter(SVG + "text") if text.text == "150000"]
    assert float(number.get("x", 0)) + len("150000") * LETTER < 1000


def test_names_of_steps_do_not_touch_and_a_fault_is_as_long_as_it_lasts() -> None:
    timeline = Timeline(NAMES_)
    for at_us in (10, 11, 60, 99):
        timeline.step(f"fault/{at_us}", "crash", at_us)
    timeline.step("end of fault/10", "end of crash", 50)
    root = ET.fromstring(draw(timeline, 100, width=1000))
    texts = [text for text in root.iter(SVG + "text") if text.get("class") == "small over"]
    assert [text.text for text in texts] == [f"fault/{n} crash" for n in (10, 11, 60, 99)]
    assert texts[0][0].text == "fault/10: crash at 0.0 s to 0.0 s"
    low, high, later, _ = [float(text.get("y", 0)) for text in texts]
    assert high < low == later
    assert float(texts[-1].get("x", 0)) < 1000 - 60
    lines = [path.get("class") for path in root.iter(SVG + "path") if path.find(SVG + "title") is not None]
    assert lines == ["step", "lasts", "step", "step", "step"]


def test_an_empty_run_has_a_picture_too() -> None:
    ET.fromstring(draw(Timeline(NAMES_), 0))


def test_the_page_needs_nothing_from_elsewhere_and_escapes_names() -> None:
    verdict = Verdict("<b>", False, "1", "2", after="dark <1>")
    page = render("t", "d", {"seed": "1"}, [verdict], story(), 120_000_000, {})
    assert "<b>" not in page and "&lt;b&gt;" in page
    assert page.index("<th>after</th>") < page.index("<td>dark &lt;1&gt;</td>")
    assert (
        "http://" not in page.replace("http://www.w3.org/2000/svg", "")
        and "https://" not in page
        and "<script" not in page
    )


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
