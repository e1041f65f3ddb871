"""Charts of a timeline as SVG text: rows over one common time axis, with tooltips, without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from sim.report.timeline import BUCKET_US, Timeline
from sim.series import Series

ZONES_NAMED = 8  # zones that can be named beside a row
LEFT, RIGHT, LANE, GAP = 210, 48, 64, 22  # the largest number of a row is shown to its right
# Names of steps: height and number of rows, width of a letter.
ROW, ROWS_MAX, LETTER = 15, 8, 5.6
PALETTE = {
    "ready": "#3d9a6a",
    "not ready": "#d9a23a",
    "unknown": "#c4483f",
    "running": "#3d9a6a",
    "pending": "#d9a23a",
    "terminating": "#c4483f",
    "failed": "#7d3c98",
    "succeeded": "#5d8aa8",
}
HOLDERS = ("#4878a8", "#c07830", "#5a9e5a", "#9a5a9e", "#8a8a3a")


@dataclass(frozen=True, slots=True)
class Axis:
    """Horizontal scale: virtual time to pixels."""

    end_us: int
    width: int

    def x(self, at_us: int) -> float:
        """The horizontal position of a time."""
        return round(LEFT + (self.width - LEFT - RIGHT) * at_us / max(1, self.end_us), 1)


def draw(timeline: Timeline, end_us: int, width: int = 1080) -> str:
    """The whole picture: nodes by zone, NoExecute taints, pods, deletions, leaders, write rate,
    steps.
    """
    axis = Axis(end_us, width)
    marks = _placed(timeline, axis)
    first_y = 18 + ROW * (1 + max([mark.row for mark in marks], default=0))
    lanes: list[tuple[str, str]] = []
    for zone in sorted(timeline.nodes):
        label = f"nodes, zone {zone}" if zone else "nodes"
        lanes.append((label, "{y}" + _stack(timeline.nodes[zone], ("ready", "not ready", "unknown"), axis)))
    tainted = {zone: series for zone, series in sorted(timeline.taints.items()) if series.points}
    if tainted:
        lanes.append(("NoExecute taints", _lines(tainted, axis)))
    if timeline.pods:
        order = ("running", "pending", "terminating", "failed", "succeeded")
        lanes.append(("pods", _stack(timeline.pods, order, axis)))
        lanes.append(("pods available", _available(timeline.available, axis)))
    if timeline.evictions:
        lanes.append(("pods deleted", _ticks(timeline.evictions, axis)))
    for lease in sorted({reign.lease for reign in timeline.reigns}):
        lanes.append((f"leads {lease}", _reigns(timeline, lease, axis)))
    lanes.append(("API requests a second", _rate(timeline.requests, axis)))
    height = first_y + len(lanes) * (LANE + GAP) + 30
    parts = [
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="timeline" xmlns="http://www.w3.org/2000/svg">'
    ]
    for index, (label, body) in enumerate(lanes):
        y = first_y + index * (LANE + GAP)
        parts.append(
            f'<g transform="translate(0 {y})"><text x="{LEFT - 10}" y="{LANE / 2 + 4}" class="label">{escape(label)}</text>'
        )
        parts.append(
            f'<rect x="{LEFT}" y="0" width="{axis.x(end_us) - LEFT}" height="{LANE}" class="lane"/>{body.replace("{y}", "")}</g>'
        )
    parts.append(_steps(marks, first_y, height - 30))
    parts.append(_scale(axis, height))
    parts.append("</svg>")
    return "".join(parts)


def _edges(series: Sequence[Series], end_us: int) -> list[int]:
    return sorted({at for one in series for at, _ in one.points if at <= end_us} | {0, end_us})


def _stack(series: Mapping[str, Series], order: Sequence[str], axis: Axis) -> str:
    """Stacked areas in the given order; the largest total takes the full height."""
    present = [(name, series[name]) for name in order if name in series]
    edges = _edges([one for _, one in present], axis.end_us)
    values = {name: _sample(one, edges) for name, one in present}
    totals = [sum(values[name][i] for name, _ in present) for i in range(len(edges))]
    top = max([*totals, 1])
    floor = [0] * len(edges)
    parts = []
    for name, _ in present:
        upper = [floor[i] + values[name][i] for i in range(len(edges))]
        if any(values[name]):
            shape = _area(edges, floor, upper, top, axis)
            peak = max(values[name])
            parts.append(
                f'<path d="{shape}" fill="{PALETTE[name]}"><title>{name}: at most {peak}, {values[name][-1]} at the end</title></path>'
            )
        floor = upper
    parts.append(f'<text x="{axis.x(axis.end_us) + 3}" y="10" class="small">{top}</text>')
    return "".join(parts)


def _available(series: Mapping[str, Series], axis: Axis) -> str:
    """The pods that serve in truth, and above them those that only seem to serve."""
    edges = _edges(list(series.values()), axis.end_us)
    truth, seen = _sample(series["truth"], edges), _sample(series["seen"], edges)
    top = max([*seen, 1])
    lost = max(there - live for there, live in zip(seen, truth, strict=True))
    below = _area(edges, [0] * len(edges), truth, top, axis)
    above = _area(edges, truth, seen, top, axis)
    return (
        f'<path d="{below}" fill="{PALETTE["running"]}"><title>available: at most {max(truth)}, {truth[-1]} at the end</title></path>'
        f'<path d="{above}" fill="{PALETTE["unknown"]}"><title>Ready for the control plane, on a dead machine: at most {lost}</title></path>'
        f'<text x="{axis.x(axis.end_us) + 3}" y="10" class="small">{top}</text>'
        f'<text x="{LEFT - 10}" y="{LANE / 2 + 18}" class="small" text-anchor="end">red: on dead machines</text>'
    )


def _sample(series: Series, edges: Sequence[int]) -> list[int]:
    """The values at each edge, in one pass."""
    values, index, value = [], 0, 0
    for edge in edges:
        while index < len(series.points) and series.points[index][0] <= edge:
            value = series.points[index][1]
            index += 1
        values.append(value)
    return values


def _area(edges: Sequence[int], low: Sequence[int], high: Sequence[int], top: int, axis: Axis) -> str:
    def y(value: int) -> float:
        return round(LANE * (1 - value / top), 1)

    ahead = [f"M{axis.x(edges[0])} {y(high[0])}"]
    for i in range(1, len(edges)):
        if high[i] != high[i - 1] or i == len(edges) - 1:
            ahead.append(f"H{axis.x(edges[i])}V{y(high[i])}")
    back = [f"V{y(low[-1])}"]
    for i in range(len(edges) - 1, 0, -1):
        if low[i - 1] != low[i] or i == 1:
            back.append(f"V{y(low[i])}H{axis.x(edges[i])}V{y(low[i - 1])}")
    return "".join(ahead + back) + f"H{axis.x(edges[0])}Z"


def _lines(series: Mapping[str, Series], axis: Axis) -> str:
    top = max([value for one in series.values() for _, value in one.points] + [1])
    parts = []
    for index, (zone, one) in enumerate(series.items()):
        path = [f"M{LEFT} {LANE}"]
        for at_us, value in one.points:
            path.append(f"H{axis.x(at_us)}V{round(LANE * (1 - value / top), 1)}")
        path.append(f"H{axis.x(axis.end_us)}")
        colour = HOLDERS[index % len(HOLDERS)]
        parts.append(
            f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="1.6"><title>zone {escape(zone)}</title></path>'
        )
    parts.append(f'<text x="{axis.x(axis.end_us) + 3}" y="10" class="small">{top}</text>')
    if len(series) > 1:
        parts.append(_key(list(series)[:ZONES_NAMED]))
    return "".join(parts)


def _key(zones: Sequence[str]) -> str:
    """The legend below the name of a chart row: which line belongs to which zone."""
    names = " ".join(
        f'<tspan style="fill:{HOLDERS[index % len(HOLDERS)]}">{escape(zone or "no zone")}</tspan>'
        for index, zone in enumerate(zones)
    )
    return f'<text x="{LEFT - 10}" y="{LANE / 2 + 18}" class="small" text-anchor="end">{names}</text>'


def _ticks(events: Sequence[tuple[int, str]], axis: Axis) -> str:
    """One tick for each pixel column with events; its height shows their number."""
    columns: dict[float, int] = {}
    for at_us, _ in events:
        x = round(axis.x(at_us))
        columns[x] = columns.get(x, 0) + 1
    top = max(columns.values())
    bars = "".join(
        f'<rect x="{x}" y="{round(LANE * (1 - n / top), 1)}" width="1.5" height="{round(LANE * n / top, 1)}" fill="#c4483f"><title>{n}</title></rect>'
        for x, n in columns.items()
    )
    return bars + f'<text x="{axis.x(axis.end_us) + 3}" y="10" class="small">{top}</text>'


def _reigns(timeline: Timeline, lease: str, axis: Axis) -> str:
    reigns = [reign for reign in timeline.reigns if reign.lease == lease]
    colours: dict[str, str] = {}
    parts = []
    for index, reign in enumerate(reigns):
        end_us = reigns[index + 1].from_us if index + 1 < len(reigns) else axis.end_us
        if not reign.holder:
            continue
        colour = colours.setdefault(reign.holder, HOLDERS[len(colours) % len(HOLDERS)])
        x, wide = axis.x(reign.from_us), max(1.0, axis.x(end_us) - axis.x(reign.from_us))
        parts.append(
            f'<rect x="{x}" y="18" width="{wide:.1f}" height="28" fill="{colour}"><title>{escape(reign.holder)} from {reign.from_us / 1e6:.1f} s</title></rect>'
        )
        if wide > 90:
            parts.append(
                f'<text x="{x + 5}" y="36" class="inside">{escape(reign.holder.split("_")[0])}</text>'
            )
    return "".join(parts)


def _rate(requests: Mapping[int, int], axis: Axis) -> str:
    if not requests:
        return ""
    top = max(1, *requests.values())
    seconds = BUCKET_US / 1e6
    path = [f"M{LEFT} {LANE}"]
    for bucket in range(axis.end_us // BUCKET_US + 1):
        height = round(LANE * (1 - requests.get(bucket, 0) / top), 1)
        path.append(f"V{height}H{axis.x(min(axis.end_us, (bucket + 1) * BUCKET_US))}")
    path.append(f"V{LANE}Z")
    peak = f'<text x="{axis.x(axis.end_us) + 3}" y="10" class="small">{top / seconds:.0f}</text>'
    return f'<path d="{"".join(path)}" fill="#8fa3b8"/>{peak}'


@dataclass(frozen=True, slots=True)
class Mark:
    """A step over the chart rows.

    row: of its name, from below, so that no two names overlap (-1: not shown)
    until: end of its fault; left: where its name begins
    """

    name: str
    title: str
    row: int
    x: float
    until: float
    left: float


def _placed(timeline: Timeline, axis: Axis) -> list[Mark]:
    """The position of each step. A mark of several occurrences shows their actions."""
    marks = []
    free = [0.0] * ROWS_MAX  # start of the free space in each row
    for at_us, step, kind in timeline.steps:
        name = f"{step} {kind}" if "/" in step else step
        x = until = axis.x(at_us)
        title = f"{step}: {kind} at {at_us / 1e6:.1f} s"
        if step in timeline.ends:
            until = axis.x(timeline.ends[step])
            title += f" to {timeline.ends[step] / 1e6:.1f} s"
        wide = len(name) * LETTER
        left = max(0.0, min(x + 3, axis.width - wide))
        row = next((row for row in range(ROWS_MAX) if free[row] <= min(left, x)), -1)
        if row >= 0:
            free[row] = max(left + wide + 6, until + 4)
        marks.append(Mark(name, title, row, x, until, left))
    return marks


def _steps(marks: Sequence[Mark], top: int, bottom: int) -> str:
    """A vertical line through all rows for each step, and a horizontal one for its fault."""
    lines, names = [], []  # names are drawn over the lines of other steps
    for mark in marks:
        y = top - 10 - ROW * max(0, mark.row)
        title = f"<title>{escape(mark.title)}</title>"
        lines.append(f'<path d="M{mark.x} {y}V{bottom}" class="step">{title}</path>')
        if mark.until > mark.x:
            lines.append(f'<path d="M{mark.x} {y}H{mark.until}" class="lasts">{title}</path>')
        if mark.row >= 0:
            names.append(
                f'<text x="{mark.left:.1f}" y="{y - 3}" class="small over">{escape(mark.name)}{title}</text>'
            )
    return "".join(lines + names)


def _scale(axis: Axis, height: int) -> str:
    """Labelled ticks at round times, about ten of them."""
    rounds = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
    span_s = axis.end_us / 1e6
    every_s = next((n for n in rounds if span_s / n <= 12), rounds[-1])
    parts = []
    for number in range(int(span_s // every_s) + 1):
        x = axis.x(int(number * every_s * 1e6))
        minutes, seconds = divmod(number * every_s, 60)
        text = (
            f"{minutes // 60}h{minutes % 60:02d}"
            if minutes >= 60
            else f"{minutes}m{f'{seconds:02d}' if seconds else ''}"
        )
        parts.append(f'<line x1="{x}" y1="{height - 30}" x2="{x}" y2="{height - 25}" class="step"/>')
        parts.append(f'<text x="{x}" y="{height - 12}" class="small" text-anchor="middle">{text}</text>')
    return "".join(parts)
