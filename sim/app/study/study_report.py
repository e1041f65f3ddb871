"""A study as files: the HTML page with every distribution, and JUnit XML for a build server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree

from sim.app.inspect.traces import row
from sim.app.run import Result
from sim.app.study.summary import FAILURES_SHOWN, Finding, Quantity, Study, failures
from sim.app.study.terminal import repeat_command
from sim.files import write_text
from sim.report.blocks import CAPTION_OF_NUMBERS
from sim.report.charts.chart import Chart
from sim.report.charts.distribution import Pair, histogram_chart, pairs_chart
from sim.report.failure import Failure
from sim.report.page import page, table
from sim.scenario.plan.plan import Plan
from sim.statistics import number

CAPTION = (
    f"{CAPTION_OF_NUMBERS} 95 %: half the width of the mean's confidence interval, from how the runs differ."
)


def write_study(file: Path, plan: Plan, study: Study, settings: Sequence[str]) -> None:
    """Write the HTML page of a study."""
    facts = {
        "seeds": f"{len(study.outcomes)} of {study.wanted_seeds}",
        "everything holds in": f"{study.held}",
        "nodes": str(len(plan.cluster.nodes)),
        "virtual time each": f"{plan.duration_us / 1e6:.0f} s",
    }
    if study.refused:
        facts["refused"] = study.refused
    write_text(file, page(plan.name, plan.description, facts, study_body(plan, study, settings)))


def study_body(
    plan: Plan, study: Study, settings: Sequence[str], show: Callable[[Chart], str] = Chart.html
) -> str:
    """The verdicts, numbers, distributions and failures of a study as HTML.

    show: makes HTML of a chart
    """
    rows = [_row(finding) for finding in study.findings]
    body = table(("", "expectation", "seeds", "measured", "wanted"), rows)
    quantities = [one for finding in study.findings for one in finding.quantities if one.sought]
    body += _numbers(quantities)
    for one in quantities:
        summary = one.summary
        if summary is None:
            continue
        histogram = histogram_chart(one.name, one.values, summary, one.wanted, one.unit)
        body += f"<h2>{escape(one.name)}</h2>{show(histogram)}"
        if one.like is not None:
            pair = Pair(one.name, one.like.values, one.values, f"{len(one.like.values)} values there")
            body += show(pairs_chart([pair], one.like.name, one.unit))
    found = failures(study)
    if found:
        body += "<h2>Failed</h2>" + table(
            ("seed", "what", "run it again"),
            [[str(one.seed), text, repeat_command(plan, one.seed, settings)] for one, text in found],
        )
    return body


def _row(finding: Finding) -> list[str]:
    mark, measured, wanted = "holds" if finding.ok else "FAILED", "", finding.wanted
    if finding.judged is not None:
        measured, wanted = finding.judged.measured, finding.judged.wanted
        if finding.judged.ok is None:
            mark = "not judged"
    return [mark, finding.name, f"{finding.held}/{finding.runs}", measured, wanted]


def _numbers(quantities: Sequence[Quantity]) -> str:
    rows = []
    for one in quantities:
        summary = one.summary
        if summary is None:
            rows.append([one.name, "0", str(one.missing), *["never"] * 5, "", ""])
            continue
        numbers = (summary.low, *(value for _, value in summary.quantiles), summary.high, summary.mean)
        half = summary.half_width
        confidence = "" if half is None else f"± {number(half)}"
        counts = [str(summary.count), str(summary.missing)]
        rows.append([one.name, *counts, *map(number, numbers), confidence])
    columns = ("measured", "n", "never", "min", "p50", "p90", "p99", "max", "mean", "95 %")
    return table(columns, rows, numbers=9) + (f'<p class="soft">{CAPTION}</p>' if rows else "")


# --- JUnit ----------------------------------------------------------------------------------------


def junit_of_result(plan: Plan, result: Result, failed: Sequence[Failure] = ()) -> str:
    """One test case for each expectation of a run; a passed one has its measured value as output, a
    failed one its objects, its instant and its last causes.
    """
    shown = [(one, f"measured {one.measured}, wanted {one.wanted}") for one in result.verdicts]
    why = {failure.name: _why(failure) for failure in failed}
    cases = [(one.name, None if one.ok else "\n".join([text, *why.get(one.name, ())])) for one, text in shown]
    held = {one.name: text for one, text in shown if one.ok}
    already = tuple(one.name for one in result.verdicts if one.held_already)
    return _junit(plan.name, cases, result.wall_s, {"seed": str(result.seed)}, held=held, already=already)


def _why(failure: Failure) -> list[str]:
    """The lines that explain a failed expectation, after what was measured and wanted."""
    facts = [f"{label}: {text}" for label, text in failure.facts[2:]]
    causes = [row(line) for line in failure.last_causes]
    if failure.left_out:
        causes.insert(1, f"{'…':>12}  {failure.left_out} more in between")
    return [*facts, *causes]


def junit_of_study(plan: Plan, study: Study, settings: Sequence[str]) -> str:
    """One test case for each expectation over all seeds, and one for runs that ended with an
    exception.
    """
    cases: list[tuple[str, str | None]] = []
    skipped: dict[str, str] = {}
    for index, finding in enumerate(study.findings):
        cases.append((finding.name, None if finding.ok else _failure(plan, study, index, settings)))
        if finding.ok and finding.judged is not None and finding.judged.ok is None:
            skipped[finding.name] = finding.judged.measured
    if study.errors:
        lines = [f"{len(study.errors)} of {len(study.outcomes)} did not"]
        for one in study.errors[:FAILURES_SHOWN]:
            lines += [f"seed {one.seed}: {one.error}", f"    {repeat_command(plan, one.seed, settings)}"]
        cases.append(("every run ends", "\n".join(lines)))
    took_s = sum(one.wall_s for one in study.outcomes)
    return _junit(plan.name, cases, took_s, {"seeds": str(len(study.outcomes))}, skipped)


def _failure(plan: Plan, study: Study, index: int, settings: Sequence[str]) -> str:
    finding = study.findings[index]
    lines = [f"holds in {finding.held} of {finding.runs} seeds"]
    if finding.judged is not None and finding.judged.ok is False:
        measure = f"measured {finding.judged.measured}, wanted {finding.judged.wanted}"
        # A build server shows the first line.
        lines.insert(0 if finding.held == finding.runs else 1, measure)
    failed = [one for one in study.outcomes if not one.error and not one.expectations[index].ok]
    for one in failed[:FAILURES_SHOWN] if finding.strict else ():
        found = one.expectations[index]
        lines.append(f"seed {one.seed}: measured {found.measured}, wanted {found.wanted}")
        lines.append(f"    {repeat_command(plan, one.seed, settings)}")
    return "\n".join(lines)


def _junit(
    name: str,
    cases: Sequence[tuple[str, str | None]],
    took_s: float,
    properties: Mapping[str, str],
    skipped: Mapping[str, str] = MappingProxyType({}),
    held: Mapping[str, str] = MappingProxyType({}),
    already: Sequence[str] = (),
) -> str:
    """JUnit XML.

    skipped: cases that were not judged, and why
    held: what was measured in cases that hold
    already: cases that held when their window opened
    """
    failed = sum(failure is not None for _, failure in cases)
    counts = {
        "tests": str(len(cases)),
        "failures": str(failed),
        "errors": "0",
        "skipped": str(len(skipped)),
        "time": f"{took_s:.3f}",
    }
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": name, **counts})
    listed = ElementTree.SubElement(suite, "properties")
    for key, value in properties.items():
        ElementTree.SubElement(listed, "property", {"name": key, "value": value})
    for case, failure in cases:
        element = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": case, "time": "0"})
        if case in already:
            own = ElementTree.SubElement(element, "properties")
            ElementTree.SubElement(own, "property", {"name": "held_already", "value": "true"})
        if case in skipped:
            ElementTree.SubElement(element, "skipped", {"message": skipped[case]})
        if failure is not None:
            first = failure.split("\n", 1)[0]
            ElementTree.SubElement(element, "failure", {"message": first}).text = failure
        elif case in held:
            ElementTree.SubElement(element, "system-out").text = held[case]
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
