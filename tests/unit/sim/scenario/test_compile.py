"""A valid file becomes a plan; an invalid one becomes one error with its place and a remedy."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from sim.app.options import check_options
from sim.errors import InputError
from sim.faults.machines.fail import FailNodes
from sim.scenario.compile import load

GOOD = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: outage, description: A zone goes dark.}
spec:
  seed: 7
  duration: 30m
  cluster:
    nodes: [{count: 6, zones: [a, b]}]
  objects: [web.yaml]
  timeline:
    - {at: 5m, name: dark, fail: {nodes: {zone: a}, how: power-loss}}
    - {at: 20m, heal: {step: dark}}
    - {at: 21m, scale: {resource: deployments, name: web, replicas: 3}}
  expect:
    - {name: detected, when: all nodes in zone a have Ready=Unknown, within: [30s, 46s], after: fail}
"""
WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {nodeSelector: {topology.kubernetes.io/zone: a},
  containers: [{name: app, image: i}]}, metadata: {labels: {app: web}}}, selector: {matchLabels: {app: web}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "web.yaml").write_text(WEB)
    return tmp_path


def plan_of(folder: Path, text: str, *settings: str):  # type: ignore[no-untyped-def]
    (folder / "s.yaml").write_text(text)
    return load(folder / "s.yaml", settings)


def test_scenario_becomes_a_plan_of_plain_values(folder: Path) -> None:
    plan = plan_of(folder, GOOD)
    assert (plan.name, plan.seed, plan.duration_us) == ("outage", 7, 1_800_000_000)
    assert [node.name for node in plan.cluster.nodes] == [f"node-{z}-{i}" for i in range(3) for z in "ab"]
    assert plan.steps[0].choices[0].action == FailNodes(("node-a-0", "node-a-1", "node-a-2"), "power-loss")
    assert plan.steps[0].start.at_us == (300_000_000, 300_000_000)


def test_manifest_in_either_naming_gets_the_identifiers_of_the_cluster(folder: Path) -> None:
    selector = plan_of(folder, GOOD).objects[0]["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {"topology.orch.io/zone": "a"}
    upstream = plan_of(folder, GOOD, "cluster.naming=kubernetes").objects[0]["spec"]["template"]["spec"][
        "nodeSelector"
    ]
    assert upstream == {"topology.kubernetes.io/zone": "a"}


def test_settings_override_by_path_index_and_name(folder: Path) -> None:
    plan = plan_of(folder, GOOD, "seed=9", "cluster.nodes[0].count=2", "timeline.dark.at=3m")
    assert (plan.seed, len(plan.cluster.nodes), plan.steps[0].start.at_us) == (
        9,
        2,
        (180_000_000, 180_000_000),
    )


BAD = [
    (
        ("how: power-loss", "how: bang"),
        "s.yaml:11:58: invalid enum value 'bang' (one of: power-loss, shutdown, hang",
    ),
    (("zone: a}, how", "zon: a}, how"), "s.yaml:11:43: unknown field 'zon' (did you mean 'zone'?)"),
    (("fail:", "fial:"), "s.yaml:11:28: unknown field 'fial' (did you mean 'fail'?)"),
    (
        ("duration: 30m", "duration: 30x"),
        "s.yaml:6:13: '30x' is not a duration (write it as 90s, 5m or 1h30m, a hundred years at most)",
    ),
    (("zone: a}, how", "zone: q}, how"), "there is no zone 'q' (there are a, b)"),
    (("at: 5m", "at: 50m"), "50m is after the end of the run"),
    (("at: 5m", "at: -5m"), "the duration -5m is negative"),
    (("step: dark", "step: dusk"), "no earlier step is named 'dusk'"),
    (("name: web, replicas", "name: wob, replicas"), "no deployments default/wob is made by this scenario"),
    (("[web.yaml]", "[../web.yaml]"), "lies outside the scenario's folder"),
    (("[web.yaml]", "[wib.yaml]"), "wib.yaml: no such file (did you mean 'web.yaml'?)"),
    (("after: fail", "after: flail"), "no step is named 'flail' (did you mean 'fail'?)"),
    (("{at: 20m, heal", "{at: 20m, compact: {}, heal"), "exactly one action; this one has heal and compact"),
    (
        ("{count: 6, zones: [a, b]}", "{count: 6, prefix: scheduler}"),
        "s.yaml:8:13: scheduler-0 is the name of a process",
    ),
    (("count: 6", "count: six"), "s.yaml:8:21: expected a whole number, got text"),
    (("name: outage", "name: a/b"), "s.yaml:3:18: a name consists of lower-case letters, digits"),
    (("name: dark", 'name: "da\\ark"'), "s.yaml:11:22: a name holds no control characters"),
    (("name: detected", 'name: "x\\ny"'), "s.yaml:15:14: a name holds no control characters"),
    (("name: outage, ", ""), "s.yaml:3:11: the field 'name' is missing"),
    (("name: detected, ", ""), "the field 'name' is missing (a name says what is expected, in any words)"),
    (
        ("duration: 30m", "duration: 2000000h"),
        "s.yaml:6:13: the duration 2000000h is longer than a hundred",
    ),
    (
        ("duration: 30m", "duration: 999999999h"),  # beyond what Go's 64 bits hold
        "s.yaml:6:13: '999999999h' is not a duration (write it as 90s, 5m or 1h30m, a hundred years at most)",
    ),
    (("after: fail", "after: 30m"), "s.yaml:15:97: 30m is after the end of the run"),
    (("after: fail", "after: fail, until: 31m"), "s.yaml:15:110: 31m is after the end of the run"),
    (
        ("after: fail", "after: 6m, until: 2m"),
        "s.yaml:15:108: the window ends before it begins (this is a time of the run",
    ),
    (("after: fail", "after: heal-2, until: dark"), "the window ends before it begins"),
    (
        ("[web.yaml]", "[web.yaml, web.yaml]"),
        "s.yaml:9:23: Deployment web is there twice (give one of them another",
    ),
    (("[web.yaml]", "[.]"), "s.yaml:9:13: {folder}: is a directory, not a file"),
    (("seed: 7", "seed: !!python/name:os.system"), "is not allowed"),
    (("seed: 7", "seed: 7\n  seed: 8"), "is there twice"),
    (("seed: 7", "seed: [7"), "is not valid YAML"),
    (
        ("  seed: 7", "\tseed: 7"),
        "s.yaml:5:1: is not valid YAML: found character that cannot start any token (indent",
    ),
    (("seed: 7", "seed: \x01"), "s.yaml:5: is not valid YAML: a control character"),
    (("seed: 7", "seed: " + "[" * 100_000), "s.yaml: is nested deeper than 64 levels"),
    (("seed: 7", "seed:\n    " + "- " * 100_000), "s.yaml: is nested deeper than 64 levels"),
    (("seed: 7", "seed: " + "[" * 70 + "]" * 70), "is nested deeper than 64 levels"),
]


@pytest.mark.parametrize(("change", "says"), BAD, ids=[says for _, says in BAD])
def test_bad_input_is_one_error_with_its_place(folder: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_of(folder, GOOD.replace(*change))
    assert says.replace("{folder}", str(folder)) in str(caught.value)
    assert "s.yaml" in str(caught.value)


def test_manifest_of_unknown_kind_is_rejected_at_its_place(folder: Path) -> None:
    (folder / "web.yaml").write_text(WEB.replace("Deployment", "Deploiment"))
    with pytest.raises(
        InputError, match=r"web.yaml:2:7: there is no kind Deploiment in apps/v1 .did you mean 'Deployment'"
    ):
        plan_of(folder, GOOD)


MANIFEST_ERRORS = [
    (("template: {", "replcas: 3, template: {"), 'web.yaml:4:8: unknown field "spec.replcas"'),
    (("nodeSelector", "nodeSelektor"), 'web.yaml:4:26: unknown field "spec.template.spec.nodeSelektor"'),
    (
        ("template: {spec", "template: 3, x: {spec"),
        "web.yaml:4:18: json: cannot unmarshal number into Go struct field",
    ),
    (("Deployment", "Pod"), "web.yaml:2:7: there is no kind Pod in apps/v1 (it is in v1)"),
    (
        ("containers: [{name: app, image: i}]", "containers: []"),
        "web.yaml:5:15: spec.template.spec.containers: Required value",
    ),
    (
        ("image: i}", "image: i, ports: [{containerPort: 0}]}"),
        "web.yaml:5:62: spec.template.spec.containers[0].ports[0].containerPort: Required",
    ),
    (
        ("labels: {app: web}}}", "labels: {app: wob}}}"),
        "web.yaml:5:60: spec.template.metadata.labels: Invalid value",
    ),
    (("name: web", "name: Web"), "web.yaml:3:18: metadata.name: Invalid value"),
    ((", selector: {matchLabels: {app: web}}", ""), "web.yaml:4:7: spec.selector: Required value"),
    (("template: {", "repicas: 3, template: {"), "unknown field \"spec.repicas\" (did you mean 'replicas'?)"),
    (("kind", "knid"), "web.yaml:2:1: the object has no kind (did you mean 'kind'?)"),
    (("{name: web", "{nam: web"), "the object has no metadata.name (did you mean 'name'?)"),
    (("Deployment", "List"), "web.yaml:2:7: a List is no object (write its items as objects of their own"),
]


@pytest.mark.parametrize(("change", "says"), MANIFEST_ERRORS, ids=[says for _, says in MANIFEST_ERRORS])
def test_manifest_with_wrong_fields_is_rejected_at_its_place(
    folder: Path, change: tuple[str, str], says: str
) -> None:
    (folder / "web.yaml").write_text(WEB.replace(*change))
    with pytest.raises(InputError) as caught:
        plan_of(folder, GOOD)
    assert says in str(caught.value)


def test_file_that_is_not_utf_8_is_rejected_with_its_line(folder: Path) -> None:
    (folder / "s.yaml").write_bytes(GOOD.replace("goes dark", "goes d\xe4rk").encode("latin-1"))
    with pytest.raises(InputError, match=r"s.yaml:3: is not UTF-8 text .save it as UTF-8"):
        load(folder / "s.yaml")


def test_time_of_day_is_read_as_text(folder: Path) -> None:
    objects = "[{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {at: 12:30, from: 1:30.5}}]"
    plan = plan_of(folder, GOOD.replace("[web.yaml]", objects).split("  timeline:")[0])
    assert plan.objects[0]["data"] == {"at": "12:30", "from": "1:30.5"}


def test_empty_file_is_reported_as_empty(folder: Path) -> None:
    with pytest.raises(InputError, match="is empty; a scenario is one document"):
        plan_of(folder, "# nothing yet\n")


def test_time_without_unit_is_rejected_in_a_scenario_without_steps(folder: Path) -> None:
    text = GOOD.split("  timeline:")[0] + "  expect:\n    - {name: a, when: all nodes are ready, after: 5}\n"
    with pytest.raises(InputError, match=r"no step is named '5' .give a time, as 5m"):
        plan_of(folder, text.replace("after: 5", "after: '5'"))


@pytest.mark.parametrize(
    ("window", "says"),
    [
        ("after: end of on", "nothing ends 'on' (give it 'for', or heal it)"),
        ("after: on, until: end of on", "nothing ends 'on' (give it 'for', or heal it)"),
        ("after: end of once", "'once' has no end (write after: once)"),
        ("after: once/2", "there is no once/2: it happens once"),
        ("after: end of stall", ""),
        ("after: often, until: often", "the window ends as it begins (an occurrence has a number"),
        ("after: often/2, until: lag", "the window ends as it begins"),
        ("after: often, until: often/2", ""),
        ("after: end of lagging, until: lagging", "the window ends before it begins"),
        ("after: lagging, until: end of lagging", ""),
    ],
)
def test_window_that_never_opens_or_closes_is_rejected(folder: Path, window: str, says: str) -> None:
    text = (
        GOOD.split("  timeline:")[0]
        + f"""  timeline:
    - {{at: 1m, name: on, stall: {{actor: storage}}}}
    - {{at: 1m, name: once, compact: {{}}}}
    - {{at: 1m, name: often, every: 1m, for: 5s, lag: {{apiServer: apiserver-0, by: 1s}}}}
    - {{at: 1m, name: lagging, for: 1m, lag: {{apiServer: apiserver-0, by: 1s}}}}
  expect:
    - {{name: a, never: {{deleted: nodes}}, {window}}}
"""
    )
    with pytest.raises(InputError) if says else nullcontext() as caught:
        plan_of(folder, text)
    if caught is not None:
        assert says in str(caught.value)


@pytest.mark.parametrize(
    ("window", "says"),
    [
        ("within: [31m, 40m]", "the run is over 31m after its beginning"),
        ("after: dark, within: [29m, 30m]", "the run is over 29m after its beginning"),
        ("until: dark, within: [6m, 7m]", "the window is over 6m after its beginning"),
        ("after: dark, within: [1m, 50m]", ""),
    ],
)
def test_time_outside_of_the_window_is_rejected(folder: Path, window: str, says: str) -> None:
    text = (
        GOOD.split("  timeline:")[0]
        + f"""  timeline:
    - {{at: 5m, name: dark, fail: {{nodes: {{zone: a}}, how: power-loss}}}}
  expect:
    - {{name: a, when: no nodes are ready, {window}}}
"""
    )
    with pytest.raises(InputError) if says else nullcontext() as caught:
        plan_of(folder, text)
    if caught is not None:
        assert says in str(caught.value)


def test_patch_of_unknown_fields_is_rejected(folder: Path) -> None:
    step = "{at: 1m, patch: {resource: deployments, name: web, merge: {spec: {pausd: true}}}}"
    with pytest.raises(InputError, match=r'unknown field "spec.pausd" .did you mean .paused') as caught:
        plan_of(folder, GOOD.split("  timeline:")[0] + f"  timeline:\n    - {step}\n")
    assert caught.value.place.endswith(f":{GOOD.split('  timeline:')[0].count(chr(10)) + 2}:73")


def test_yaml_bomb_is_rejected(folder: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(InputError, match="aliases expand to more than"):
        plan_of(folder, "\n".join(rows))


def test_missing_file_and_folder_are_reported(folder: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load(folder / "none.yaml")
    with pytest.raises(InputError, match="is a directory"):
        load(folder)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("seed", "wants key=value"),
        (".=3", "wants key=value"),
        ("timeline.dusk.at=3m", "no item is named 'dusk' .known are: dark"),
        ("cluster.nodes.big.count=3", "no item is named 'big' .its 1 items are numbered from 0"),
        ("timeline[9].at=3m", "there is no item 9: it has 3, numbered from 0"),
        ("metadata.labels.a=1", "unknown field 'labels'"),
        ("cluster.objects=[]", r"unknown field 'objects' \(it belongs in spec\)"),
        (
            "timeline.dark.how=hang",
            r"'how' \(it belongs in spec\.timeline\.fail or spec\.timeline\.devices or spec\.timeline\.storage or spec\.timeline\.cloud"
            r" or spec\.timeline\.webhook or spec\.timeline\.driver or spec\.timeline\.volume\)",
        ),
        (
            "cluster.nodes[0]count=3",
            r"'cluster.nodes\[0\]count' is no path .*write it as cluster.nodes\[0\].count",
        ),
        ("cluster..nodes[0].count=3", "is no path into a scenario"),
        ("cluster.nodes[x].count=3", "is no path into a scenario"),
        ("cluster.nodes[0].count.=3", "is no path into a scenario"),
        ("cluster.size=3", r"unknown field 'size' \(known are: naming, nodes"),
        ("expect[0].within=4m", r"expected a list, got text \(both bounds, as \[29s, 60s\]\)"),
        ("cluster.nodes[0].zones=a", r"expected a list, got text \(in brackets, as \[a, b\]\)"),
        ("cluster.apiServer.replicas.x=1", "expected a whole number, got a mapping"),
        ("timeline.dark.at=-3m", "the duration -3m is negative"),
        ("cluster.nodes[0].cont=3", "unknown field 'cont' .did you mean 'count'"),
        ("cluster.controllerManager.flags.controllers=*", "is not valid YAML: .*quote a text"),
        ("duration=5", "a duration has a unit"),
        ("duration=0s", "a run takes some time"),
        ("duration.x=0s", "'30m' has no parts to set"),
        (
            "objects[0].spec.replicas=3",
            "'web.yaml' has no parts to set .write what is to be set in the scenario",
        ),
    ],
)
def test_wrong_setting_is_named_in_its_error(folder: Path, setting: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        plan_of(folder, GOOD, setting)
    assert caught.value.place == f"--set {setting}"


def test_capacity_may_be_a_fraction_of_a_cpu(folder: Path) -> None:
    nodes = plan_of(folder, GOOD, "cluster.nodes[0].capacity={cpu: 7.5}").cluster.nodes
    assert {node.capacity["cpu"] for node in nodes} == {"7.5"}


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ('labels={"a b": c}', 'labels: Invalid value: "a b"'),
        ("capacity={cpu: banana}", "'banana' is not a quantity"),
        ("capacity={cpu: -1}", "-1 is negative"),
        ("capacity={cpu: .inf}", "inf is not a quantity"),
        (
            "capacity={gpu: 1}",
            "no machine has 'gpu' (they have cpu, memory, pods, ephemeral-storage, and devices",
        ),
        ("taints=[{key: a, effect: Foo}]", 'Unsupported value: "Foo"'),
        ("taints=[{kee: a, effect: NoSchedule}]", "unknown field 'kee' (did you mean 'key'?)"),
        ("runtime={exitAfter: abc}", "'abc' is not a duration"),
    ],
)
def test_node_group_that_the_api_refuses_is_rejected(folder: Path, setting: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_of(folder, GOOD, f"cluster.nodes[0].{setting}")
    assert says in str(caught.value)


def test_number_of_pods_is_given_by_capacity_or_flag_only(folder: Path) -> None:
    settings = ("cluster.nodes[0].flags.max-pods=5", "cluster.nodes[0].capacity.pods=7")
    assert plan_of(folder, GOOD, settings[0]).cluster.nodes[0].flags == {"max-pods": 5}
    with pytest.raises(InputError, match=r"the group's capacity says how many pods already .leave one out"):
        plan_of(folder, GOOD, *settings)


def test_wrong_flag_is_rejected_at_its_place(folder: Path) -> None:
    flags = "{count: 6, zones: [a, b],\n      flags: {event-qps: 3,\n        max-pods: many}}"
    plan = plan_of(folder, GOOD.replace("{count: 6, zones: [a, b]}", flags))
    with pytest.raises(InputError, match=r"s.yaml:10:19: option max-pods is 'many'"):
        check_options(plan.cluster)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ("orch.io/mine=x", "unknown 'orch.io' labels specified with --node-labels: ['orch.io/mine']"),
        ("a b=c", "invalid node labels"),
        ("node.orch.io/mine=x,orch.io/os=linux,disk=ssd", ""),
    ],
)
def test_node_labels_that_agents_may_not_set_are_rejected(folder: Path, labels: str, says: str) -> None:
    plan = plan_of(folder, GOOD, f"cluster.nodes[0].flags.node-labels={labels}")
    if not says:
        assert len(check_options(plan.cluster).nodes["node-a-0"].node_labels) == 3
        return
    with pytest.raises(InputError) as caught:
        check_options(plan.cluster)
    assert says in str(caught.value)


STATIC = "{apiVersion: v1, kind: Pod, metadata: {name: log}, spec: {containers: [{name: c, image: i}]}}"


def test_static_pods_are_planned_with_defaults(folder: Path) -> None:
    plan = plan_of(
        folder, GOOD, f"cluster.nodes[0].staticPods=[{STATIC}]", "cluster.nodes[0].leaseJitter=false"
    )
    node = plan.cluster.nodes[0]
    (pod,) = node.static_pods
    assert pod["metadata"]["namespace"] == "default" and pod["spec"]["restartPolicy"] == "Always"
    assert not node.lease_jitter and plan_of(folder, GOOD).cluster.nodes[0].lease_jitter


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        (f"[{STATIC}, {STATIC}]", "two static pods are named default/log"),
        (f"[{STATIC.replace('Pod', 'Service')}]", "no Service can be static, only a Pod"),
        (f"[{STATIC.replace(', image: i', '')}]", "spec.containers[0].image: Required value"),
        (f"[{STATIC.replace('image: i', 'image: {}')}]", "image"),
        (f"[{STATIC.replace('name: c', 'nane: c, name: c')}]", 'unknown field "spec.containers[0].nane"'),
        ("[{kind: Pod}]", "the object has no apiVersion"),
    ],
)
def test_static_pod_that_no_agent_can_run_is_rejected(folder: Path, pods: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_of(folder, GOOD, f"cluster.nodes[0].staticPods={pods}")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("remove: lag", "no file of a static pod is called 'lag' (did you mean 'log'?)"),
        ("spoil: log, file: log", "'file' goes with 'write'"),
        ("spoil: log, remove: log", "does one of write, spoil and remove"),
        (f"write: {STATIC.replace('Pod', 'Service')}", "no Service can be static, only a Pod"),
    ],
)
def test_manifest_step_needs_an_existing_file_and_a_pod(folder: Path, body: str, says: str) -> None:
    step = f"{{at: 1m, manifest: {{nodes: {{}}, {body}}}}}"
    with pytest.raises(InputError) as caught:
        plan_of(folder, GOOD, f"cluster.nodes[0].staticPods=[{STATIC}]", f"timeline.dark={step}")
    assert says in str(caught.value)


SAMPLES = """\
node, found_s, gone_s
n0, 34.06,
n1, 42.17, 347.27

n2, 39.01, 344.15
"""


def like_of(folder: Path, like: str):  # type: ignore[no-untyped-def]
    (folder / "deaths.csv").write_text(SAMPLES)
    (folder / "one.csv").write_text("1.5\n2.5\n")
    (folder / "bad.csv").write_text("a,b\n1,2\n1,soon\n1,nan\n")
    (folder / "empty.csv").write_text("")
    (folder / "long.csv").write_text("a\n" + "1" * 200_000)
    plan = plan_of(folder, GOOD.replace("within: [30s, 46s]", f"over: {{like: {like}}}"))
    return plan.expectations[0].expectation.over["like"]


def test_samples_are_read_from_a_file_beside_the_scenario(folder: Path) -> None:
    found = like_of(folder, "{file: deaths.csv, column: gone_s, level: 5%}")
    assert found == {"file": "deaths.csv", "column": "gone_s", "level": "5%", "values": [347.27, 344.15]}
    assert like_of(folder, "{file: deaths.csv, column: found_s}")["values"] == [34.06, 42.17, 39.01]
    given = {"values": [44, 45.5], "level": "5%"}
    assert like_of(folder, "{values: [44, 45.5], level: 5%}") == given
    assert like_of(folder, "one.csv") == {"file": "one.csv", "values": [1.5, 2.5]}


@pytest.mark.parametrize(
    ("like", "says"),
    [
        ("7", "s.yaml:15:83: 'like' wants the name of a CSV file"),
        ("{column: found_s}", "'like' wants the name of a CSV file"),
        (
            "{file: deaths.csv, colum: found_s}",
            "s.yaml:15:109: 'like' does not know 'colum' (did you mean 'column'?)",
        ),
        ("deaths.csv", "deaths.csv has 3 columns (name one with column: node, found_s, gone_s)"),
        ("{file: deaths.csv, column: founds}", "has no column 'founds' (did you mean 'found_s'?)"),
        ("{values: 4}", "'values' wants numbers (values: [44.2, 45])"),
        ("{values: []}", "'values' wants numbers"),
        ("{values: [1, true]}", "'values' wants numbers"),
        ("{values: [1, .nan]}", "'values' wants numbers"),
        ("{values: [1, soon]}", "'values' wants numbers"),
        ("{values: [1], file: one.csv}", "'like' has values or a file (leave one of them out)"),
        ("{file: bad.csv, column: b}", "bad.csv:3: 'soon' is not a number"),
        ("{file: empty.csv, column: b}", "empty.csv has no column 'b'"),
        ("empty.csv", "empty.csv holds no value"),
        ("long.csv", "long.csv: is not CSV: field larger than field limit"),
        ("none.csv", "none.csv: no such file (did you mean 'one.csv'?)"),
        ("../deaths.csv", "lies outside the scenario's folder"),
        ("/etc/passwd", "lies outside the scenario's folder"),
        ("web.yaml", "web.yaml:2: 'kind: Deployment' is not a number"),
    ],
)
def test_unreadable_samples_are_rejected_at_their_place(folder: Path, like: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        like_of(folder, like)
    assert says in str(caught.value)


ADMISSION = """\
apiVersion: apiserver.config.orch.io/v1
kind: AdmissionConfiguration
plugins:
  - {name: PodNodeSelector, path: selectors.yaml}
  - {name: PodSecurity, configuration: {}}
"""


def test_file_of_an_option_is_read_with_the_files_that_it_names(folder: Path) -> None:
    (folder / "server").mkdir()
    (folder / "server" / "admission.yaml").write_text(ADMISSION)
    (folder / "server" / "selectors.yaml").write_text("podNodeSelectorPluginConfig: {web: pool=a}\n")
    setting = "cluster.apiServer.flags.admission-control-config-file=server/admission.yaml"
    flags = plan_of(folder, GOOD, setting).cluster.api_server.flags
    plugins = flags["admission-control-config-file"]["plugins"]
    assert plugins[0]["configuration"] == {"podNodeSelectorPluginConfig": {"web": "pool=a"}}
    assert plugins[1] == {"name": "PodSecurity", "configuration": {}}


def test_files_that_daemons_read_are_searched_in_the_folder_of_the_scenario(folder: Path) -> None:
    server, manager = "cluster.apiServer.flags.", "cluster.controllerManager.flags."
    settings = [
        *(
            f"{server}{name}=a"
            for name in ("authorization-policy-file", "audit-policy-file", "client-ca-file")
        ),
        f"{server}service-account-key-file=a,/b",
        f"{server}audit-log-path=a",
        f"{manager}cluster-signing-cert-file=a",
    ]
    cluster = plan_of(folder, GOOD, *settings).cluster
    inside = str(folder / "a")
    flags = cluster.api_server.flags
    assert [flags[each] for each in ("authorization-policy-file", "audit-policy-file", "client-ca-file")] == [
        inside
    ] * 3
    assert flags["service-account-key-file"] == [inside, "/b"]
    assert flags["audit-log-path"] == "a"  # an output
    assert cluster.controller_manager.flags["cluster-signing-cert-file"] == inside


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("../outside.yaml", "lies outside the scenario's folder"),
        ("none.yaml", "none.yaml"),
        ("two.yaml", "two.yaml: option admission-control-config-file: holds 2 documents"),
    ],
)
def test_file_of_an_option_that_cannot_be_read_is_refused(folder: Path, name: str, says: str) -> None:
    (folder / "two.yaml").write_text("a: 1\n---\nb: 2\n")
    setting = f"cluster.apiServer.flags.admission-control-config-file={name}"
    with pytest.raises(InputError) as refused:
        plan_of(folder, GOOD, setting)
    assert says in str(refused.value)


def test_wrong_content_of_a_file_is_refused_with_the_place_of_its_option(folder: Path) -> None:
    (folder / "admission.yaml").write_text(ADMISSION.replace("PodSecurity", "PodSecurty"))
    (folder / "selectors.yaml").write_text("podNodeSelectorPluginConfig: {}\n")
    setting = "cluster.apiServer.flags.admission-control-config-file=admission.yaml"
    with pytest.raises(InputError) as refused:
        check_options(plan_of(folder, GOOD, setting).cluster)
    assert "plugins[1].name: no plugin 'PodSecurty' takes a configuration" in str(refused.value)
    assert setting.partition("=")[0] in refused.value.place
