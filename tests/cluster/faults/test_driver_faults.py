"""What pods and claims show of a driver that is slow, fails or hangs, one driver for each fault."""

from __future__ import annotations

from sim import Cluster

from .test_volume_binding import claim, events, phases
from .test_volume_expansion import pod, volume_of

BROKEN = {
    "slow-provision": {"how": "slow", "operation": "provision", "by": "5s"},
    "failing-provision": {"how": "failing", "operation": "provision", "message": "rpc error: quota"},
    "hanging-provision": {"how": "hanging", "operation": "provision"},
    "failing-attach": {"how": "failing", "operation": "attach", "message": "rpc error: no slot"},
    "hanging-attach": {"how": "hanging", "operation": "attach"},
    "slow-mount": {"how": "slow", "operation": "mount", "factor": 20},
    "hanging-mount": {"how": "hanging", "operation": "mount"},
    "away-from-node": {"how": "away", "nodes": {"name": "node-0"}},
    "slow-attach": {"how": "slow", "operation": "attach", "by": "4s"},
    "slow-detach": {"how": "slow", "operation": "detach", "by": "8s"},
    "hanging-detach": {"how": "hanging", "operation": "detach"},
    "failing-detach": {"how": "failing", "operation": "detach", "message": "rpc error: busy"},
    "failing-unmount": {"how": "failing", "operation": "unmount", "message": "rpc error: in use"},
}
LATE = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"


def driver(name: str) -> str:
    return f"{name}.example.com"


def only(c: Cluster, name: str, reason: str) -> str:
    """The message of the events of this reason, which is one and the same."""
    (text,) = {text for found, text in events(c, name) if found == reason}
    return text


async def test_faults_of_drivers_show_in_events_and_end_when_the_drivers_are_healed() -> None:
    storage = [{"driver": driver(name), "class": name} for name in BROKEN]
    async with Cluster(nodes=1, storage=storage) as c:
        await c.run_for("20s")
        steps = [c.do.driver(name=driver(name), **fault) for name, fault in BROKEN.items()]
        c.apply(*(claim(name, "1Gi", storageClassName=name) for name in BROKEN))
        await c.run_for("4s")
        assert phases(c, "persistentvolumeclaims")["slow-provision"] == "Pending"
        await c.run_for("36s")
        claims = phases(c, "persistentvolumeclaims")
        # A provisioner is given ten seconds, and a failure has a pause of its own for each claim.
        unbound = sorted(name for name, phase in claims.items() if phase == "Pending")
        assert unbound == ["failing-provision", "hanging-provision"]
        for name, error in (("failing-provision", "rpc error: quota"), ("hanging-provision", LATE)):
            text = f'failed to provision volume with StorageClass "{name}": {error}'
            assert only(c, name, "ProvisioningFailed") == text
        c.apply(*(pod(name, "node-0") for name in BROKEN))
        await c.run_for("3s")
        at_once = phases(c, "pods")
        await c.run_for("32s")
        assert (at_once["slow-attach"], at_once["slow-detach"]) == ("Pending", "Pending")
        volumes = {name: volume_of(c, name)["metadata"]["name"] for name in BROKEN if name not in unbound}
        running = sorted(name for name, phase in phases(c, "pods").items() if phase == "Running")
        assert running == [
            *("failing-detach", "failing-unmount", "hanging-detach", "slow-attach", "slow-detach"),
            *("slow-mount", "slow-provision"),
        ]
        for name, error in (("failing-attach", "rpc error: no slot"), ("hanging-attach", LATE)):
            text = f'AttachVolume.Attach failed for volume "{volumes[name]}" : {error}'
            assert only(c, name, "FailedAttachVolume") == text
        text = f'MountVolume.MountDevice failed for volume "{volumes["away-from-node"]}" : '
        assert "code = Unavailable" in only(c, "away-from-node", "FailedMount").removeprefix(text)
        # A mount that hangs ends after two minutes, as the wait of the pod does.
        await c.run_for("110s")
        texts = [text for reason, text in events(c, "hanging-mount") if reason == "FailedMount"]
        waits = [
            text
            for text in texts
            if text.startswith("Unable to attach or mount volumes: unmounted volumes=[v],")
        ]
        assert waits and all(text.endswith(" v]: timed out waiting for the condition") for text in waits)
        # A disk that cannot be detached stays, and a pod that cannot be unmounted too.
        ended = ("failing-detach", "failing-unmount", "hanging-detach", "slow-detach")
        for name in ended:
            assert c.request("delete", "pods", "default", name, body={"gracePeriodSeconds": 1}).ok
        await c.run_for("6s")
        held = {one["spec"]["source"]["persistentVolumeName"] for one in c.list("volumeattachments")}
        assert volumes["slow-detach"] in held
        await c.run_for("20s")
        assert "failing-detach" not in phases(c, "pods") and "failing-unmount" in phases(c, "pods")
        errors = {
            one["spec"]["source"]["persistentVolumeName"]: one["status"].get("detachError", {}).get("message")
            for one in c.list("volumeattachments")
        }
        assert errors[volumes["failing-detach"]] == "rpc error: busy"
        assert errors[volumes["hanging-detach"]] == LATE
        assert errors[volumes["failing-unmount"]] is None and volumes["slow-detach"] not in errors
        for step in steps:
            c.do.heal(step=step)
        await c.run_for("10m")
        assert c.refused == () and len(c.list("volumeattachments")) == len(BROKEN) - len(ended)
        assert phases(c, "pods") == {name: "Running" for name in BROKEN if name not in ended}
