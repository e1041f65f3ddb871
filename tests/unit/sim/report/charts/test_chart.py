"""Charts in all their forms: place of a page, SVG, PNG, Altair."""

import base64
import gzip
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import altair
import pytest

from docs.generate.chart_scripts import pack_scripts
from sim.errors import InputError
from sim.report.charts.chart import AXIS, EDGE, NOTICES, Chart, in_notebook, page_scripts, stacked
from sim.report.charts.distribution import Pair, histogram_chart, pairs_chart
from sim.report.charts.run import run_chart
from sim.report.charts.scripts import packed_scripts
from sim.report.charts.setting import Line, Place, setting_chart
from sim.report.page import fragment, page, table
from sim.statistics import summarize
from tests.unit.sim.report.charts.test_run import outage


def charts() -> list[Chart]:
    values = [float(number) for number in range(30, 50)]
    summary = summarize([values], 3)
    assert summary is not None
    places = [Place(float(number), f"{number}s", [1.0, 2.0, 3.0], missing=9) for number in (1, 2)]
    return [
        run_chart(outage(), 120_000_000),
        histogram_chart("h<1>", values, summary, (30, 40), "s"),
        pairs_chart([Pair("p", [1.0, 2.0], [1.5], "note")], "there"),
        setting_chart("q", [Line("a", places), Line("b", places)], "how long", "s"),
    ]


def test_every_chart_is_valid_for_altair_and_drawn_by_vega() -> None:
    for chart in charts():
        assert isinstance(chart.altair(), altair.VConcatChart)  # which checks the specification
        svg = ElementTree.fromstring(chart.svg(600))
        assert float(svg.attrib["width"]) <= 600


def test_drawn_picture_names_its_rows_and_states() -> None:
    svg = ElementTree.fromstring(charts()[0].svg())
    texts = {text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")}
    assert {"nodes, zone a<b", "pods available", "dark", "on dead machines", "2m"} <= texts


def test_charts_below_each_other_have_one_width() -> None:
    spec = stacked(charts(), "all").complete(500)
    rows = [row for one in spec["vconcat"] for row in one.get("vconcat", [one])]
    assert {row["width"] for row in rows} == {500 - AXIS - EDGE}


def test_page_with_charts_carries_the_scripts_once_and_no_address() -> None:
    body = "".join(chart.html() for chart in charts())
    text = page("t", "", {}, body)
    assert text.count('class="orrery-scripts"') == 1 and "</script>" not in json.dumps(charts()[1].name)
    assert not re.search("(src|href)=", text) and "fetch(" not in text
    assert "orrery-scripts" not in page("t", "", {}, table(("a",), [["1"]]))


def test_page_with_scripts_holds_their_notices_as_one_comment() -> None:
    comment, closed, rest = page_scripts().partition("<!--")[2].partition("-->")
    assert closed and "orrery-scripts" in rest and "-->" not in NOTICES.read_text(encoding="utf-8")
    assert (
        "University of Washington Interactive Data Lab" in comment and "Copyright (c) 2017, Vega" in comment
    )


def test_packed_scripts_hold_vega_embed() -> None:
    text = gzip.decompress(base64.b64decode(packed_scripts())).decode()
    assert "window.vegaEmbed=" in text


@pytest.mark.slow
def test_packed_scripts_are_those_of_the_locked_package() -> None:
    assert packed_scripts() == pack_scripts()


def test_picture_without_the_converter_is_drawn_by_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    chart = charts()[1]
    assert "<svg" in fragment(in_notebook(chart)) and "<script" not in fragment(in_notebook(chart))
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    shown = fragment(in_notebook(chart))
    assert 'class="chart"' in shown and 'class="orrery-scripts"' in shown
    with pytest.raises(InputError, match=r"orrery\[lab\]"):
        chart.png()


def test_chart_is_saved_in_the_format_of_its_name(tmp_path: Path) -> None:
    chart = charts()[1]
    for name in ("a.svg", "a.png", "a.json"):
        chart.save(tmp_path / name, 400)
    ElementTree.fromstring((tmp_path / "a.svg").read_text())
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "a.json").read_text())["$schema"].endswith("/v6.json")
    with pytest.raises(InputError, match="format"):
        chart.save(tmp_path / "a.gif")


def test_wide_table_scrolls_by_itself() -> None:
    shown = table(("what", "p50"), [["a", "1.00"]], numbers=1)
    assert shown.startswith('<div class="wide"><table>') and "<th class=number>p50" in shown
    assert ".wide{overflow-x:auto}" in page("t", "", {}, shown)
