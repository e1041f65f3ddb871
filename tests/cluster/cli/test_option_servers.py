"""Options of the controller manager that name files, or the API server that it uses."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64decode
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.app.serving.serve import served
from sim.errors import InputError
from sim.options.controllers.manager import parse_controller_manager
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from tests.cluster.cli.test_options import Commits, deployment
from tests.cluster.faults.test_volume_binding import claim, storage_class, volume

SCRUB = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "scrub", "labels": {"by": "template"}},
    "spec": {
        "restartPolicy": "Never",
        "volumes": [{"name": "old"}],
        "containers": [{"name": "c", "image": "i", "command": ["true"]}],
    },
}


def config(server: str) -> dict[str, Any]:
    """A client configuration of which the current context uses that server."""
    return {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
    }


@pytest.mark.parametrize(
    ("given", "server"),
    [
        ({}, ""),
        ({"master": "https://apiserver-1:6443"}, "apiserver-1"),
        ({"master": "apiserver-1"}, "apiserver-1"),
        ({"orchconfig": config("https://apiserver-1")}, "apiserver-1"),
        ({"orchconfig": config("https://apiserver-1"), "master": "apiserver-0"}, "apiserver-0"),
    ],
)
def test_master_or_the_client_configuration_names_the_server(given: dict[str, Any], server: str) -> None:
    assert parse_controller_manager(given).server == server


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"orchconfig": {"current-context": "x"}}, "contexts has no entry 'x' with a context"),
        ({"master": "https://"}, "must be the address of an API server"),
        ({"pv-recycler-pod-template-filepath-nfs": {"kind": "Pod"}}, "must be a Pod of v1"),
        (
            {"pv-recycler-pod-template-filepath-nfs": {**SCRUB, "spec": {"containers": []}}},
            "does not contain any volume(s)",
        ),
    ],
)
def test_files_that_cannot_be_used_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_controller_manager(given)
    assert text in str(refused.value)


def test_a_server_that_does_not_exist_is_refused() -> None:
    plan = ClusterPlan(controller_manager=ComponentPlan(flags={"master": "apiserver-7"}))
    with pytest.raises(InputError, match="there is no API server apiserver-7"):
        Cluster(plan)


@pytest.mark.parametrize(
    "flags", [{}, {"master": "https://apiserver-1"}, {"orchconfig": config("apiserver-1")}]
)
async def test_a_manager_with_one_server_does_not_outlive_it(flags: dict[str, Any]) -> None:
    plan = ClusterPlan(api_server=ComponentPlan(2), controller_manager=ComponentPlan(flags=flags))
    async with Cluster(plan) as cluster:
        await cluster.run_for("10s")
        cluster.supervisor["apiserver-1"].crash()
        await cluster.run_for("20s")
        cluster.apply(deployment("web", 1))
        await cluster.run_for("20s")
        assert len(cluster.list("pods")) == (0 if flags else 1)


@pytest.mark.parametrize(
    "flags", [{}, {"master": "https://apiserver-1"}, {"orchconfig": config("apiserver-1")}]
)
async def test_scheduler_with_one_server_does_not_outlive_it(flags: dict[str, Any]) -> None:
    plan = ClusterPlan(
        nodes=plain_nodes(1), api_server=ComponentPlan(2), scheduler=ComponentPlan(flags=flags)
    )
    async with Cluster(plan) as cluster:
        await cluster.run_for("10s")
        cluster.supervisor["apiserver-1"].crash()
        await cluster.run_for("20s")
        cluster.apply(deployment("web", 1))
        await cluster.run_for("20s")
        assert [bool(each["spec"].get("nodeName")) for each in cluster.list("pods")] == [not flags]


async def test_lease_of_a_server_has_its_duration_and_is_renewed_in_time() -> None:
    lasts, renews = "identity-lease-duration-seconds", "identity-lease-renew-interval-seconds"
    for given, wanted in (({}, (3600, 10)), ({lasts: 60, renews: 30}, (60, 30))):
        flags = {"feature-gates": "APIServerIdentity=true", **given}
        async with Cluster(ClusterPlan(api_server=ComponentPlan(flags=flags))) as cluster:
            seen = Commits(cluster, "leases")
            await cluster.run_for("100s")
            found = [(at, obj["spec"]) for at, obj in seen.seen if "apiserver" in obj["metadata"]["name"]]
            gap_s = found[-1][0] - found[-2][0]
            assert (found[-1][1]["leaseDurationSeconds"], int(gap_s)) == wanted


@pytest.mark.parametrize("given", ["hostpath", "nfs"])
async def test_the_pod_that_recycles_is_made_from_the_file(given: str) -> None:
    """The other kind of volume gets the pod that is built in."""
    flags = {f"pv-recycler-pod-template-filepath-{given}": SCRUB}
    plan = ClusterPlan(nodes=plain_nodes(1), controller_manager=ComponentPlan(flags=flags))
    async with Cluster(plan) as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "scrub"}})
        share = volume("nfs", "1Gi", "Recycle")
        del share["spec"]["hostPath"]
        share["spec"]["nfs"] = {"server": "files", "path": "/x"}
        cluster.apply(volume("hostpath", "1Gi", "Recycle"), share)
        cluster.apply(*(claim(name, "1Gi", volumeName=name) for name in ("hostpath", "nfs")))
        await cluster.run_for("20s")
        made = Commits(cluster, "pods")
        for name in ("hostpath", "nfs"):
            cluster.request("delete", "persistentvolumeclaims", "default", name)
        await cluster.run_for("40s")
        labels = {obj["metadata"]["name"]: obj["metadata"].get("labels") for _, obj in made.seen}
        other = "nfs" if given == "hostpath" else "hostpath"
        assert labels == {f"recycler-for-{given}": {"by": "template"}, f"recycler-for-{other}": None}


@pytest.mark.parametrize("given", [True, False])
async def test_tokens_of_secrets_are_signed_by_the_key_of_the_file(given: bool, tmp_path: Path) -> None:
    key, file = rsa.generate_private_key(65537, 2048), tmp_path / "key"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    flags = {"service-account-private-key-file": str(file)} if given else {}
    async with (
        Cluster(ClusterPlan(controller_manager=ComponentPlan(flags=flags))) as cluster,
        served(cluster),
    ):
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "s",
                "namespace": "default",
                "annotations": {f"{cluster.names.domain}/service-account.name": "default"},
            },
            "type": f"{cluster.names.domain}/service-account-token",
        }
        cluster.apply(secret)
        await cluster.run_for("10s")
        token = b64decode((cluster.get("secrets", "s") or {})["data"]["token"]).decode()
        content, _, signature = token.rpartition(".")
        signed = urlsafe_b64decode(signature + "==")
        try:
            key.public_key().verify(signed, content.encode(), PKCS1v15(), SHA256())
            assert given
        except InvalidSignature:
            assert not given


@pytest.mark.parametrize("on", [True, False])
async def test_claim_gets_a_default_class_that_came_later_while_its_gate_is_on(on: bool) -> None:
    gates = ComponentPlan(1, {"feature-gates": f"RetroactiveDefaultStorageClass={str(on).lower()}"})
    plan = ClusterPlan(api_server=gates, controller_manager=gates, scheduler=ComponentPlan(0))
    async with Cluster(plan) as cluster:
        names = cluster.names
        late = claim("late", "1Gi")
        del late["spec"]["storageClassName"]
        cluster.apply(late, claim("none", "1Gi"))
        await cluster.run_for("5s")
        made = storage_class("fast", "disk.example.com")
        annotations = {names.annotation_default_storage_class: "true"}
        cluster.apply({**made, "metadata": {**made["metadata"], "annotations": annotations}})
        await cluster.run_for("30s")
        got = (cluster.get("persistentvolumeclaims", "late") or {})["spec"].get("storageClassName")
        assert got == ("fast" if on else None)
        assert (cluster.get("persistentvolumeclaims", "none") or {})["spec"]["storageClassName"] == ""


async def test_component_statuses_show_what_the_servers_of_daemons_answer() -> None:
    """To see it fail: let `probed` ignore the flags, or the review of rights."""
    reviewed = {
        "authorization-always-allow-paths": "/livez",
        "authorization-kubeconfig": config("https://apiserver-0"),
    }
    plan = ClusterPlan(
        naming="kubernetes",
        controller_manager=ComponentPlan(flags=reviewed),
        scheduler=ComponentPlan(flags={"secure-port": 10258}),
    )
    async with Cluster(plan) as cluster:
        await cluster.run_for("5s")

        def health() -> dict[str, str]:
            found = cluster.request("list", "componentstatuses", "").items or []
            return {each.obj["metadata"]["name"]: each.obj["conditions"][0]["message"] for each in found}

        refused = "dial tcp 127.0.0.1:10259: connect: connection refused"
        assert health()["controller-manager"] == "ok"
        assert health()["scheduler"] == f'Get "https://127.0.0.1:10259/healthz": {refused}'
        binding = "system:public-info-viewer"
        assert cluster.request("delete", "clusterrolebindings", "", binding).ok
        await cluster.run_for("5s")
        assert health()["controller-manager"] == "HTTP probe failed with statuscode: 403"
