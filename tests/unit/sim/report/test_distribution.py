"""Distributions as blocks and pictures."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from sim.report.chart import Line, Place, draw_chart
from sim.report.distribution import GREEN, RED, Pair, blocks, draw_histogram, draw_pairs
from sim.report.page import page, table
from sim.statistics import summarize


def test_blocks_show_even_a_single_value() -> None:
    values = [1.0] * 100 + [2.0] + [9.0]
    shown = blocks(values, 10)
    assert shown[0] == "█" and shown.count("▁") == 2 and len(shown) <= 11


def test_a_histogram_shades_what_is_wanted_and_reddens_what_lies_outside() -> None:
    values = [float(n) for n in range(30, 50)]
    summary = summarize([values])
    assert summary is not None
    inside = draw_histogram(values, summary, (20, 60), "s")
    outside = draw_histogram(values, summary, (30, 40), "s")
    assert GREEN in inside and RED not in inside and RED in outside
    for svg in (inside, outside, draw_histogram(values, summary, None, "s")):
        ElementTree.fromstring(svg)
    ElementTree.fromstring(draw_histogram([5.0], summary, (5, 5), ""))


def texts(svg: str) -> dict[str, tuple[float, float]]:
    found = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return {str(one.text): (float(one.attrib["x"]), float(one.attrib["y"])) for one in found}


def test_labels_of_quantiles_that_lie_together_keep_apart_and_within_the_picture() -> None:
    summary = summarize([[0.0] * 5])
    assert summary is not None
    shown = texts(draw_histogram([0.0] * 5, summary, None, "s"))
    places = [place for text, place in shown.items() if text.startswith("p")]
    assert [x >= 6 * len("p50 0.00s") / 2 for x, _ in places] == [True] * 3
    assert len({y for _, y in places}) == 3


def test_a_histogram_says_how_often_there_was_nothing_to_measure() -> None:
    for missing, said in ((0, []), (120, ["and 120 never"])):
        summary = summarize([[31.0], [44.0]], missing)
        assert summary is not None
        shown = texts(draw_histogram([31.0, 44.0], summary, None, "s"))
        assert [each for each in shown if "never" in each] == said


def test_a_histogram_says_for_how_many_values_its_bars_stand() -> None:
    values = [1.0] * 40 + [2.0] * 7
    summary = summarize([values])
    assert summary is not None
    shown = texts(draw_histogram(values, summary, None, ""))
    assert {"0", "10", "20", "30", "40", "values"} <= shown.keys()
    assert shown["40"][1] < shown["30"][1] < shown["0"][1]


@pytest.mark.parametrize(
    "values", [[2.0] * 9, [0.0, 1.0, 1.0, 5.0], [float(n) for n in range(200)], [0.0, 20.0]]
)
def test_counts_are_whole_and_their_bars_stand_on_them(values: list[float]) -> None:
    summary = summarize([values])
    assert summary is not None
    svg = draw_histogram(values, summary, (2, 2), "")
    shown = {text: place for text, place in texts(svg).items() if text.isdigit() and place[1] > 170}
    lines = texts(
        draw_chart([Line("a", [Place(1, "1", values), Place(2, "2", values)])], "", "").partition("<div")[0]
    )
    assert shown and not any("." in text for text in lines)
    bars = [
        (float(bar.attrib["x"]) + float(bar.attrib["width"]) / 2, bar[0].text or "")
        for bar in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect")
    ]
    for text, (x, _) in shown.items():
        for middle, told in bars:
            assert not told.startswith(f"{text}: ") or abs(middle - x) < 1.5


def test_no_label_of_a_quantile_covers_the_vertical_axis() -> None:
    summary = summarize([[0.0] * 5])
    assert summary is not None
    shown = texts(draw_histogram([0.0] * 5, summary, None, "s"))
    values = shown["values"][0]
    assert all(x - 6 * len(text) / 2 > values for text, (x, _) in shown.items() if text.startswith("p"))


def test_chart_omits_overlapping_labels_and_dashes_lines_that_may_coincide() -> None:
    places = [Place(float(n), f"{n}m0.000s", [1.0, 2.0, 3.0]) for n in range(100)]
    svg = draw_chart([Line("a", places), Line("b", places)], "how long", "s").partition("<div")[0]
    shown = sorted(x for text, (x, _) in texts(svg).items() if text.endswith("m0.000s"))
    assert 5 < len(shown) < 30
    assert all(right - left > 6 * len("99m0.000s") for left, right in pairwise(shown))
    assert svg.count("stroke-dasharray") == 1


def test_what_is_wide_scrolls_by_itself() -> None:
    shown = table(("what", "p50"), [["a", "1.00"]], numbers=1)
    assert shown.startswith('<div class="wide"><table>') and "<th class=number>p50" in shown
    assert ".wide{overflow-x:auto}" in page("t", "", {}, shown)


def test_pairs_stand_in_rows_of_one_picture() -> None:
    pairs = [Pair(name, [1.0, 2.0, 3.0], [1.5, 2.5], "p 1 < 2") for name in ("a", "b")]
    root = ElementTree.fromstring(draw_pairs(pairs))
    assert len(root.findall("{http://www.w3.org/2000/svg}g")) == 2


def test_pairs_have_their_own_background_and_cut_long_names() -> None:
    name, there = (
        "an expectation with a rather long name " * 2,
        "a file with a rather long name.csv and column",
    )
    root = ElementTree.fromstring(draw_pairs([Pair(name, [1.0, 2.0], [1.5], "2 values there")], there))
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    # a page says `svg text{fill:…}`, which goes before attributes and not before a style
    assert all("fill:#" in one.get("style", "") for one in texts)
    shown = {one.text: float(one.get("x", "")) for one in texts}
    assert shown["here"] > shown[there] + 6 * len(there)
    (cut,) = [text for text in shown if text is not None and text.endswith("…")]
    assert name.startswith(cut[:-1]) and 7.3 * len(cut) < 240
    assert name in [one.text for one in root.iter("{http://www.w3.org/2000/svg}title")]
