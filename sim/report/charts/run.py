"""The picture of a run: rows over one time axis that can be enlarged together.

Turns a timeline into a specification: steps, nodes by zone, NoExecute taints, pods, availability,
failed requests of clients, deletions, leaders and the rate of API requests, each with its values
under the pointer. Each workload has a row of its pods. Of more than ROWS_MAX,
those with the most trouble have one. One row more shows any of the others, which the reader
chooses.

Holds: the lowest and the highest value of each series are in the picture, also where a long run has
more changes than a picture can show.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from io import StringIO

from sim.report.charts.chart import Chart, Spec
from sim.report.palette import LEADER, LEAVING, PLAIN, STATES, TAINT
from sim.report.timeline import ANSWERED, BUCKET_US, Timeline
from sim.report.workloads import WHY_PENDING
from sim.series import Series
from sim.units import SECOND

NODES = ("ready", "not ready", "unknown")
PODS = ("running", *WHY_PENDING, "pending", "terminating", "failed", "succeeded")
WELL = ("running", "succeeded")
# Instants of a row; parts of the time, each with its extreme values.  Fewer parts have the rows of
# workloads, and those that can be chosen.
INSTANTS_MAX, CELLS = 1500, 400
ROW_CELLS, CHOICE_CELLS = 100, 20
ROWS_MAX, CHOICES_MAX = 8, 100  # workloads, or Services, with a row; workloads that can be chosen
CHOICE = "workload"  # the parameter of the choice
BARS = 240  # parts of the time in which deletions are counted
LINES_MAX = 16  # named lines of steps
ROW, LINE = 56, 22  # height of a row, and of one named line
TITLE_OF_STRIP = "drag here to enlarge a part of the time; double click: all"
STEP = {"strokeDash": [3, 3]}
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
_OWN_SCALES = {"scale": {"color": "independent", "strokeDash": "independent"}}
# A time in milliseconds: its hours, minutes, and the seconds in this format.
_CLOCK = "({0}>=3600000?floor({0}/3600000)+'h':'')+floor({0}/60000)%60+'m'+format({0}/1000%60,'{1}')+'s'"


def run_chart(timeline: Timeline, end_us: int) -> Chart:
    """The picture of a run."""
    end = max(1, end_us // 1000)
    troubled, others = _by_trouble(timeline, end_us)
    rows = [_with_axis(row) for row in _rows(timeline, troubled, end_us, end) if row is not None]
    datasets = {"steps": _steps(timeline, end)}
    common = {"datasets": datasets, "resolve": _OWN_SCALES}
    choice = [_zoomed(_with_axis(_chosen(timeline, others, end_us)))] if others else []
    zoomed = [*(_zoomed(row) for row in rows), *choice]
    chooses = {"params": [_choice(others, len(timeline.workloads))]} if others else {}
    return Chart(
        {**chooses, **common, "vconcat": [*zoomed, _strip(end)]}, "what happened over the time of the run",
        {**common, "vconcat": rows},
    )  # fmt: skip


def _rows(timeline: Timeline, workloads: Sequence[str], end_us: int, end: int) -> list[Spec | None]:
    steps = _steps(timeline, end)
    rows: list[Spec | None] = [_lines("steps and faults", steps, end, shared=True) if steps else None]
    for index, zone in enumerate(sorted(timeline.nodes)):
        title = f"nodes, zone {zone}" if zone else "nodes"
        rows.append(_areas(title, timeline.nodes[zone], NODES, end_us, index == 0))
    rows += [_taints(timeline, end_us), _areas("pods", timeline.pods, PODS, end_us, True)]
    for name in workloads:
        rows.append(_areas(name, timeline.workloads[name], PODS, end_us, False, ROW_CELLS))
    rows.append(_available(timeline, end_us))
    rows += [_failed(service, timeline, end_us) for service in _by_failures(timeline.clients)]
    rows.append(_deleted(timeline, end))
    rows += [_leaders(timeline, lease, end) for lease in sorted({one.lease for one in timeline.reigns})]
    rows.append(_requests(timeline, end))
    return rows


# --- the parts of a row ---------------------------------------------------------------------------


def _values(columns: Mapping[str, Sequence[float]]) -> Spec:
    """Numbers as CSV, a third of the size of JSON."""
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return {"values": text.getvalue(), "format": {"type": "csv", "parse": dict.fromkeys(columns, "number")}}


def _x(end: int) -> Spec:
    """The time axis without labels; `_with_axis` adds them."""
    axis = {"title": None, "labels": False, "ticks": False, "domain": False}
    scale = {"type": "utc", "domain": [0, end], "nice": False}
    return {"field": "t", "type": "temporal", "scale": scale, "axis": axis}


def _y(field: str, top: float, number: str = "d") -> Spec:
    axis = {"title": None, "values": [0, top], "format": number, "grid": False, "domain": False}
    return {
        "field": field, "type": "quantitative", "scale": {"domain": [0, top], "nice": False}, "axis": axis,
    }  # fmt: skip


def _row(title: str, end: int, layers: Sequence[Spec], height: int | Spec = ROW) -> Spec:
    """A row of layers, with the steps across it; data that all its layers share is written once."""
    shared: Spec = {}
    if len(layers) > 1 and all(layer["data"] == layers[0]["data"] for layer in layers):
        shared = {"data": layers[0]["data"]}
        layers = [{key: value for key, value in layer.items() if key != "data"} for layer in layers]
    steps = {
        "data": {"name": "steps"},
        "mark": {"type": "rule", "clip": True, **STEP},
        "encoding": {"tooltip": [{"field": "what", "title": "step"}]},
    }
    return {
        **shared,
        "title": title,
        "height": height,
        "encoding": {"x": _x(end)},
        "layer": [layers[0], steps, *layers[1:]],
    }


def _hover(data: Spec, fields: Mapping[str, str], name: str, only: Sequence[Spec] = ()) -> Spec:
    """The values of the span of time under the pointer, which is made brighter.

    fields: with their titles
    only: which of the data
    """
    tooltip = [{"field": field, "type": "nominal", "title": field} for field in ("from", "to")]
    tooltip += [{"field": field, "type": "quantitative", "title": title} for field, title in fields.items()]
    chosen = {"condition": {"param": name, "empty": False, "value": 0.3}, "value": 0}
    select = {"type": "point", "on": "pointerover", "fields": ["t"], "clear": "pointerout"}
    return {
        "data": data,
        "transform": [
            *only,
            {"calculate": _CLOCK.format("datum.t", "05.2f"), "as": "from"},
            {"calculate": _CLOCK.format("datum.until", "05.2f"), "as": "to"},
        ],
        "params": [{"name": name, "select": select}],
        "mark": {"type": "rect", "color": "#ffffff", "clip": True},
        "encoding": {"x2": {"field": "until"}, "opacity": chosen, "tooltip": tooltip},
    }


def _spans(instants: Sequence[int], columns: Mapping[str, Sequence[float]]) -> Spec:
    """The values from each instant at which one changes until the next, as data."""
    return _values(_span_columns(instants, columns))


def _span_columns(
    instants: Sequence[int], columns: Mapping[str, Sequence[float]]
) -> dict[str, list[float]]:  # fmt: skip
    """The values from each instant at which one changes until the next; of the changes within one
    millisecond the last.  An area is stacked over all rows of its instant.
    """
    rows = list(zip(*columns.values(), strict=True))
    last = len(rows) - 1
    changes = [index for index in range(last + 1) if index in (0, last) or rows[index] != rows[index - 1]]
    kept = [*{instants[index] // 1000: index for index in changes}.values()]
    starts: list[float] = [instants[index] // 1000 for index in kept]
    values = {name: [column[index] for index in kept] for name, column in columns.items()}
    return {"t": starts, "until": [*starts[1:], *starts[-1:]], **values}


def _id(title: str) -> str:
    """A name for a parameter: letters and digits only."""
    return "at_" + "".join(
        letter if letter.isascii() and letter.isalnum() else f"_{ord(letter)}_" for letter in title
    )


def _with_axis(row: Spec) -> Spec:
    """A row with the times below it."""
    x = row["encoding"]["x"]
    axis = {
        **x["axis"], "labels": True, "ticks": True, "labelOverlap": "greedy", "labelSeparation": 6,
        "labelFlush": False, "labelExpr": f"replace({_CLOCK.format('toNumber(datum.value)', '02d')}, 'm00s', 'm')",
    }  # fmt: skip
    return {**row, "encoding": {**row["encoding"], "x": {**x, "axis": axis}}}


def _zoomed(row: Spec) -> Spec:
    """A row that shows the part of the time that is chosen in the strip."""
    x = row["encoding"]["x"]
    scale = {"type": "utc", "domain": {"param": "zoom", "encoding": "x"}, "nice": False}
    everything = {
        "data": {"values": [{"t": at} for at in x["scale"]["domain"]]},
        "mark": {"type": "point", "opacity": 0, "clip": True},
    }
    return {
        **row,
        "encoding": {**row["encoding"], "x": {**x, "scale": scale}},
        "layer": [everything, *row["layer"]],
    }


def _strip(end: int) -> Spec:
    """The strip that chooses the part of the time to show."""
    return {
        "title": {"text": TITLE_OF_STRIP, "fontSize": 10.5, "fontWeight": 400},
        "height": 26,
        "view": {"fill": PLAIN, "fillOpacity": 0.3},
        "data": {"name": "steps"},
        "params": [{"name": "zoom", "select": {"type": "interval", "encodings": ["x"]}}],
        "mark": {"type": "rule", **STEP},
        "encoding": {"x": _x(end)},
    }


# --- series ---------------------------------------------------------------------------------------


def _instants(series: Sequence[Series], end_us: int, cells: int = CELLS) -> list[int]:
    """The instants at which a series changes; of too many, those of its extreme values.

    cells: parts of the time, each with its extreme values
    """
    instants = sorted({at for one in series for at, _ in one.points if at <= end_us} | {0, end_us})
    if len(instants) * CELLS <= INSTANTS_MAX * cells:
        return instants
    kept = {0, end_us}
    for one in series:
        extremes: dict[int, tuple[tuple[int, int], tuple[int, int]]] = {}
        for at, value in one.points:
            if at <= end_us:
                found = value, at
                low, high = extremes.get(at * cells // end_us, (found, found))
                extremes[at * cells // end_us] = min(low, found), max(high, found)
        kept.update(at for pair in extremes.values() for _, at in pair)
    return sorted(kept)


def sampled(series: Series, instants: Sequence[int]) -> list[int]:
    """The values of a series at increasing instants, in one pass."""
    values, index, value = [], 0, 0
    for instant in instants:
        while index < len(series.points) and series.points[index][0] <= instant:
            value = series.points[index][1]
            index += 1
        values.append(value)
    return values


def _areas(
    title: str, series: Mapping[str, Series], order: Sequence[str], end_us: int, legend: bool,
    cells: int = CELLS,
) -> Spec | None:  # fmt: skip
    """Areas of states on each other; the largest total takes the full height."""
    instants, columns = _columns(series, order, end_us, cells)
    return _stack(title, instants, {name: values for name, values in columns.items() if any(values)}, legend)


def _columns(
    series: Mapping[str, Series], order: Sequence[str], end_us: int, cells: int
) -> tuple[list[int], dict[str, list[int]]]:
    """The instants of states, and the values of each state at them."""
    present = [name for name in order if name in series]
    instants = _instants([series[name] for name in present], end_us, cells)
    return instants, {name: sampled(series[name], instants) for name in present}


def _stack(
    title: str, instants: Sequence[int], columns: Mapping[str, Sequence[int]], legend: bool
) -> Spec | None:
    if not columns:
        return None
    names, end = list(columns), max(1, instants[-1] // 1000)
    top = max(1, *(sum(values) for values in zip(*columns.values(), strict=True)))
    data = _spans(instants, columns)
    areas = _area(data, names, _y("n", top), legend)
    return _row(title, end, [areas, _hover(data, {name: name for name in names}, _id(title))])


def _area(data: Spec, names: Sequence[str], y: Spec, legend: bool, only: Sequence[Spec] = ()) -> Spec:
    """The layer of areas on each other.  only: which of the data"""
    color = {
        "field": "state", "type": "nominal", "legend": {} if legend else None,
        "scale": {"domain": names, "range": [STATES[name] for name in names]},
    }  # fmt: skip
    return {
        "data": data,
        "transform": [
            *only,
            {"fold": names, "as": ["state", "n"]},
            {"calculate": f"indexof({json.dumps(names)}, datum.state)", "as": "rank"},
        ],
        "mark": {"type": "area", "interpolate": "step-after", "clip": True},
        "encoding": {"y": {**y, "stack": "zero"}, "color": color, "order": {"field": "rank"}},
    }


# --- workloads ------------------------------------------------------------------------------------


def _by_trouble(timeline: Timeline, end_us: int) -> tuple[list[str], list[str]]:
    """The workloads that have a row, and those that can be chosen, both in the order of names.

    First come those with the longest time of pods that were pending, terminating or failed. A
    single workload has no row, for it would repeat the row of all pods.
    """
    if len(timeline.workloads) < 2:
        return [], []

    def unwell_us(name: str) -> int:
        return sum(
            (until - at) * value
            for state, series in timeline.workloads[name].items() if state not in WELL
            for at, until, value in series.pieces(0, end_us)
        )  # fmt: skip

    ordered = sorted(timeline.workloads, key=lambda name: (-unwell_us(name), name))
    return sorted(ordered[:ROWS_MAX]), sorted(ordered[ROWS_MAX : ROWS_MAX + CHOICES_MAX])


def _choice(names: Sequence[str], number: int) -> Spec:
    """The parameter by which a reader chooses a workload.  number: of all workloads"""
    label = f"show one more of {number} workloads: "
    return {
        "name": CHOICE,
        "value": names[0],
        "bind": {"input": "select", "options": list(names), "name": label},
    }


def _chosen(timeline: Timeline, workloads: Sequence[str], end_us: int) -> Spec:
    """The row of the workload that is chosen; its largest total takes the full height."""
    names = [name for name in PODS if any(name in timeline.workloads[one] for one in workloads)]
    table: dict[str, list[float]] = {name: [] for name in ("of", "t", "until", *names)}
    for index, one in enumerate(workloads):
        instants, columns = _columns(timeline.workloads[one], names, end_us, CHOICE_CELLS)
        spans = _span_columns(instants, columns)
        table["of"] += [index] * len(spans["t"])
        for name in ("t", "until", *names):
            table[name] += spans.get(name) or [0] * len(spans["t"])
    only = [{"filter": f"datum.of === indexof({json.dumps(list(workloads))}, {CHOICE})"}]
    y = _y("n", 1)
    y = {**y, "scale": {"zero": True, "nice": False}, "axis": {**y["axis"], "values": None, "tickCount": 1}}
    data = _values(table)
    areas = _area(data, names, y, False, only)
    hover = _hover(data, {name: name for name in names}, "at_chosen_workload", only)
    return {**_row("", max(1, end_us // 1000), [areas, hover]), "title": {"text": {"expr": CHOICE}}}


def _available(timeline: Timeline, end_us: int) -> Spec | None:
    """The pods that serve in truth, and on them those that only seem to serve."""
    both = timeline.available
    if not timeline.pods:
        return None
    instants = _instants(list(both.values()), end_us)
    truth, seen = sampled(both["truth"], instants), sampled(both["seen"], instants)
    lost = [there - live for there, live in zip(seen, truth, strict=True)]
    columns = {"available": truth, **({"on dead machines": lost} if any(lost) else {})}
    return _stack("pods available", instants, columns, True)


def _taints(timeline: Timeline, end_us: int) -> Spec | None:
    """A line for each zone that had NoExecute taints."""
    tainted = {zone: one for zone, one in sorted(timeline.taints.items()) if one.points}
    if not tainted:
        return None
    instants = _instants(list(tainted.values()), end_us)
    # Names of zones may hold any character, names of columns may not.
    titles = {f"z{index}": f"zone {zone}" if zone else "no zone" for index, zone in enumerate(tainted)}
    columns = dict(zip(titles, (sampled(one, instants) for one in tainted.values()), strict=True))
    top = max(1, *(max(values) for values in columns.values()))
    data = _spans(instants, columns)
    legend = {"labelExpr": f"({json.dumps(titles)})[datum.value]", "symbolType": "stroke", "symbolStrokeWidth": 2,
              "symbolSize": 300} if len(titles) > 1 else None  # fmt: skip
    ranged = {"domain": list(titles), "range": [DASHES[index % len(DASHES)] for index in range(len(titles))]}
    lines = {
        "data": data,
        "transform": [{"fold": list(titles), "as": ["zone", "n"]}],
        "mark": {
            "type": "line",
            "interpolate": "step-after",
            "clip": True,
            "stroke": TAINT,
            "strokeWidth": 1.8,
        },
        "encoding": {
            "y": _y("n", top),
            "strokeDash": {"field": "zone", "type": "nominal", "scale": ranged, "legend": legend},
        },
    }
    end = max(1, end_us // 1000)
    return _row("nodes with a NoExecute taint", end, [lines, _hover(data, titles, "at_taints")])


def _bars(
    title: str, starts: Sequence[int], width: int, counts: Sequence[float], color: str, of: str, end: int
) -> Spec:
    """A bar for each part of the time."""
    top = max(1, *counts) if len(counts) else 1
    until = [min(end, start + width) for start in starts]
    data = _values({"t": starts, "until": until, "n": counts})
    tooltip = [
        {"field": "at", "type": "nominal", "title": "from"},
        {"field": "n", "type": "quantitative", "title": of, "format": ".4~g"},
    ]
    bars = {
        "data": data,
        "transform": [{"calculate": _CLOCK.format("datum.t", "05.2f"), "as": "at"}],
        "mark": {"type": "rect", "color": color, "clip": True},
        "encoding": {
            "x2": {"field": "until"},
            "y": _y("n", top, "~s"),
            "y2": {"datum": 0},
            "tooltip": tooltip,
        },
    }
    return _row(title, end, [bars])


def _deleted(timeline: Timeline, end: int) -> Spec | None:
    if not timeline.evictions:
        return None
    width = max(1000, -(-end // BARS))
    counts: dict[int, int] = {}
    for at_us, _ in timeline.evictions:
        counts[at_us // 1000 // width] = counts.get(at_us // 1000 // width, 0) + 1
    starts = [cell * width for cell in sorted(counts)]
    numbers = [counts[cell] for cell in sorted(counts)]
    return _bars(
        f"pods marked for deletion in {width / 1000:.3g} s", starts, width, numbers, LEAVING, "pods", end
    )


def _failures(outcomes: Mapping[str, Counter[int]]) -> int:
    """How many requests of clients failed."""
    return sum(seconds.total() for outcome, seconds in outcomes.items() if outcome != ANSWERED)


def _by_failures(clients: Mapping[str, Mapping[str, Counter[int]]]) -> list[str]:
    """The Services with requests of clients; of too many, those with the most that failed."""
    return sorted(sorted(clients, key=lambda name: (-_failures(clients[name]), name))[:ROWS_MAX])


def _failed(service: str, timeline: Timeline, end_us: int) -> Spec:
    """Areas of the failed requests to a Service, by outcome; the tooltip has those answered too."""
    outcomes = timeline.clients[service]
    width = max(1, -(-end_us // (BARS * SECOND)))  # in seconds
    starts = [*range(0, -(-end_us // SECOND), width)] or [0]
    columns: dict[str, list[float]] = {}
    for name in sorted(outcomes):
        counts = [sum(outcomes[name][start + one] for one in range(width)) for start in starts]
        columns[name] = [float(f"{count / width:.3g}") for count in (*counts, counts[-1])]
    instants = [*(start * SECOND for start in starts), max(1, end_us)]
    data, names = _spans(instants, columns), [name for name in columns if name != ANSWERED]
    layers = [_hover(data, {name: f"{name}, a second" for name in columns}, _id(f"requests to {service}"))]
    if names:
        top = max(sum(values) for values in zip(*(columns[name] for name in names), strict=True))
        layers.insert(0, _area(data, names, _y("n", top, ".3~s"), True))
    failed, total = _failures(outcomes), sum(seconds.total() for seconds in outcomes.values())
    title = f"failed requests to {service} a second; in all {failed:,} of {total:,}"
    return _row(title, max(1, end_us // 1000), layers)


def _requests(timeline: Timeline, end: int) -> Spec:
    width, buckets = BUCKET_US // 1000, sorted(timeline.requests)
    rates = [timeline.requests[bucket] / (BUCKET_US / 1e6) for bucket in buckets]
    return _bars(
        "API requests a second", [bucket * width for bucket in buckets], width, rates, PLAIN, "a second", end
    )


# --- lines with names -----------------------------------------------------------------------------


def _steps(timeline: Timeline, end: int) -> list[Spec]:
    """Each occurrence of a step, under the name of the step."""
    found = []
    for at_us, name, kind in timeline.steps:
        until_us = timeline.ends.get(name)
        what = f"{name}: {kind}"
        if until_us is not None:
            what += f", for {(until_us - at_us) / 1e6:.1f} s"
        until = at_us // 1000 if until_us is None else min(end, until_us // 1000)
        found.append({"t": at_us // 1000, "until": until, "line": name.partition("/")[0], "what": what})
    lines = list(dict.fromkeys(one["line"] for one in found))
    if len(lines) > LINES_MAX:
        rest = f"{len(lines) - LINES_MAX + 1} steps more"
        for one in found:
            if one["line"] not in lines[: LINES_MAX - 1]:
                one["line"] = rest
    return found


def _leaders(timeline: Timeline, lease: str, end: int) -> Spec:
    reigns = [one for one in timeline.reigns if one.lease == lease]
    found = []
    for index, one in enumerate(reigns):
        until = reigns[index + 1].from_us // 1000 if index + 1 < len(reigns) else end
        if one.holder:
            found.append(
                {
                    "t": one.from_us // 1000,
                    "until": until,
                    "line": one.holder.partition("_")[0],
                    "what": one.holder,
                }
            )
    return _lines(f"leads {lease}", found, end)


def _lines(title: str, found: Sequence[Spec], end: int, *, shared: bool = False) -> Spec:
    """A line for each name, with a bar for each span of time; the names are above their bars.

    shared: True if the spans are the steps, which all rows have
    """
    names = list(dict.fromkeys(one["line"] for one in found))
    y = {
        "field": "line", "type": "nominal", "axis": None,
        "scale": {"domain": names, "paddingInner": 0, "paddingOuter": 0},
    }  # fmt: skip
    data: Spec = {"name": "steps"} if shared else {"values": list(found)}
    tooltip = [{"field": "what", "title": title.partition(" ")[0]}]
    look = {"color": PLAIN if shared else LEADER, "clip": True, "yOffset": 6}
    bars = {
        "data": data,
        "mark": {"type": "bar", "height": 6, **look},
        "encoding": {"x2": {"field": "until"}, "y": y, "tooltip": tooltip},
    }
    starts = {
        "data": data,
        "mark": {"type": "tick", "thickness": 2, "height": 10, **look},
        "encoding": {"y": y, "tooltip": tooltip},
    }
    text = {
        "data": {"values": [{"line": name} for name in names]},
        "mark": {"type": "text", "align": "left", "yOffset": -4, "limit": 330},
        "encoding": {"x": {"value": 2}, "y": y, "text": {"field": "line"}},
    }
    return _row(title, end, [bars, starts, text], {"step": LINE})
