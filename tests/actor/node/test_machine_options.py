"""Options about the machine, each with two values: what programs, volumes and the status show."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

from actors.node.node import Node
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from actors.node.server.logs import read_log
from sim.api.go.printing import go_float
from sim.api.types import Obj
from sim.app.options import check_options
from sim.app.plain_plan import plain_nodes
from sim.errors import InputError
from sim.options.node.agent import NodeAgentOptions, parse_node_agent
from sim.scenario.plan.plan import ClusterPlan
from sim.units import SECOND
from tests.actor.node.fake import NAMES_USED, one_node

MI = 1 << 20


def options(**flags: Any) -> NodeAgentOptions:
    given = {name.replace("_", "-"): value for name, value in flags.items()}
    return parse_node_agent(given, names=NAMES_USED)


def spec(script: str, **fields: Any) -> Obj:
    container = {"name": "c", "image": "busybox", "command": ["sh", "-c", script], **fields}
    return {"containers": [container], "restartPolicy": "Never"}


def log(node: Node, name: str = "a") -> list[str]:
    return read_log(node.machine.agent, "default", name, "c")[1].split("\n")[:-1]


async def printed(
    used: NodeAgentOptions, script: str, machine: NodeSpec | None = None, **fields: Any
) -> list[str]:
    """The output of a script on a node with these options."""
    async with one_node(machine, used) as (kernel, api, node):
        api.bind("a", spec(script, **fields))
        await kernel.run_until(30 * SECOND)
        return log(node)


async def mounts(used: NodeAgentOptions, path: str, kind: str) -> bool:
    """True if a hostPath volume of this type can be mounted."""
    async with one_node(None, used) as (kernel, api, _):
        volume = {"name": "v", "hostPath": {"path": path, "type": kind}}
        container = {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        api.bind("a", {"containers": [container], "volumes": [volume]})
        await kernel.run_until(40 * SECOND)
        return "containerStatuses" in api.pod("a")["status"] and "running" in str(api.pod("a")["status"])


@pytest.mark.parametrize(
    ("flags", "profile", "shown"),
    [
        ({}, None, "0"),
        ({"seccomp_default": True}, None, "2"),
        ({"seccomp_default": True}, "Unconfined", "0"),
        ({}, "RuntimeDefault", "2"),
    ],
)
async def test_seccomp_default_filters_containers_without_a_profile(
    flags: dict[str, Any], profile: str | None, shown: str
) -> None:
    context = {"securityContext": {"seccompProfile": {"type": profile}}} if profile else {}
    assert await printed(options(**flags), "grep Seccomp /proc/self/status", **context) == [
        f"Seccomp:\t{shown}"
    ]


@pytest.mark.parametrize(
    ("flags", "path", "kind", "found"),
    [
        ({}, "/var/lib/kubelet/pods", "Directory", True),
        ({"root_dir": "/data/agent"}, "/var/lib/kubelet/pods", "Directory", False),
        ({"root_dir": "/data/agent"}, "/data/agent/pods", "Directory", True),
        ({}, "/opt/flex", "Directory", False),
        ({"volume_plugin_dir": "/opt/flex"}, "/opt/flex", "Directory", True),
        ({}, "/run/agent.lock", "File", False),
        ({"lock_file": "/run/agent.lock"}, "/run/agent.lock", "File", True),
        ({}, "/run/containerd/containerd.sock", "Socket", True),
        ({"container_runtime_endpoint": "unix:///run/crio.sock"}, "/run/containerd/containerd.sock", "Socket", False),
        ({"container_runtime_endpoint": "unix:///run/crio.sock"}, "/run/crio.sock", "Socket", True),
        ({}, "/run/images.sock", "Socket", False),
        ({"image_service_endpoint": "unix:///run/images.sock"}, "/run/images.sock", "Socket", True),
        ({}, "/var/lib/kubelet/pki", "Directory", True),
        ({"cert_dir": "/etc/pki-own"}, "/var/lib/kubelet/pki", "Directory", False),
        ({"cert_dir": "/etc/pki-own"}, "/etc/pki-own", "Directory", True),
        ({}, "/sys/fs/cgroup/kubepods", "Directory", True),
        ({"cgroup_driver": "systemd"}, "/sys/fs/cgroup/kubepods", "Directory", False),
        ({"cgroup_driver": "systemd"}, "/sys/fs/cgroup/kubepods.slice", "Directory", True),
        ({"cgroup_root": "/own"}, "/sys/fs/cgroup/own/kubepods", "Directory", True),
        ({}, "/sys/fs/cgroup/own/kubepods", "Directory", False),
        ({"cgroups_per_qos": False, "enforce_node_allocatable": ""}, "/sys/fs/cgroup/kubepods", "Directory", False),
    ],
)  # fmt: skip
async def test_paths_of_the_agent_are_on_the_machine(
    flags: dict[str, Any], path: str, kind: str, found: bool
) -> None:
    assert await mounts(options(**flags), path, kind) is found


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({}, ["pods"]),
        ({"kubelet_cgroups": "/k"}, ["kubelet", "pods"]),
        ({"runtime_cgroups": "/r"}, ["runtime", "pods"]),
        ({"system_cgroups": "/s", "cgroup_root": "/"}, ["misc", "pods"]),
    ],
)
async def test_summary_shows_the_control_groups_of_daemons(flags: dict[str, Any], names: list[str]) -> None:
    from actors.node.server.pages.figures import Figures
    from actors.node.server.pages.summary import summary

    async with one_node(None, options(**flags)) as (_, __, node):
        agent = node.machine.agent
        shown = summary(agent, Figures(agent))["node"]["systemContainers"]
        assert [one["name"] for one in shown] == names


@pytest.mark.parametrize(("protect", "shown"), [(False, "1"), (True, "0")])
async def test_agent_sets_the_kernels_values_unless_they_are_protected(protect: bool, shown: str) -> None:
    machine = NodeSpec("n1", sysctls={"vm.overcommit_memory": "0"})
    used = options(protect_kernel_defaults=protect)
    assert await printed(used, "cat /proc/sys/vm/overcommit_memory", machine) == [shown]


@pytest.mark.parametrize(
    ("machine", "flags", "text"),
    [
        ({"sysctls": {"kernel.panic": "0"}}, {}, ""),
        ({"sysctls": {"kernel.panic": "0"}}, {"protect-kernel-defaults": True},
         "invalid kernel flag: kernel/panic, expected value: 10, actual value: 0"),
        ({"swap_bytes": 1 << 30}, {}, "running with swap on is not supported"),
        ({"swap_bytes": 1 << 30}, {"fail-swap-on": False}, ""),
        ({}, {"memory-swap-behavior": "UnlimitedSwap"}, "cannot be set when NodeSwap feature flag is disabled"),
        ({}, {"memory-swap-behavior": "x", "feature-gates": "NodeSwap=true"}, 'must be one of: "", "LimitedSwap"'),
        ({}, {"seccomp-default": True, "feature-gates": "SeccompDefault=false"}, "the SeccompDefault feature gate"),
        ({}, {"system-cgroups": "/s"}, "cgroup-root was not specified"),
    ],
)  # fmt: skip
def test_machine_with_which_no_agent_starts_is_refused(
    machine: dict[str, Any], flags: dict[str, Any], text: str
) -> None:
    plan = ClusterPlan(nodes=(replace(plain_nodes(1)[0], flags=flags, **machine),))
    if not text:
        check_options(plan)
        return
    with pytest.raises(InputError) as error:
        check_options(plan)
    assert text in error.value.message


async def test_swap_is_in_proc_and_in_free() -> None:
    machine = NodeSpec("n1", swap_bytes=1 << 30)
    shown = await printed(options(fail_swap_on=False), "cat /proc/swaps; free -m | tail -1", machine)
    assert shown[1].split() == ["/dev/sda2", "partition", "1048576", "0", "-2"]
    assert shown[2].split() == ["Swap:", "1024", "0", "1024"]


@pytest.mark.parametrize(
    ("behavior", "reason", "limit"), [("LimitedSwap", "OOMKilled", "0"), ("UnlimitedSwap", "", "max")]
)
async def test_unlimited_swap_lets_containers_exceed_their_memory(
    behavior: str, reason: str, limit: str
) -> None:
    used = options(fail_swap_on=False, feature_gates="NodeSwap=true", memory_swap_behavior=behavior)
    rule = Rule(ContainerBehaviour(memory_bytes=150 * MI), pod_prefix="big")
    machine = NodeSpec("n1", swap_bytes=100 * MI, profile=RuntimeProfile(rules=(rule,)))
    limits = {"resources": {"limits": {"memory": "100Mi"}}}
    async with one_node(machine, used) as (kernel, api, node):
        api.bind("big", {"containers": [{"name": "c", "image": "i", **limits}], "restartPolicy": "Never"})
        api.bind("a", spec("cat /sys/fs/cgroup/memory.swap.max", **limits))
        await kernel.run_until(30 * SECOND)
        state = api.pod("big")["status"]["containerStatuses"][0]["state"]
        assert state.get("terminated", {}).get("reason", "") == reason
        assert log(node) == [limit]


@pytest.mark.parametrize("files", [1_000_000, 5000])
async def test_open_files_are_in_the_agents_metrics(files: int) -> None:
    from actors.node.server.pages.figures import Figures
    from actors.node.server.pages.metrics import main_metrics

    async with one_node(None, options(max_open_files=files)) as (_, __, node):
        agent = node.machine.agent
        assert (
            f"process_max_fds {go_float(files)}" in main_metrics(agent, Figures(agent), {}, {}).body.decode()
        )


PROVIDERS = {
    "kind": "CredentialProviderConfig",
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "providers": [
        {
            "name": "own",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1",
            "matchImages": ["*.example.com/team"],
            "defaultCacheDuration": "1h",
        }
    ],
}
WITH_PROVIDER = {
    "image_credential_provider_config": PROVIDERS,
    "image_credential_provider_bin_dir": "/plugins",
}
IMAGE = "registry.example.com/team/app:1"


@pytest.mark.parametrize(
    ("flags", "registry", "reason"),
    [
        ({}, "", "ErrImagePull"),
        ({}, "registry.example.com", ""),
        ({}, "https://registry.example.com/v1/", ""),
        ({}, "other.example.com", "ErrImagePull"),
        (WITH_PROVIDER, "", ""),
        ({**WITH_PROVIDER, "image_credential_provider_bin_dir": ""}, "", "ErrImagePull"),
        ({**WITH_PROVIDER, "image_credential_provider_config": {}}, "", "ErrImagePull"),
        ({**WITH_PROVIDER, "feature_gates": "KubeletCredentialProviders=false"}, "", "ErrImagePull"),
    ],
)
async def test_private_image_needs_a_secret_or_a_provider(
    flags: dict[str, Any], registry: str, reason: str
) -> None:
    machine = NodeSpec("n1", profile=RuntimeProfile(private_images=("registry.example.com/*",)))
    async with one_node(machine, options(**flags)) as (kernel, api, _):
        config = b64encode(json.dumps({"auths": {registry: {"auth": "eDp5"}}}).encode()).decode()
        secret = {"metadata": {"name": "s", "namespace": "default"}, "data": {".dockerconfigjson": config}}
        api.put("secrets", {**secret, "type": "kubernetes.io/dockerconfigjson"})
        secrets = [{"name": "missing"}, *([{"name": "s"}] if registry else [])]
        api.bind("a", {"containers": [{"name": "c", "image": IMAGE}], "imagePullSecrets": secrets})
        await kernel.run_until(30 * SECOND)
        state = api.pod("a")["status"]["containerStatuses"][0]["state"]
        assert state.get("waiting", {}).get("reason", "") in (reason, "ImagePullBackOff" if reason else "")
        failed = [text for _, text in api.events("Failed")]
        assert any("pull access denied" in text for text in failed) is bool(reason)


@pytest.mark.parametrize(("limit", "code"), [(-1, 0), (3, 2), (6, 0)])
async def test_pod_max_pids_fails_the_fork_of_a_shell(limit: int, code: int) -> None:
    async with one_node(None, options(pod_max_pids=limit)) as (kernel, api, node):
        api.bind("a", spec("for i in 1 2 3 4; do sleep 5 & done; wait; echo done"))
        await kernel.run_until(40 * SECOND)
        ended = api.pod("a")["status"]["containerStatuses"][0]["state"]["terminated"]
        assert ended["exitCode"] == code
        assert ("Resource temporarily unavailable" in log(node)[0]) is (code > 0)


@pytest.mark.parametrize(("namespace", "host"), [("default", "10.0.0.1"), ("other", "10.0.0.2")])
async def test_master_service_is_of_the_named_namespace(namespace: str, host: str) -> None:
    used = options(master_service_namespace=namespace)
    async with one_node(None, used) as (kernel, api, node):
        for where, address in (("default", "10.0.0.1"), ("other", "10.0.0.2")):
            meta = {"name": "kubernetes", "namespace": where}
            api.put("services", {"metadata": meta, "spec": {"clusterIP": address, "ports": [{"port": 443}]}})
        one = spec("echo $KUBERNETES_SERVICE_HOST")
        api.bind("a", {**one, "enableServiceLinks": False})
        await kernel.run_until(30 * SECOND)
        assert log(node) == [host]
