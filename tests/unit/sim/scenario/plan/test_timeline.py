"""Planning of steps: their times, repetitions, draws and actions, and the errors of wrong steps."""

from pathlib import Path

import pytest

from sim.errors import InputError
from sim.faults.machines.heal import EndStep
from sim.faults.machines.pressure import PressNodes
from sim.faults.machines.workload import Behave
from sim.faults.processes.lose_lease import LoseLease
from sim.faults.servers.compact import CompactHistory
from sim.faults.servers.diverge import FreezeCache
from sim.faults.servers.overload import Overload
from sim.faults.servers.storage import StorageFault
from sim.faults.shared.kinds import Action
from sim.kernel.draws.streams import Drawn
from sim.scenario.actions.delete import DeleteObjects
from sim.scenario.actions.evict import EvictPods
from sim.scenario.actions.load import Generate
from sim.scenario.compile import load
from sim.scenario.plan import plan
from sim.units import MINUTE, SECOND

HEAD = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: t}
spec:
  duration: 30m
  cluster: {nodes: [{count: 6, zones: [a, b]}], apiServer: {replicas: 2}}
  objects: [{apiVersion: v1, kind: Namespace, metadata: {name: shop}}, {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web, tier: front}}, spec: {containers: [{name: app, image: i}]}}}}]
  timeline:
    - {at: 1m, name: first, fail: {nodes: {zone: a}, how: hang}, for: 10s}
"""


def compiled(tmp_path: Path, *steps: str) -> plan.Plan:
    (tmp_path / "s.yaml").write_text(HEAD + "".join(f"    - {step}\n" for step in steps))
    return load(tmp_path / "s.yaml")


def second(tmp_path: Path, step: str) -> plan.PlannedStep:
    return compiled(tmp_path, step).steps[1]


def action(tmp_path: Path, step: str) -> Action:
    return second(tmp_path, f"{{at: 2m, {step}}}").choices[0].action


def test_time_of_a_step_may_be_a_range(tmp_path: Path) -> None:
    step = second(tmp_path, "{at: 2m..3m, crash: {actor: storage}, for: 5s..10s}")
    assert step.start.at_us == (2 * MINUTE, 3 * MINUTE)
    assert step.choices[0].for_us == (5 * SECOND, 10 * SECOND)


def test_step_waits_for_a_condition_after_another_step(tmp_path: Path) -> None:
    step = second(
        tmp_path, "{when: any nodes have Ready=Unknown, after: first, delay: 3s, crash: {actor: storage}}"
    )
    assert step.start == plan.Start(None, "any nodes have Ready=Unknown", "first", (3 * SECOND, 3 * SECOND))


@pytest.mark.parametrize(
    ("text", "repeat"),
    [
        ("every: 1m, times: 3", plan.Repeat((MINUTE, MINUTE), None, 3, None)),
        ("every: 10s..20s, until: 9m", plan.Repeat((10 * SECOND, 20 * SECOND), None, None, 9 * MINUTE)),
        ("rate: 6/h", plan.Repeat(None, 10 * MINUTE, None, None)),
        ("rate: 3/30s", plan.Repeat(None, 10 * SECOND, None, None)),
    ],
)
def test_step_repeats(tmp_path: Path, text: str, repeat: plan.Repeat) -> None:
    assert second(tmp_path, f"{{at: 2m, {text}, dropWatches: {{}}}}").repeat == repeat


def test_random_step_draws_from_weighted_actions(tmp_path: Path) -> None:
    step = second(
        tmp_path,
        "{at: 2m, every: 1m, random: [{weight: 3, for: 5s, fail: {nodes: {pick: 1}, how: hang}}, {compact: {}}]}",
    )
    assert [(c.kind, c.weight, c.pick) for c in step.choices] == [
        ("fail", 3, Drawn(1, 1, False)),
        ("compact", 1, None),
    ]
    assert step.kind == "random"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "pressure: {nodes: {name: node-a-0}, resource: memory, available: 80Mi, ramp: 30s}",
            PressNodes(("node-a-0",), "memory", 80 << 20, 30 * SECOND),
        ),
        ("overload: {apiServer: apiserver, inflight: 3}", Overload(("apiserver-0", "apiserver-1"), 0, 3)),
        ("diverge: {apiServer: apiserver-1}", FreezeCache(("apiserver-1",))),
        ("storage: {how: lost-quorum}", StorageFault("lost-quorum", 0)),
        ("compact: {keep: 30s}", CompactHistory(30 * SECOND)),
        ("evict: {selector: app=web}", EvictPods("default", "", "app=web")),
        ("delete: {resource: namespaces, name: shop}", DeleteObjects("namespaces", "default", "shop", "", None)),
        ("loseLease: {component: scheduler}", LoseLease("scheduler", "intruder")),
        ("load: {rate: 5/s, list: pods}", Generate(SECOND // 5, list_of="pods")),
        (
            "load: {rate: 1/s, scale: {resource: deployments, name: web, between: [1, 9]}}",
            Generate(SECOND, scale=("deployments", "default", "web", 1, 9)),
        ),
    ],
)  # fmt: skip
def test_parameters_of_a_step_become_an_action(tmp_path: Path, text: str, wanted: Action) -> None:
    assert action(tmp_path, text) == wanted


def test_workload_step_selects_pods_and_changes_their_behaviour(tmp_path: Path) -> None:
    found = action(
        tmp_path,
        'workload: {selector: "app=web,tier=front", exitAfter: 2s, exitCode: 3, ready: false, stop: never}',
    )
    assert isinstance(found, Behave)
    assert found.labels == {"app": "web", "tier": "front"}
    assert (found.exit_after_us, found.exit_code, found.unready, found.stop_us) == (2 * SECOND, 3, True, -1)
    assert len(found.nodes) == 6


@pytest.mark.parametrize(
    ("labels", "nodes"),
    [
        ("topology.kubernetes.io/zone: b", ("node-b-0", "node-b-1", "node-b-2")),
        ("topology.orch.io/zone: b, orch.io/hostname: node-b-1", ("node-b-1",)),
        ("kubernetes.io/hostname: node-a-2", ("node-a-2",)),
    ],
)
def test_nodes_are_selected_by_labels_of_every_machine_in_either_naming(
    tmp_path: Path, labels: str, nodes: tuple[str, ...]
) -> None:
    found = action(tmp_path, f"pressure: {{nodes: {{labels: {{{labels}}}}}, resource: memory, available: 1}}")
    assert isinstance(found, PressNodes)
    assert found.nodes == nodes


def test_name_of_nodes_is_a_glob(tmp_path: Path) -> None:
    found = action(
        tmp_path, 'pressure: {nodes: {name: ["node-a-[01]", node-b-2]}, resource: memory, available: 1}'
    )
    assert isinstance(found, PressNodes)
    assert found.nodes == ("node-a-0", "node-a-1", "node-b-2")


def test_name_of_pods_is_a_prefix_with_or_without_a_star(tmp_path: Path) -> None:
    found = [action(tmp_path, f"workload: {{name: {name}, stop: 1s}}") for name in ("web-", '"web-*"')]
    assert [one.prefix for one in found if isinstance(one, Behave)] == ["web-", "web-"]


def test_quantity_may_be_a_decimal_number(tmp_path: Path) -> None:
    found = action(tmp_path, "workload: {selector: app=web, memory: 2.5e+6}")
    assert isinstance(found, Behave)
    assert found.memory == 2_500_000


def test_reboot_is_a_power_loss_that_ends(tmp_path: Path) -> None:
    step = second(tmp_path, "{at: 2m, reboot: {nodes: {zone: b, pick: 2}, downtime: 1m..2m}}")
    assert step.choices[0].for_us == (MINUTE, 2 * MINUTE)
    assert step.choices[0].pick == Drawn(2, 2, False)


BAD = [
    ("{crash: {actor: storage}}", ":10:7: the step does not say when it happens (give 'at: 5m'"),
    ("{at: 2m, when: no pods exist, compact: {}}", "a step has either 'at' or 'when'"),
    ("{at: 2m, delay: 1s, compact: {}}", "a step has either 'at' or 'delay'"),
    ("{after: second, name: second, compact: {}}", "a step cannot follow itself"),
    ("{after: frist, compact: {}}", "no step is named 'frist'"),
    ("{after: 3m, compact: {}}", "no step is named '3m' ('at: 3m' is a time)"),
    ("{at: 3m, name: 4m, compact: {}}", "a step's name is no time, as '4m' is"),
    ("{at: 2m, cordon: {}}", "the field 'nodes' is missing (nodes: {} is all of them)"),
    ('{at: 2m, workload: {name: "w?b-*", stop: 1s}}', "'w?b-*' cannot begin a name"),
    ("{at: 2m, cordon: {nodes: node-a-0}}", "expected a mapping, got text (it has the fields zone, name, labels, count, pick, among)"),
    ("{at: 2m, fail: {nodes: {}}}", "the field 'how' is missing (one of: power-loss, shutdown, hang"),
    ("{at: 2m, taint: {nodes: {}, taints: [k=v:NoExecute]}}", "got text (as {key: k, value: v, effect: NoExecute})"),
    ("{at: 2m, workload: {selector: {app: web}, stop: 1s}}", "expected text, got a mapping (as app=web"),
    ("{at: 2m, load: {rate: 2, list: pods}}", "got a whole number (so many in a time, as 2/s or 6/h)"),
    ("{at: 2m, workload: {crash: true}}", "unknown field 'crash' (known are: namespace, selector"),
    ("{at: 2m, fail: {nodes: {}, how: hang, for: 2m}}", "unknown field 'for' (it belongs in spec.timeline or spec.hunt)"),
    ("{at: 2m, compact: {}, for: 5s}", "'for' has no effect on compact: it has no end"),
    ("{at: 2m, start: {actor: storage}, for: 5s}", "'for' has no effect on start"),
    ("{at: 2m, crash: {actor: storage, restartAfter: 5s}, for: 5s}", "say the same (give one)"),
    ("{at: 2m, times: 3, compact: {}}", "'times' has no effect without 'every', 'rate' or 'when'"),
    ("{at: 2m, every: 0s, compact: {}}", "cannot repeat without time between"),
    ("{at: 2m, every: 5s, rate: 1/s, compact: {}}", "either 'every' or 'rate'"),
    ("{at: 2m, every: 5s, until: 1m, compact: {}}", "1m is before the step's first time"),
    ("{at: 2m, rate: often, compact: {}}", "'often' is not a rate (write it as 5/s, 6/h or 3/10m)"),
    ("{at: 20m..40m, compact: {}}", "is after the end of the run"),
    ("{at: 2m, random: [{compact: {}}], for: 5s}", "a random step has no end"),
    ("{at: 2m, random: [{weight: 2}]}", "a draw has exactly one action; this one has nothing"),
    ("{at: 2m, random: [{heal: {step: first}}]}", "a draw cannot heal"),
    ("{at: 2m, fail: {nodes: {zone: a, pick: 4}, how: hang}}", "cannot pick 4: there are 3"),
    ("{at: 2m, fail: {nodes: {pick: some}, how: hang}}", "'some' is no number and no share"),
    ("{at: 2m, fail: {nodes: {among: healthy}, how: hang}}", "nothing is drawn (give 'pick'"),
    ("{at: 2m, fail: {nodes: {pick: 1, among: not-yet}, how: hang}}", "'not-yet' has no effect on a step that occurs once"),
    ("{at: 2m, evict: {selector: app=web, pick: 1, among: not-yet}}", "'not-yet' has no effect on a step that occurs once"),
    ("{at: 2m, every: 10s, times: 4, fail: {nodes: {zone: a, pick: 1, among: not-yet}, how: hang}}",
     "4 draws of 1 among 3: the last ones find none left (give 3 or fewer)"),
    ("{at: 2m, name: a/1, compact: {}}", "a step's name has no '/'"),
    ("{at: 2m, storage: {how: slow}}", "'by' is missing"),
    ("{at: 2m, storage: {how: pause, by: 5s}}", "'by' has no effect on 'pause'"),
    ("{at: 2m, overload: {apiServer: apiserver-0}}", "overloads nothing (give by or inflight)"),
    ("{at: 2m, overload: {apiServer: storage, by: 1s}}", "storage is no API server"),
    ("{at: 2m, lag: {apiServer: apiserver-0, by: 0s}}", "0s has no effect"),
    ("{at: 2m, network: {between: [nodes, apiserver]}}", "disturbs nothing"),
    ("{at: 2m, clock: {actor: node-a-0}}", "the clock stays right"),
    ("{at: 2m, workload: {selector: app=web}}", "changes nothing"),
    ("{at: 2m, workload: {selector: app in web, exitAfter: 1s}}", "is not made of label=value pairs"),
    ("{at: 2m, workload: {exitCode: 1}}", "'exitCode' has no effect without 'exitAfter'"),
    ("{at: 2m, workload: {selector: a=b, pullError: gone}}", "an image fails for every pod"),
    ("{at: 2m, pressure: {nodes: {}, resource: memory, available: much}}", "'much' is not a quantity"),
    ("{at: 2m, pressure: {nodes: {}, resource: cpu, available: 1}}", "invalid enum value 'cpu' (one of: memory"),
    ("{at: 2m, delete: {resource: podz, name: x}}", "there is no resource 'podz' (did you mean 'pods'?)"),
    ("{at: 2m, evict: {}}", "evicts either one name or what a selector matches"),
    ("{at: 2m, load: {rate: 1/s}}", "a load does one of create, scale and list"),
    ("{at: 2m, load: {rate: 1/s, list: pods, lifetime: 1s}}", "'lifetime' goes with 'create'"),
    ("{at: 2m, load: {rate: 1/s, create: {kind: Pod}}}", "the object has no apiVersion"),
    ("{at: 2m, load: {rate: 20000/s, list: pods}}", "20000/s is too much (at most 10,000/s)"),
    ("{at: 2m, reboot: {nodes: {name: [node-a-0, node-a-9]}}}", "there is no node 'node-a-9' (did you mean 'node-a-"),
    ('{at: 2m, drain: {nodes: {name: "nod-*"}}}', "there is no node 'nod-*'"),
    ("{at: 2m, drain: {nodes: {zone: [a, q]}}}", "there is no zone 'q' (there are a, b)"),
    ("{at: 2m, cordon: {nodes: {labels: {x: y}}}}", "no node matches this selection (there are 6 nodes in zones a, b)"),
    ("{at: 2m, cordon: {nodes: {zone: a, count: 4}}}", "cannot take the first 4: there are 3"),
    ("{at: 2m, pressure: {nodes: {zone: b}, resource: pid, available: 9}}", "the process numbers of node-b-0 (name pid.available among"),
    ("{at: 2m, stall: {actor: []}}", "the list is empty"),
    ("{at: 2m, partition: {between: [[], apiserver]}}", "the list is empty"),
    ("{at: 2m, partition: {between: [storage, storage]}}", "there is no network between storage and itself"),
    ("{at: 2m, partition: {between: [scheduler, storage]}}", "only API servers reach the storage, scheduler-0 does not"),
    ("{at: 2m, network: {between: [storage, nodes], loss: 0.1}}", "only API servers reach the storage, node-a-0 does not"),
    (
        "{at: 2m, partition: {between: [nodes, [apiserver, storage]]}}",
        "(give between: [apiserver-0, storage], and the rest in a step of its own)",
    ),
    (
        "{at: 2m, partition: {between: [zone a, zone b]}}",
        "no request goes between node-a-0 and node-b-0: every process sends requests to API servers only (name API servers on one side",
    ),
    ("{at: 2m, network: {between: [scheduler, nodes], loss: 0.1}}", "no request goes between scheduler-0 and node-a-0"),
    (
        "{at: 2m, network: {between: [apiserver, nodes], duplication: 0.1, oneWay: true}}",
        "only requests to API servers are carried out twice (swap the groups of 'between')",
    ),
    (
        "{at: 2m, network: {between: [storage, apiserver-0], loss: 0.1, duplication: 0.1}}",
        "only requests to API servers are carried out twice (leave it out)",
    ),
    ("{at: 2m, partition: {between: [scheduler-leader, apiserver]}}", "(name hosts, such as scheduler-0)"),
    ("{at: 2m, workload: {startError: ''}}", "an empty 'startError' is none"),
    ("{at: 2m, workload: {image: i, pullError: ''}}", "an empty 'pullError' is none"),
    ("{at: 2m, metric: {name: m, value: 3}}", "nothing reads metrics in this cluster (give cluster.metrics: true)"),
    ("{at: 2m, metric: {name: '', value: 3}}", "a metric has a name"),
    ("{at: 2m, metric: {name: m}}", "a metric has one of 'value' and 'load'"),
    ("{at: 2m, workload: {load: 3}}", "nothing reads 'load' without metrics (give cluster.metrics: true)"),
    ("{at: 2m, clock: {actor: storage, offset: +-10s}}", "the duration -10s is negative"),
    ("{at: 2m, delete: {resource: pods, name: ''}}", "deletes either one name or what a selector matches"),
    ("{at: 2m, delete: {resource: pods, name: x, propagationPolicy: Now}}", "(one of: Background, Foreground, Orphan)"),
    ("{at: 30s, heal: {step: first}}", "'first' has not begun by then"),
    ("{at: 2m, heal: {step: first}}", "'first' has ended by itself by then"),
    ("{at: 65s, heal: {step: first/2}}", "there is no first/2: it happens once"),
    ("{after: first/2, compact: {}}", "there is no first/2: it happens once"),
    ("{after: end of first, delay: 29m, compact: {}}", "that is 30m10s at the earliest, after the end of the run"),
    ("{after: first, when: any nodes have Ready=Unknown, delay: 30m, compact: {}}", "that is 31m0s at the earliest"),
    ("{at: 4m, every: 26m1s, compact: {}}", "it never repeats: 30m1s is after the end of the run"),
    ("{at: 4m, every: 10s, until: 4m, compact: {}}", "it never repeats: 4m10s is after the step's 'until'"),
    ("{after: first, every: 1m, until: 30s, compact: {}}", "ends before the step's first time, 1m0s at the earliest"),
    ("{at: 2m, name: end of it, compact: {}}", "a step's name has no '/' and no 'end of '"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "says"), BAD, ids=[says for _, says in BAD])
def test_wrong_step_is_one_error_with_its_place(tmp_path: Path, step: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        compiled(tmp_path, step)
    assert says in str(caught.value)
    assert "s.yaml:10:" in str(caught.value)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (
            ("{name: a, after: b, cordon: {nodes: {}}}", "{name: b, after: end of a, cordon: {nodes: {}}}"),
            "a after b after a never comes",
        ),
        (("{at: 30s, heal: {nodes: {zone: a}}}",), "10:23: 'first' has not begun by then"),
        (("{at: 2m, heal: {nodes: {zone: b}}}",), "10:22: no step does anything to these nodes that"),
        (
            ("{at: 2m, delete: {resource: deployments, name: wob}}",),
            "10:54: no deployments default/wob is made",
        ),
        (
            ("{at: 2m, patch: {resource: nodes, name: node-a-7, merge: {spec: {}}}}",),
            "no nodes node-a-7 is made by this scenario (did you mean 'node-a-",
        ),
        (
            ("{at: 2m, pressure: {nodes: {name: node-a-0}, resource: memory, available: 40Gi}}",),
            "node-a-0 has 32Gi: 40Gi is no shortage",
        ),
        (("{at: 2m, for: 0s, fail: {nodes: {}, how: hang}}",), "0s has no effect"),
        (
            ("{at: 2m, every: 1ms, cordon: {nodes: {}}}",),
            "would repeat some 1,800,000 times (at most 100,000",
        ),
        (("{at: 2m, rate: 1000/s, cordon: {nodes: {}}}",), "would repeat some 1,800,000 times"),
        (("{at: 2m, pressure: {nodes: {}, resource: memory, available: -5}}",), "-5 is negative"),
        (("{at: 2m, workload: {selector: app=web, memory: -1}}",), "-1 is negative"),
        (
            ("{at: 2m, name: once, compact: {}}", "{after: end of once, cordon: {nodes: {}}}"),
            "11:15: 'once' has no end (write after: once)",
        ),
        (
            ("{at: 2m, name: on, stall: {actor: storage}}", "{after: end of on, cordon: {nodes: {}}}"),
            "nothing ends 'on' (give it 'for', or heal it)",
        ),
        (
            ("{at: 2m, name: on, compact: {}}", "{at: 3m, heal: {step: on}}"),
            "'on' has no end: there is nothing to heal",
        ),
        (
            (
                "{at: 2m, name: on, every: 1m, times: 3, for: 5s, stall: {actor: storage}}",
                "{at: 3m, heal: {step: on/4}}",
            ),
            "there is no on/4: it happens 3 times at most",
        ),
    ],
)
def test_step_that_can_never_occur_or_act_is_rejected(
    tmp_path: Path, steps: tuple[str, ...], says: str
) -> None:
    with pytest.raises(InputError) as caught:
        compiled(tmp_path, *steps)
    assert says in str(caught.value)


@pytest.mark.parametrize("flag", ["eviction-hard", "--eviction-hard"])
def test_pid_pressure_accepts_the_flag_with_and_without_dashes(tmp_path: Path, flag: str) -> None:
    watched = f"cluster.nodes[0].flags.{flag}='pid.available<10%'"
    step = "{at: 2m, pressure: {nodes: {zone: a}, resource: pid, available: 9}}"
    (tmp_path / "s.yaml").write_text(f"{HEAD}    - {step}\n")
    assert len(load(tmp_path / "s.yaml", [watched]).steps) == 2


def test_occurrence_may_be_followed_and_healed(tmp_path: Path) -> None:
    again = "{at: 2m, name: on, every: 1m, times: 3, for: 5m, stall: {actor: storage}}"
    steps = compiled(
        tmp_path, again, "{after: end of on/2, compact: {}}", "{at: 4m, heal: {step: on/1}}"
    ).steps
    assert steps[2].start.after == "end of on/2"
    assert steps[3].choices[0].action == EndStep("on/1")


@pytest.mark.parametrize(
    "rest",
    ["{at: 3m, heal: {step: on}}", "{at: 3m, heal: {nodes: {}}}", "{at: 3m, start: {actor: node-a-0}}"],
)
def test_step_may_wait_for_an_end_that_another_step_may_bring(tmp_path: Path, rest: str) -> None:
    on = "{at: 2m, name: on, crash: {actor: node-a-0}}"
    assert compiled(tmp_path, on, rest, "{after: end of on, compact: {}}").steps[3].start.after == "end of on"


POD = "{apiVersion: v1, kind: Pod, metadata: {name: db-x, labels: {app: db}}, spec: {containers: [{name: c, image: i}]}}"


@pytest.mark.parametrize(
    ("which", "found"),
    [
        ("selector: app=db", True),
        ("selector: app=wob", False),
        ("selector: 'app=db,controller-revision-hash=1'", True),
        ("namespace: default, name: db-", True),
        ("namespace: shop", False),
        ("name: db-x-1", False),
        ("image: i, container: c", True),
        ("image: j", False),
        ("container: d", False),
        ("nodes: {zone: a}", True),
    ],
)
def test_workload_step_for_pods_that_never_exist_is_rejected(tmp_path: Path, which: str, found: bool) -> None:
    steps = f"{{at: 1m, apply: {{objects: [{POD}]}}}}", f"{{at: 2m, workload: {{{which}, ready: false}}}}"
    if found:
        assert len(compiled(tmp_path, *steps).steps) == 3
        return
    with pytest.raises(InputError) as caught:
        compiled(tmp_path, *steps)
    assert "s.yaml:11:" in str(caught.value)
    assert str(caught.value).endswith("(there are: default app=web,tier=front i; default app=db i)")
