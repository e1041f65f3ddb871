"""The frame of every HTML report: one file, light or dark by the reader's preference, without
network; its scripts are in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from sim.report.charts.chart import PLACE, page_scripts

_STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--paper:#fbfaf7;--soft:#6b7684;--line:#d9d5cb;--ok:#00805d;--no:#c24f00;--open:#8a5f00}
@media (prefers-color-scheme:dark){:root{--ink:#e8e6df;--paper:#171b21;--soft:#98a2ae;--line:#343b45;--ok:#2bbd8f;--no:#ff8a3d;--open:#e6a800}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1120px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:1.6rem 0 .2rem}p.what{color:var(--soft);margin:.2rem 0 1.2rem}
table{border-collapse:collapse;width:100%;margin:1rem 0}th,td{text-align:left;padding:.35rem .7rem;border-bottom:1px solid var(--line)}
th.number,td.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}th{color:var(--soft);font-weight:500}
td.ok{color:var(--ok)}td.no{color:var(--no);font-weight:600}td.open{color:var(--open)}
dl{display:flex;flex-wrap:wrap;gap:.2rem 2rem;margin:0}dt{color:var(--soft)}dd{margin:0 1rem 0 .3rem;font-variant-numeric:tabular-nums}dl div{display:flex}dd{overflow-wrap:anywhere}p.soft{color:var(--soft);font-size:13px;margin:.1rem 0 .3rem}
.wide{overflow-x:auto}.chart{width:100%;min-height:6rem;display:block;touch-action:pan-y}.chart svg,svg.marks{display:block;max-width:100%;height:auto}
code{overflow-wrap:anywhere}
summary{cursor:pointer;padding:.15rem 0}table.chain{margin:.2rem 0 1rem;font-size:13px}table.chain td{padding:.15rem .7rem;vertical-align:top}table.chain .actor{white-space:nowrap}
@media (max-width:600px){body{margin:1rem auto;padding:0 .6rem}th,td{padding:.3rem .3rem;font-size:13px}
table.chain tbody{display:block}table.chain tr{display:grid;grid-template-columns:auto auto 1fr;border-bottom:1px solid var(--line)}table.chain td{border:0}table.chain td:last-child{grid-column:1/-1}}
@media print{body{max-width:none;margin:0}.wide{overflow:visible}svg{break-inside:avoid}h2{break-after:avoid}details::details-content{content-visibility:visible}}
"""


def page(title: str, description: str, facts: Mapping[str, str], body: str) -> str:
    """A whole page; `body` is HTML."""
    listed = "".join(
        f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in facts.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} – Orrery</title><style>{_STYLE}</style>"
        f'<h1>{escape(title)}</h1><p class="what">{escape(description)}</p><dl>{listed}</dl>{body}{_scripts(body)}</html>'
    )


def fragment(body: str) -> str:
    """A part of another page, such as a notebook: the styles apply to this part only."""
    style = _STYLE.replace(":root", "&").replace(
        "\nbody{", "\n&{max-width:none!important;margin:0!important;"
    )
    return f'<div class="orrery"><style>.orrery{{{style}}}</style>{body}{_scripts(body)}</div>'


def _scripts(body: str) -> str:
    """The scripts that draw the charts, if there are any."""
    return page_scripts() if PLACE in body else ""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """A table; the last `numbers` columns are numbers.  A cell "holds", "held already", "FAILED"
    or "not judged" shows its colour.
    """
    if not rows:
        return ""
    first = len(columns) - numbers
    head = "".join(
        f"<th{' class=number' if index >= first else ''}>{escape(column)}</th>"
        for index, column in enumerate(columns)
    )
    lines = "".join(
        "<tr>" + "".join(_cell(text, index >= first) for index, text in enumerate(row)) + "</tr>"
        for row in rows
    )
    return wide(f"<table><tr>{head}</tr>{lines}</table>")


def wide(body: str) -> str:
    """Scrolls content that is wider than a small screen by itself, instead of the page."""
    return f'<div class="wide">{body}</div>'


def _cell(text: str, number: bool) -> str:
    kind = {"holds": "ok", "FAILED": "no", "not judged": "open", "held already": "open"}.get(
        text, "number" if number else ""
    )
    return f'<td class="{kind}">{escape(text)}</td>' if kind else f"<td>{escape(text)}</td>"
