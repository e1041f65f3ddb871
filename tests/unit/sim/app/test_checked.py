"""A wrong scenario file is refused once, with all of its mistakes, each with place and remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sim.app.checked import checked_plan
from sim.app.cli.main import main
from sim.errors import InputError, each_error
from sim.scenario.schema.decode import BY_TURNS

HEAD = "apiVersion: orrery.dev/v1\nkind: Scenario\nmetadata: {name: wrong}\n"
WEB = (
    "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}},"
    " template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: x}]}}}}"
)
NODES = "  cluster: {nodes: [{count: 4, zones: [a, b]}]}\n"
OUTAGE = "{name: outage, at: 5m, fail: {nodes: {zone: a}, how: power-loss}}"
SOUND = "{name: found, when: all nodes in zone a have Ready=Unknown, within: [29s, 60s], after: outage}"

# The rest of a file, and the beginnings of all its errors: line and message.
WRONG: dict[str, tuple[str, list[str]]] = {
    "unknown fields of several parts": (
        f"spec:\n  sed: 7\n{NODES}  timeline:\n    - {OUTAGE}\n    - {{at: 6m, fial: {{}}}}\n"
        "  expect:\n    - {name: x, whn: nodes exist}\n",
        ["5: unknown field 'sed'", "9: unknown field 'fial'", "11: unknown field 'whn'"],
    ),
    "several unknown fields of one step": (
        f"spec:\n{NODES}  timeline:\n    - {{at: 6m, fial: {{}}, evry: 5s}}\n",
        ["7: unknown field 'fial'", "7: unknown field 'evry'"],
    ),
    "wrong types": (
        "spec:\n  seed: many\n  duration: 5\n  cluster: {nodes: [{count: four}]}\n",
        ["5: expected a whole number, got text", "6: expected text", "7: expected a whole number"],
    ),
    "missing fields": (
        "spec:\n  cluster: {nodes: [{zones: [a]}]}\n  timeline:\n    - {at: 5m, fail: {nodes: {}}}\n"
        "  expect: [{when: nodes exist, within: [0s, 9s]}]\n",
        ["5: the field 'count'", "7: the field 'how'", "8: the field 'name'"],
    ),
    "wrong values of a closed set": (
        "spec:\n  cluster: {naming: k8s, nodes: [{count: 1}]}\n  timeline:\n"
        "    - {at: 5m, fail: {nodes: {}, how: power}}\n",
        ["5: invalid enum value 'k8s'", "7: invalid enum value 'power'"],
    ),
    "keys that are there twice": (
        f"spec:\n{NODES}{NODES}  seed: 1\n  seed: 2\n",
        ["6: the key 'cluster' is there twice", "8: the key 'seed' is there twice"],
    ),
    "durations": (
        f"spec:\n  duration: soon\n{NODES}  timeline:\n    - {{at: later, mark: {{}}}}\n"
        "    - {at: 5m, every: 9, mark: {}}\n",
        [
            "5: 'soon' is not a duration",
            "8: 'later' is not a duration",
            "9: expected text, got a whole number",
        ],
    ),
    "nodes of steps": (
        f"spec:\n{NODES}  timeline:\n    - {{at: 5m, fail: {{nodes: {{zone: c}}, how: power-loss}}}}\n"
        "    - {at: 6m, crash: {actor: schduler-0}}\n    - {at: 7m, cordon: {nodes: {name: node-z}}}\n",
        ["7: there is no zone 'c'", "8: no actor is named 'schduler-0'", "9: there is no node 'node-z'"],
    ),
    "action and time of one step": (
        f"spec:\n{NODES}  timeline:\n    - {{after: otage, for: 0s, fail: {{nodes: {{zone: c}}, how: power-loss}}}}\n"
        f"    - {OUTAGE}\n",
        ["7: no step is named 'otage'", "7: 0s has no effect", "7: there is no zone 'c'"],
    ),
    "capacity, labels and taints of a group": (
        "spec:\n  cluster:\n    nodes:\n      - count: 2\n        capacity: {cpu: much, disk: 5}\n"
        "        labels: {a/b/c: d}\n        taints: [{key: k, effect: Never}]\n",
        ["8: 'much' is not a quantity", "8: no machine has 'disk'", "9: labels", "10: taints[0].effect"],
    ),
    "two groups of nodes": (
        "spec:\n  cluster:\n    nodes:\n      - {count: 2, capacity: {cpu: much}}\n"
        "      - {count: 2, prefix: scheduler}\n    boot: long\n",
        [
            "7: 'much' is not a quantity",
            "8: scheduler-0 is the name of a process",
            "9: 'long' is not a duration",
        ],
    ),
    "flags of several daemons": (
        "spec:\n  cluster:\n    nodes: [{count: 1, flags: {max-podz: 5}}]\n"
        "    apiServer: {flags: {max-requests-inflight: many, nonsense: 1}}\n"
        "    controllerManager: {flags: {node-monitor-period: 5}}\n    scheduler: {flags: {leader-elect: perhaps}}\n",
        [
            "6: unknown option max-podz",
            "7: option max-requests-inflight is 'many'",
            "7: unknown option nonsense",
            "8: option node-monitor-period is 5",
            "9: option leader-elect is 'perhaps'",
        ],
    ),
    "fields of objects": (
        f"spec:\n{NODES}  objects:\n    - {{apiVersion: v1, kind: Pod, metadata: {{name: A_}}, spec: {{contaners: []}}}}\n"
        "    - {apiVersion: v1, kind: Pode, metadata: {name: a}}\n    - {apiversion: v1, metadata: {name: a}}\n",
        [
            '7: unknown field "spec.contaners"',
            "7: metadata.name",
            "7: spec.containers",
            "8: there is no kind Pode",
            "9: the object has no apiVersion",
            "9: the object has no kind",
        ],
    ),
    "objects and files": (
        f"spec:\n{NODES}  objects:\n    - {WEB}\n    - {WEB}\n    - none.yaml\n    - 5\n",
        [
            "8: Deployment web is there twice",
            "9: none.yaml: no such file",
            "10: expected text or a mapping",
        ],
    ),
    "conditions of expectations": (
        f"spec:\n{NODES}  timeline: [{OUTAGE}]\n  expect:\n    - {{name: a, eventually: all nodes in zone c exist}}\n"
        "    - {name: b, never: pods Running}\n    - {name: c, when: nodes exist}\n"
        "    - {name: c, eventually: nodes exist, within: [0s, 5s], after: otage}\n",
        [
            "8: there is no zone 'c'",
            "9: 'pods Running' has no 'have'",
            "10: 'when' goes with 'within",
            "11: 'within' has no effect on 'eventually'",
            "11: two expectations are named 'c'",
            "11: no step is named 'otage'",
        ],
    ),
    "both ends of a window": (
        f"spec:\n{NODES}  expect:\n    - {{name: a, eventually: nodes exist, after: begin, until: 90m}}\n",
        ["7: no step is named 'begin'", "7: 90m is after the end of the run"],
    ),
    "conditions of steps": (
        f"spec:\n{NODES}  timeline:\n    - {{when: nodes are fine, mark: {{}}}}\n"
        "    - {when: all nodes in zone x exist, mark: {}}\n  expect: [{name: a, count: pods exist}]\n",
        ["7: 'fine' is not a predicate", "8: there is no zone 'x'", "9: 'count' goes with"],
    ),
    "steps that wait for each other, and one that is too late": (
        f"spec:\n{NODES}  timeline:\n    - {{name: a, after: b, mark: {{}}}}\n    - {{name: b, after: a, mark: {{}}}}\n"
        "    - {name: c, at: 90m, mark: {}}\n    - {at: 5m, mark: {}, for: 5s}\n",
        ["7: a after b after a never comes", "9: 90m is after the end", "10: 'for' has no effect on mark"],
    ),
    "references of steps": (
        f"spec:\n{NODES}  objects: [{WEB}]\n  timeline:\n    - {OUTAGE}\n    - {{at: 4m, heal: {{step: outage}}}}\n"
        "    - {at: 6m, delete: {resource: deployments, name: wbe}}\n    - {after: outage/2, mark: {}}\n",
        ["9: 'outage' has not begun by then", "10: no deployments default/wbe", "11: there is no outage/2"],
    ),
    "what may follow from another mistake is left out": (
        f"spec:\n  cluster: {{nodes: [{{count: 4, zons: [a, b]}}]}}\n  timeline:\n    - {OUTAGE}\n"
        f"    - {{at: never, mark: {{}}}}\n  expect:\n    - {SOUND}\n    - {{name: b, never: pods Running}}\n",
        ["5: unknown field 'zons'", "8: 'never' is not a duration", "11: 'pods Running' has no 'have'"],
    ),
    "an expectation after a step with a mistake": (
        f"spec:\n{NODES}  timeline:\n    - {OUTAGE.replace('zone: a', 'zone: c')}\n  expect:\n    - {SOUND}\n"
        "    - {name: b, eventually: nodes are fine}\n",
        ["7: there is no zone 'c'", "10: 'fine' is not a predicate"],
    ),
}


def written(folder: Path, text: str) -> Path:
    file = folder / "wrong.yaml"
    file.write_text(HEAD + text)
    return file


@pytest.mark.parametrize("case", WRONG)
def test_file_is_refused_with_all_of_its_mistakes(tmp_path: Path, case: str) -> None:
    text, expected = WRONG[case]
    file = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        checked_plan(file)
    found = []
    for error in each_error(caught.value):
        line, _, column = error.place.removeprefix(f"{file}:").partition(":")
        assert line.isdecimal() and column.isdecimal(), error
        found.append(f"{line}: {error.message}".replace(f"{tmp_path}/", ""))
    assert len(found) == len(expected), found
    for error_text, beginning in zip(sorted(found), sorted(expected), strict=True):
        assert error_text.startswith(beginning), found


def test_words_for_one_node_after_another_lead_to_the_step_that_does_it(tmp_path: Path) -> None:
    steps = "    - {at: 2m, name: turn, drain: {nodes: {next: 1}}}\n    - {after: turn, drain: {nodes: {same: turn}}}\n"
    with pytest.raises(InputError) as caught:
        checked_plan(written(tmp_path, f"spec:\n{NODES}  timeline:\n{steps}"))
    errors = each_error(caught.value)
    assert [error.message for error in errors] == ["unknown field 'next'", "unknown field 'same'"]
    assert {error.remedy for error in errors} == {BY_TURNS}
    (step,) = re.findall(r"forEach: .*}", BY_TURNS)
    for action in (step, step.replace("reboot", "{upgrade: {version: v1.24.17}}")):
        file = written(tmp_path, f"spec:\n{NODES}  timeline:\n    - {{at: 2m, {action}}}\n")
        assert len(checked_plan(file).steps) == 1


def test_sound_file_has_a_plan(tmp_path: Path) -> None:
    text = f"spec:\n{NODES}  objects: [{WEB}]\n  timeline: [{OUTAGE}]\n  expect: [{SOUND}]\n"
    assert len(checked_plan(written(tmp_path, text)).steps) == 1


@pytest.mark.parametrize("command", [["validate"], ["run", "-q", "--no-report"]])
def test_command_prints_a_line_for_each_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    file = written(tmp_path, WRONG["nodes of steps"][0])
    assert main([*command, str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(str(file))[0] for line in lines] == ["orrery: "] * 3
    assert all(line.endswith(")") for line in lines), lines
