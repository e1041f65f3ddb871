"""Wrong files: all mistakes of a file in one call, each with its place and a remedy, and
nothing that only follows from another mistake.
"""

from pathlib import Path

import pytest

from sim.app.checked import checked_plan
from sim.errors import InputError, each_error

HEAD = "apiVersion: orrery.dev/v1\nkind: Scenario\nmetadata: {name: w}\nspec:\n  duration: 30m\n"
NODES = "  cluster: {nodes: [{count: 3, zones: [a, b]}]}\n"
STEPS, EXPECT = NODES + "  timeline:\n    - ", NODES + "  expect:\n    - "

# What is wrong after the head, and the beginning of each error, which is followed by more words.
WRONG = {
    "types": (
        "  cluster: {nodes: 3}\n  timline: []\n  expect: {}\n  seed: x\n",
        ["6:20: expected a list", "7:3: unknown field 'timline'", "8:11: expected a list", "9:9: expected"],
    ),
    "numbers": (
        "  cluster: {nodes: [{count: 0}, {count: six}], naming: foo}\n  seed: -1\n",
        ["6:29: expected a whole number >= 1", "6:41: expected a whole number, got", "6:56: invalid enum",
         "7:9: expected a whole number >= 0"],
    ),
    "machines": (
        "  cluster: {nodes: [{count: 1, capacity: {cpu: four, memory: 4GiB}, labels: {'a b!': x}}], boot: soon}\n",
        ["6:48: 'four' is not a quantity", "6:62: '4GiB' is not", "6:77: labels: Invalid", "6:98: 'soon' is not"],
    ),
    "options": (
        "  cluster:\n    controllerManager: {flags: {node-monitor-grace-perod: 40s, node-monitor-period: fast}}\n"
        "    apiServer: {flags: {feature-gates: Nope=true}}\n",
        ["7:59: unknown option node-monitor-grace-perod", "7:85: option node-monitor-period is 'fast'",
         "8:40: option feature-gates is 'Nope=true'"],
    ),
    "head": (
        "  cluster: {}\n  invariants: []\n  expct: []\n",
        ["7:3: unknown field 'invariants'", "8:3: unknown field 'expct' (did you mean 'expect'?)"],
    ),
    "manifests": (
        "  objects:\n    - web.yaml\n    - {apiVersion: apps/v1, kind: Deploymnt, metadata: {name: x}}\n"
        "    - {apiVersion: v1, kind: Pod, metadata: {name: P}, spec: {containers: [{nam: x, image: i}]}}\n",
        ["7:7: web.yaml: no such file", "8:35: there is no kind Deploymnt", "9:52: metadata.name: Invalid",
         "9:76: spec.containers[0].name: Required", "9:77: unknown field \"spec.containers[0].nam\""],
    ),
    "names of nodes": (
        STEPS + "{at: 1m, fail: {nodes: {name: node-9}, how: hang}}\n    - {at: 2m, fail: {nodes: {zone: q}, how: bang}}\n",
        ["8:37: there is no node 'node-9'", "9:37: there is no zone 'q'", "9:46: invalid enum value 'bang'"],
    ),
    "times": (
        STEPS + "{at: 5 minutes, mark: {}}\n    - {at: 40m, mark: {}}\n    - {after: nothing, mark: {}}\n",
        ["8:12: '5 minutes' is not a duration", "9:12: 40m is after the end", "10:15: no step is named 'nothing'"],
    ),
    "missing parameters": (
        STEPS + "{at: 1m, partition: {}}\n    - {at: 1m, slow: {by: 3x}}\n    - {at: 1m, cordon: {}}\n",
        ["8:27: the field 'between' is missing", "9:22: the field 'actor' is missing",
         "10:24: the field 'nodes' is missing"],
    ),
    "unknown parameters": (
        STEPS + "{at: 1m, apply: {file: a.yaml}}\n    - {at: 1m, heal: {stp: x}}\n",
        ["8:24: unknown field 'file' (did you mean 'files'?)", "9:23: unknown field 'stp' (did you mean 'step'?)"],
    ),
    "actions": (
        STEPS + "{at: 1m, mark: {}, compact: {}}\n    - {at: 1m}\n    - {mark: {}}\n    - {at: 1m, fial: {}}\n",
        ["8:7: a step has exactly one action", "9:7: a step has exactly one action",
         "10:7: the step does not say when", "11:16: unknown field 'fial' (did you mean 'fail'?)"],
    ),
    "objects of steps": (
        STEPS + "{at: 1m, scale: {resource: deployment, name: a, replicas: 3}}\n"
        "    - {at: 1m, scale: {resource: deployments, name: a, replicas: -3}}\n",
        ["8:34: there is no resource 'deployment'", "9:34: no deployments are made", "9:66: expected a whole"],
    ),
    "free keys": (
        "  cluster:\n    places:\n      a: 3\n      b: [UP]\n    programs:\n      web: {nope: 1}\n      db: 3\n"
        "  variants:\n    calm: {nope: 1, set: {}}\n    odd: {set: 3}\n"
        "  hunt: {palette: [{crash: {actor: x}, values: {crash.actor: 3}}]}\n",
        ["8:10: expected a list", "9:11: a name consists", "11:12: the field 'forward' is missing",
         "11:13: unknown field 'nope' (known are: forward)", "12:11: expected a mapping",
         "14:12: unknown field 'nope' (known are: set", "15:16: expected a mapping", "16:62: expected text or a list"],
    ),
    "names of steps": (
        STEPS + "{at: 1m, name: a, mark: {}}\n    - {at: 2m, name: a, mark: {}}\n    - {at: 3m, heal: {step: b}}\n",
        ["9:22: two steps are named 'a'", "10:29: no earlier step is named 'b'"],
    ),
    "conditions": (
        EXPECT + "{name: a, when: all nods are ready, within: [0s, 1m]}\n    - {name: b, when: at least three pods are Running, within: [0s, 1m]}\n",
        ["8:7: there is no resource 'nods'", "9:7: "],
    ),
    "names and conditions": (
        EXPECT + "{name: a, when: all nodes are ready, within: [0s, 1m]}\n    - {name: a, when: all nods are ready, within: [0s, 1m]}\n",
        ["9:7: there is no resource 'nods'", "9:14: two expectations are named 'a'"],
    ),
    "windows": (
        EXPECT + "{name: a, when: all nodes are ready, within: 30s}\n    - {name: b, when: all nodes are ready, within: [0s, 1m], after: 50m}\n",
        ["8:52: expected a list", "9:69: 50m is after the end of the run"],
    ),
    "kinds of expectations": (
        EXPECT + "{name: a}\n    - {when: all nodes are ready}\n    - {name: c, unavailability: {of: pods, below: 2}}\n",
        ["8:7: give exactly one of when", "9:7: the field 'name' is missing", "10:33: the field 'atMost' is missing"],
    ),
    "several sections": (
        "  cluster: {nodes: [{count: 3}], latency: x}\n  timeline:\n    - {at: x, mark: {}}\n"
        "  expect:\n    - {name: a, when: all nods are ready, within: [0s, 1m]}\n",
        ["6:43: 'x' is not a duration", "8:12: 'x' is not a duration", "10:7: there is no resource 'nods'"],
    ),
    "a missing step beside wrong ones": (
        STEPS + "{at: 1m, name: s, fail: {nodes: {zone: q}, how: hang}}\n  expect:\n"
        "    - {name: a, eventually: all nodes are ready, after: none}\n"
        "    - {name: b, eventually: all nodes are ready, after: end of s}\n"
        "    - {name: c, eventually: all nodes are ready, after: fail, until: zz}\n",
        ["8:46: there is no zone 'q'", "10:57: no step is named 'none'", "12:70: no step is named 'zz'"],
    ),
    "a condition beside a wrong field": (
        EXPECT + "{name: a, when: all nods are ready, within: 30s}\n    - {name: b, count: pds are ready, equals: x}\n",
        ["8:7: there is no resource 'nods'", "8:51: expected a list", "9:7: there is no resource 'pds'",
         "9:47: expected a whole number"],
    ),
    "two mistakes of an expectation": (
        EXPECT + "{name: a, when: all nods are ready, within: [5m, 1m], by: 3m, over: {p3x: 1}}\n"
        "    - {name: b, order: [any nods are ready, any nodes are fine]}\n",
        ["8:7: 'by' has no effect", "8:7: there is no resource 'nods'", "8:7: the interval 5m to 1m ends",
         "8:7: ", "9:7: there is no resource 'nods'", "9:7: "],
    ),
    "a key twice": ("  duration: 1h\n", ["6:3: the key 'duration' is there twice"]),
    "a tab": ("\ttimeline: []\n", ["6:1: is not valid YAML"]),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_all_mistakes_of_a_file_are_said_in_one_call(tmp_path: Path, what: str) -> None:
    text, expected = WRONG[what]
    file = tmp_path / "s.yaml"
    file.write_text(HEAD + text)
    with pytest.raises(InputError) as caught:
        checked_plan(file)
    said = [
        str(error).removeprefix(f"{file}:").replace(f"{tmp_path}/", "") for error in each_error(caught.value)
    ]
    wrong = [pair for pair in zip(said, expected, strict=False) if not pair[0].startswith(pair[1])]
    assert wrong == [] and len(said) == len(expected), said
