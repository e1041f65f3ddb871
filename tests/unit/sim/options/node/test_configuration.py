"""The agent's configuration file: fields become options, and wrong ones are named with their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.options import idle_options, node_agent_options
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.base import options_of, refusals_of
from sim.options.node.agent import NodeAgentOptions, parse_node_agent
from sim.options.node.configuration import fields_of, with_configuration
from sim.scenario.compile import load
from sim.units import SECOND

HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
OURS = {"apiVersion": "orchlet.config.orch.io/v1beta1", "kind": "OrchletConfiguration"}
NAMED = NAMES["kubernetes"]
SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: example}
spec:
  duration: 1m
  cluster:
    nodes: [{count: 1, flags: {config: agent.yaml, FLAGS}}]
"""


# What kubeadm v1.25 writes to a node.
KUBEADM = """
apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous:
    enabled: false
  webhook:
    cacheTTL: 0s
    enabled: true
  x509:
    clientCAFile: /etc/kubernetes/pki/ca.crt
authorization:
  mode: Webhook
  webhook:
    cacheAuthorizedTTL: 0s
    cacheUnauthorizedTTL: 0s
cgroupDriver: systemd
clusterDNS:
- 10.96.0.10
clusterDomain: cluster.local
cpuManagerReconcilePeriod: 0s
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMinimumGCAge: 0s
kind: KubeletConfiguration
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: "0"
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
"""


def parsed(content: dict[str, Any], **flags: Any) -> NodeAgentOptions:
    given = {name.replace("_", "-"): value for name, value in flags.items()}
    merged, _ = with_configuration({"config": {**HEAD, **content}, **given}, NAMED)
    return parse_node_agent(merged, names=NAMED)


def planned(folder: Path, lines: str, flags: str) -> Any:
    """The first node of a scenario with a configuration file of these lines after its head."""
    head = "".join(f"{key}: {value}\n" for key, value in HEAD.items())
    (folder / "agent.yaml").write_text(head + lines)
    (folder / "scenario.yaml").write_text(SCENARIO.replace("FLAGS", flags))
    return load(folder / "scenario.yaml").cluster


def test_each_type_of_field_becomes_the_value_of_its_option() -> None:
    options = parsed(
        {
            "maxPods": 30,
            "podPidsLimit": 4_000_000_000,
            "syncFrequency": "2m",
            "evictionHard": {"memory.available": "1Gi"},
            "evictionSoft": {},
            "clusterDNS": ["10.0.0.11"],
            "registerWithTaints": [{"key": "a", "value": "b", "effect": "NoSchedule"}, {"key": "c", "effect": "NoExecute"}],
            "shutdownGracePeriodByPodPriority": [{"priority": 5, "shutdownGracePeriodSeconds": 20}],
            "featureGates": {"GracefulNodeShutdown": True},
            "registerNode": False,
            "kubeReserved": {"cpu": "500m"},
            "reservedSystemCPUs": "0-1",
            "containerLogMaxSize": "5Mi",
        }
    )  # fmt: skip
    assert (options.max_pods, options.pod_max_pids, options.sync_frequency_us) == (
        30,
        4 * 10**9,
        120 * SECOND,
    )
    assert (options.eviction_hard, options.cluster_dns) == ({"memory.available": "1Gi"}, ("10.0.0.11",))
    assert [taint["key"] for taint in options.register_with_taints] == ["a", "c"]
    assert options.shutdown_grace_period_by_pod_priority == ((5, 20 * SECOND),)
    assert (options.register_node, options.orch_reserved) == (False, {"cpu": "500m"})
    assert (options.reserved_cpus, options.container_log_max_bytes) == ((0, 1), 5 << 20)


def test_zero_counts_as_given_only_where_the_type_is_a_pointer() -> None:
    options = parsed({"maxPods": 0, "syncFrequency": "0s", "registryPullQPS": 0, "evictionHard": None})
    assert (options.max_pods, options.sync_frequency_us, options.registry_qps) == (110, 60 * SECOND, 0)
    assert options.eviction_hard["memory.available"] == "100Mi"


def test_flag_wins_over_the_file_and_gates_are_merged_one_by_one() -> None:
    gates = {"AppArmor": False, "GracefulNodeShutdown": False}
    options = parsed({"maxPods": 30, "featureGates": gates}, max_pods=40, feature_gates="AppArmor=true")
    assert options.max_pods == 40
    assert options.feature_gates == {"AppArmor": "true", "GracefulNodeShutdown": "false"}


def test_update_frequency_of_the_file_is_that_of_reports_too() -> None:
    assert parsed({"nodeStatusUpdateFrequency": "20s"}).node_status_report_frequency_us == 20 * SECOND
    assert parsed({}, node_status_update_frequency="20s").node_status_report_frequency_us == 300 * SECOND


def test_file_of_either_naming_set_is_read_in_each_cluster() -> None:
    for naming in NAMES.values():
        for content in ({**HEAD, "kubeReserved": {"cpu": "1"}}, {**OURS, "orchReserved": {"cpu": "1"}}):
            merged, _ = with_configuration({"config": content}, naming)
            assert parse_node_agent(merged, names=naming).orch_reserved == {"cpu": "1"}
    with pytest.raises(InputError, match='unknown field "kubeReserved"'):
        with_configuration({"config": {**OURS, "kubeReserved": {}}}, NAMED)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("maxPod: 30\n", "agent.yaml:3:1: unknown field \"maxPod\" (did you mean 'maxPods'?)"),
        (
            "authentication:\n  anonymus: {enabled: true}\n",
            "agent.yaml:4:3: unknown field \"authentication.anonymus\" (did you mean 'anonymous'?)",
        ),
        (
            "maxPods: 30\nmaxPods: 31\n",
            "agent.yaml:4:1: option config: the key 'maxPods' is there twice in one mapping",
        ),
        ("maxPods: many\n", "agent.yaml:3:1: maxPods is 'many', wanted a whole number of 32 bits"),
        ("syncFrequency: 20\n", "agent.yaml:3:1: syncFrequency is 20, wanted a duration"),
        ("memorySwap: 1\n", "agent.yaml:3:1: memorySwap is 1, wanted a mapping"),
        ("registerNode: 'no'\n", "agent.yaml:3:1: registerNode is 'no', wanted true or false"),
        ("registerWithTaints: [{key: a}]\n", "wanted a list of mappings with key, effect"),
        ("maxPods: -1\n", "agent.yaml:3:1: option max-pods is -1, must be at least 0"),
        ("imageGCLowThresholdPercent: 90\n", "image-gc-low-threshold 90 must be less than"),
        ("qosReserved: {memory: 50%}\n", "agent.yaml:3:1: option qos-reserved has no effect here"),
    ],
)
def test_wrong_field_is_refused_with_its_place(tmp_path: Path, lines: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        node_agent_options(planned(tmp_path, lines, "event-qps: 5").nodes[0], NAMES["orch"])
    assert problem in str(caught.value)


def test_kind_and_version_of_the_file_are_checked() -> None:
    for content in ({"maxPods": 1}, {**HEAD, "kind": "Pod"}, {**HEAD, "apiVersion": "v1"}):
        with pytest.raises(
            InputError, match=r"wanted a OrchletConfiguration of .* or a KubeletConfiguration"
        ):
            with_configuration({"config": content}, NAMED)


def test_gate_of_the_file_without_an_effect_is_noted_with_its_place(tmp_path: Path) -> None:
    plan = planned(tmp_path, "featureGates:\n  KubeletTracing: true\n", "max-pods: 40")
    assert node_agent_options(plan.nodes[0], NAMES["orch"]).max_pods == 40
    assert any("agent.yaml:3:1: feature gate KubeletTracing" in note for note in idle_options(plan))


def test_each_field_has_an_option_that_exists_or_is_refused() -> None:
    known = {option.spelled(NAMED) for option in options_of(NodeAgentOptions).values()}
    refused = {name.format(short=NAMED.short) for name in refusals_of("NodeAgentOptions")}
    fields = [field.option for field in fields_of(HEAD, NAMED).values()]
    assert [option for option in fields if option not in known | refused] == []
    assert len({*fields}) == len(fields)


def test_file_that_kubeadm_writes_is_read() -> None:
    options = parsed(yaml.safe_load(KUBEADM), read_only_port=0)
    assert (options.cluster_dns, options.rotate_certificates) == (("10.96.0.10",), True)
    assert (options.anonymous_auth, options.authorization_mode) == (False, "Webhook")
    assert options.sync_frequency_us == 60 * SECOND and options.json_info_buffer == 0
