"""The scheduler has the volumes of a pod bound before it binds the pod."""

from tests.actor.test_scheduler import N, a_rig

LATE = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "d.example"}


async def storage(rig, volumes=()):
    """Create a class of claims that wait for a pod, a claim `c` of it, and volumes of it."""
    api = N.api_version("storage", "v1")
    await rig.create(
        "storageclasses", {"apiVersion": api, "kind": "StorageClass", "metadata": {"name": "late"}, **LATE}
    )
    common = {"storageClassName": "late", "accessModes": ["ReadWriteOnce"]}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "default"},
    }
    claim["spec"] = {**common, "resources": {"requests": {"storage": "1Gi"}}}
    await rig.create("persistentvolumeclaims", claim, "default")
    for name in volumes:
        spec = {**common, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/d"}}
        await rig.create(
            "persistentvolumes",
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec},
        )
        await rig.change("persistentvolumes", name, {"status": {"phase": "Available"}}, subresource="status")


async def use(rig, name="web"):
    await rig.pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])


async def bind_claim(rig, volume):
    marks = {N.annotation_bind_completed: "yes"}
    body = {"metadata": {"annotations": marks}, "spec": {"volumeName": volume}}
    await rig.change("persistentvolumeclaims", "c", body, "default")


async def failures(rig):
    return [event["message"] for event in await rig.events("FailedScheduling")]


async def test_pod_is_bound_a_second_after_its_volume_was_reserved_and_bound():
    async with a_rig() as rig:
        await rig.node("n1")
        await storage(rig, ["v1"])
        await use(rig)
        await rig.run_s(0.5)
        volume = (await rig.ask("get", "persistentvolumes", name="v1")).obj
        assert volume["spec"]["claimRef"]["name"] == "c"
        assert volume["metadata"]["annotations"] == {N.annotation_bound_by_controller: "yes"}
        await rig.run_s(5)
        assert await rig.node_of("web") is None  # the claim is not bound yet
        await bind_claim(rig, "v1")
        await rig.run_s(1.1)
        assert await rig.node_of("web") == "n1"
        assert await failures(rig) == []


async def test_pod_waits_for_its_volume_until_the_time_out_and_tries_again():
    async with a_rig(**{"bind-timeout": "3s"}) as rig:
        await rig.node("n1")
        await storage(rig)
        await use(rig)
        await rig.run_s(4)
        claim = (await rig.ask("get", "persistentvolumeclaims", "default", "c")).obj
        assert claim["metadata"]["annotations"][N.annotation_selected_node] == "n1"
        text = 'running PreBind plugin "VolumeBinding": binding volumes: timed out waiting for the condition'
        assert await failures(rig) == [text]
        await rig.run_s(2)  # the next attempt waits again
        # A provisioner that cannot make the volume there takes the choice back.
        marks = {N.annotation_selected_node: "n2"}
        await rig.change("persistentvolumeclaims", "c", {"metadata": {"annotations": marks}}, "default")
        await rig.run_s(1)
        failed = 'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "c"'
        assert await failures(rig) == [text, failed]


async def test_new_claim_wakes_a_pod_that_was_refused_for_it():
    async with a_rig() as rig:
        await rig.node("n1")
        await use(rig)
        await rig.run_s(2)
        assert '1 persistentvolumeclaim "c" not found' in (await failures(rig))[0]
        await storage(rig, ["v1"])
        await bind_claim(rig, "v1")
        await rig.run_s(5)
        assert await rig.node_of("web") == "n1"
