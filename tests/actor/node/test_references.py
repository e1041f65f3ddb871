"""Pods wait for their ConfigMaps and Secrets: a volume delays the pod, a variable its container."""

from typing import Any

import pytest

from sim.options.node.agent import parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import FakeApi, one_node

VOLUMES = {
    "volumes": [
        {"name": "tmp", "emptyDir": {}},
        {"name": "conf", "configMap": {"name": "web"}},
        {"name": "spare", "secret": {"secretName": "nobody-mounts-it"}},
    ]
}


def container(**more: Any) -> dict[str, Any]:
    return {"name": "c", "image": "img:1", **more}


def config(api: FakeApi, name: str = "web", **data: str) -> None:
    api.put(
        "configmaps", {"kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}
    )


def state(api: FakeApi) -> tuple[str, str, str]:
    """The container's state, reason and message."""
    ((kind, held),) = api.pod("web")["status"]["containerStatuses"][0]["state"].items()
    return kind, held.get("reason", ""), held.get("message", "")


async def test_container_waits_for_objects_of_its_variables() -> None:
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "web", "key": "a"}}}
    async with one_node() as (kernel, api, _):
        api.bind("web", {"containers": [container(env=[variable])]})
        await kernel.run_until(25 * SECOND)
        assert state(api) == ("waiting", "CreateContainerConfigError", 'configmap "web" not found')
        config(api, b="1")
        # the third attempt's sync shows the second one's result
        await kernel.run_until(56 * SECOND)
        assert state(api)[2] == "couldn't find key a in ConfigMap default/web"
        config(api, a="1")
        await kernel.run_until(74 * SECOND)
        assert state(api)[0] == "running"
        assert api.pod("web")["status"]["containerStatuses"][0]["restartCount"] == 0
        texts = [text for _, text in api.events("Failed")]
        assert texts[0] == 'Error: configmap "web" not found' and len(texts) <= 6


async def test_pod_waits_for_objects_of_its_volumes_with_doubling_retries() -> None:
    mounts = [{"name": "conf", "mountPath": "/conf"}, {"name": "tmp", "mountPath": "/tmp"}]
    async with one_node() as (kernel, api, _):
        api.bind("web", {"containers": [container(volumeMounts=mounts)], **VOLUMES})
        await kernel.run_until(160 * SECOND)
        assert state(api) == ("waiting", "ContainerCreating", "")
        times = [at for at, text in api.events("FailedMount") if text.startswith("MountVolume.SetUp")]
        first = times[0]
        assert [round((at - first) / SECOND, 1) for at in times[:8]] == [
            0,
            0.5,
            1.5,
            3.5,
            7.5,
            15.5,
            31.5,
            63.5,
        ]
        texts = [text for _, text in api.events("FailedMount")]
        assert texts[0] == 'MountVolume.SetUp failed for volume "conf" : configmap "web" not found'
        (late,) = [at for at, text in api.events("FailedMount") if text.startswith("Unable")]
        assert round((late - first) / SECOND) == 123
        assert (
            "Unable to attach or mount volumes: unmounted volumes=[conf], unattached volumes=[tmp conf spare]: "
            "timed out waiting for the condition"
        ) in texts
        config(api)
        await kernel.run_until(first + 265 * SECOND)  # once more after the pause, then after 122 s
        assert state(api)[0] == "running"


async def test_optional_or_unmounted_references_do_not_delay_a_pod() -> None:
    source = {"configMapRef": {"name": "none", "optional": True}}
    volumes = [{"name": "conf", "configMap": {"name": "none", "optional": True}}, VOLUMES["volumes"][2]]
    mounts = [{"name": "conf", "mountPath": "/conf"}]
    async with one_node() as (kernel, api, _):
        api.bind(
            "web", {"containers": [container(envFrom=[source], volumeMounts=mounts)], "volumes": volumes}
        )
        await kernel.run_until(22 * SECOND)
        assert state(api)[0] == "running"


async def test_silent_api_delays_only_pods_with_references() -> None:
    async with one_node() as (kernel, api, _):
        config(api)
        api.failing = (("get", "configmaps"),)
        api.bind("plain")
        api.bind("web", {"containers": [container(envFrom=[{"configMapRef": {"name": "web"}}])]})
        await kernel.run_until(25 * SECOND)
        assert api.ready("plain")
        assert state(api)[2] == "failed to sync configmap cache: timed out waiting for the condition"
        api.failing = ()
        await kernel.run_until(42 * SECOND)
        assert api.ready("web")


async def test_invalid_variable_names_of_whole_objects_cause_an_event() -> None:
    sources = [
        {"configMapRef": {"name": "web", "optional": True}},
        {"configMapRef": {"name": "web"}, "prefix": "P_"},
    ]
    key = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "web", "key": "1a"}}}
    async with one_node() as (kernel, api, _):
        config(api, **{"1a": "x", "b": "y", "0": "z"})
        api.bind("web", {"containers": [container(envFrom=sources, env=[key])]})
        await kernel.run_until(22 * SECOND)
        assert api.ready("web")
        assert [text for _, text in api.events("InvalidEnvironmentVariableNames")] == [
            "Keys [0, 1a] from the EnvFrom configMap default/web were skipped since they are considered invalid "
            "environment variable names."
        ]


async def test_optional_reference_waits_while_api_does_not_confirm_absence() -> None:
    source = {"secretRef": {"name": "none", "optional": True}}
    async with one_node() as (kernel, api, _):
        api.failing = (("get", "secrets"),)
        api.bind("web", {"containers": [container(envFrom=[source])]})
        await kernel.run_until(25 * SECOND)
        assert state(api)[2] == "failed to sync secret cache: timed out waiting for the condition"
        api.failing = ()
        await kernel.run_until(42 * SECOND)
        assert api.ready("web")


NAME = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
LABEL = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['dir']"}}}


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("$(POD)/logs", ""),
        ("$(POD)/$(B)/$(A)", "missing value for A, B"),
        ("$(ROOT)", "error SubPath `/abs` must not be an absolute path"),
        ("$(UP)/x", "unable to provision SubPath `../x`: must not contain '..'"),
        ("$(POD)$$(POD)", ""),
        ("$(CONFIGURED)", ""),
    ],
)
async def test_path_of_a_mount_is_made_of_variables_or_refused(path: str, problem: str) -> None:
    configured = {"name": "CONFIGURED", "valueFrom": {"configMapKeyRef": {"name": "web", "key": "a"}}}
    literal = [{"name": "ROOT", "value": "/abs"}, {"name": "UP", "value": ".."}]
    mounts = [{"name": "tmp", "mountPath": "/tmp", "subPathExpr": path}]
    made = container(env=[NAME, LABEL, configured, *literal], volumeMounts=mounts)
    async with one_node() as (kernel, api, _):
        config(api, a="1")
        api.bind("web", {"containers": [made], **VOLUMES})
        await kernel.run_until(25 * SECOND)
        if problem:
            assert state(api) == ("waiting", "CreateContainerConfigError", problem)
        else:
            assert state(api)[0] == "running"


@pytest.mark.parametrize(("host", "addresses"), [(True, "10.9.9.9,fd00::1"), (False, "10.200.0.2")])
async def test_variable_of_pod_addresses_holds_both_of_the_node(host: bool, addresses: str) -> None:
    variable = {"name": "IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}
    mounts = [{"name": "tmp", "mountPath": "/tmp", "subPathExpr": "../$(IPS)"}]
    made = container(env=[variable], volumeMounts=mounts)
    async with one_node(options=parse_node_agent({"node-ip": "10.9.9.9,fd00::1"})) as (kernel, api, _):
        config(api, a="1")
        api.bind("web", {"containers": [made], "hostNetwork": host, **VOLUMES})
        await kernel.run_until(25 * SECOND)
        assert f"`../{addresses}`" in state(api)[2]
