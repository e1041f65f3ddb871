"""The one-file HTML report: verdicts and the timeline picture.  Opens without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Protocol

from sim.report.svg import PALETTE, draw
from sim.report.timeline import Timeline


class Verdict(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def measured(self) -> str: ...
    @property
    def wanted(self) -> str: ...


_STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--paper:#fbfaf7;--soft:#6b7684;--line:#d9d5cb;--lane:#f1efe8}
@media (prefers-color-scheme:dark){:root{--ink:#e8e6df;--paper:#171b21;--soft:#98a2ae;--line:#343b45;--lane:#1f252d}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1120px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}p.what{color:var(--soft);margin:.2rem 0 1.2rem}
table{border-collapse:collapse;width:100%;margin:1rem 0}th,td{text-align:left;padding:.35rem .7rem;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:500}td.ok{color:#3d9a6a}td.no{color:#c4483f;font-weight:600}
dl{display:flex;flex-wrap:wrap;gap:.2rem 2rem;margin:0}dt{color:var(--soft)}dd{margin:0 1rem 0 .3rem;font-variant-numeric:tabular-nums}dl div{display:flex}
svg{width:100%;height:auto}svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg .label{text-anchor:end}svg .small{font-size:10.5px;fill:var(--soft)}
svg .inside{fill:#fff;font-size:11px}svg .lane{fill:var(--lane)}svg .step{stroke:var(--soft);stroke-dasharray:3 3}
.key span{display:inline-block;margin-right:1.2rem}.key i{display:inline-block;width:.8em;height:.8em;margin-right:.4em;border-radius:2px}
code{overflow-wrap:anywhere}
"""


def render(
    title: str,
    description: str,
    facts: Mapping[str, str],
    verdicts: Sequence[Verdict],
    timeline: Timeline,
    end_us: int,
) -> str:
    """The whole page."""
    rows = "".join(
        f'<tr><td class="{"ok" if v.ok else "no"}">{"holds" if v.ok else "FAILED"}</td><td>{escape(v.name)}</td>'
        f"<td>{escape(v.measured)}</td><td>{escape(v.wanted)}</td></tr>"
        for v in verdicts
    )
    table = (
        f"<table><tr><th></th><th>expectation</th><th>measured</th><th>wanted</th></tr>{rows}</table>"
        if rows
        else ""
    )
    listed = "".join(
        f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in facts.items()
    )
    key = "".join(
        f'<span><i style="background:{colour}"></i>{name}</span>' for name, colour in PALETTE.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)} – Orrery</title><style>{_STYLE}</style>"
        f'<h1>{escape(title)}</h1><p class="what">{escape(description)}</p><dl>{listed}</dl>{table}'
        f'<div class="key">{key}</div>{draw(timeline, end_us)}</html>'
    )
