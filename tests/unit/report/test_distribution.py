"""Distributions as blocks and pictures."""

from xml.etree import ElementTree

from sim.report.distribution import GREEN, RED, Pair, blocks, draw_histogram, draw_pairs
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


def test_pairs_stand_in_rows_of_one_picture() -> None:
    pairs = [Pair(name, [1.0, 2.0, 3.0], [1.5, 2.5], "p 1 < 2") for name in ("a", "b")]
    root = ElementTree.fromstring(draw_pairs(pairs))
    assert len(root.findall("{http://www.w3.org/2000/svg}g")) == 3
