"""When a volume of a pod is looked up, mounted, tried again and unmounted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from actors.node.pod_work import WAIT, Work
from actors.node.runtime.mounts import Device
from sim.api.types import Obj, Reply
from sim.options.storage_drivers import DriverFault, StorageDriver, StorageDrivers
from tests.unit.actors.node.volumes.fake_agent import DISK, UNIQUE, Agent, Worker, agent

FAILS = DriverFault("failing", ("mount",), text="no")
NO_UNMOUNT = DriverFault("failing", ("unmount",), text="busy")
LOST = DriverFault("hanging", ("mount",))
GROUP = {"fsGroup": 5}
ON_MISMATCH = {"fsGroup": 5, "fsGroupChangePolicy": "OnRootMismatch"}


def mounted(one: Agent, uid: str = "u", at_s: float = 2, **spec: Any) -> Worker:
    """A pod with volumes that are mounted by then."""
    worker = Worker(one, uid, **spec)
    worker.mount()
    one.run(at_s)
    assert worker.result == ""
    return worker


def calls(one: Agent, operation: str = "mount") -> list[float]:
    return [round(at, 1) for at, what in one.calls if what == operation]


# --- registration ---------------------------------------------------------------------------------


def test_csi_node_is_created_once_and_after_the_node() -> None:
    with agent() as one:
        node, one.node = one.node, {}
        one.manager.register()
        assert one.writes == []
        one.node = node
        one.manager.register()
        one.manager.register()
        assert [verb for verb, _ in one.writes] == ["create", "patch"]
        assert one.writes[0][1]["spec"]["drivers"][0]["name"] == DISK


@pytest.mark.parametrize(("held", "verbs"), [("same", []), ("other", ["update"]), ("none", [])])
def test_csi_node_that_exists_is_updated_if_it_is_wrong(held: str, verbs: list[str]) -> None:
    with agent() as one:
        one.manager.register()
        wanted = one.writes[0][1]
        again = Agent(one.drivers)
        if held != "none":
            again.objects["csinodes", "n1"] = {**wanted, "spec": wanted["spec"] if held == "same" else {}}
        again.created = Reply(409, body={"reason": "AlreadyExists"})
        again.manager.register()
        again.run(1)
        assert [verb for verb, _ in again.writes] == ["create", "read", "patch", *verbs]


@pytest.mark.parametrize("of", ["machine", "status", "nothing"])
def test_volumes_in_use_are_reported_at_the_registration(of: str) -> None:
    mounts = {UNIQUE: Device(DISK, True, {"u": "data"})} if of == "machine" else {}
    one = Agent(StorageDrivers(), mounts)
    if of == "status":
        one.node = {**one.node, "status": {"volumesInUse": [UNIQUE]}}
    one.manager.register()
    assert one.reports == {"machine": [[UNIQUE]], "status": [[]], "nothing": []}[of]


# --- the wait of a worker -------------------------------------------------------------------------


@pytest.mark.parametrize("volume", [{"name": "d", "emptyDir": {}}, {"name": "d", "hostPath": {"path": "/x"}}])
def test_pod_with_plain_directories_has_no_managed_volumes(volume: Obj) -> None:
    with agent() as one:
        worker = Worker(one, volumes=[volume])
        assert worker.mount() is False
        worker.unmount()
        assert (worker.result, one.calls) == ("", [])
        one.manager.forget("u")


def test_mount_is_seen_at_the_next_poll_of_the_worker() -> None:
    with agent(mount_us=550_000) as one:
        worker = Worker(one)
        worker.mount()
        one.run(0.59)
        assert (worker.result, one.mounted) == (None, {UNIQUE: ["u"]})
        one.run(0.6)
        assert worker.result == ""


def test_wait_ends_after_its_time_and_names_the_volumes() -> None:
    with agent() as one:
        one.drivers.set_faults(DISK, [LOST])
        worker = Worker(one)
        worker.mount()
        one.run(122.9)
        assert worker.result is None
        one.run(123)
        text = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data]: "
        assert worker.result == text + "timed out waiting for the condition"
        assert ("FailedMount", worker.result) in one.events


def test_end_of_a_wait_does_not_continue_what_the_worker_does_after_it() -> None:
    with agent() as one:
        worker, steps = Worker(one), list[str]()
        one.manager.begin(worker)  # type: ignore[arg-type]

        def work() -> Work:
            steps.append((yield from one.manager.mount(worker)))  # type: ignore[arg-type]
            yield WAIT
            steps.append("woken")
            return ""

        worker.work = work()
        worker.proceed(worker.work)
        one.run(200)
        assert steps == [""]


def test_claim_that_is_not_bound_ends_the_wait_and_is_looked_up_at_the_next() -> None:
    with agent(claimed=False) as one:
        one.claim(phase="Pending")
        worker = Worker(one)
        for second in (1, 2):
            worker.mount()
            one.run(second)
            assert worker.result is not None and worker.result.endswith("PVC is not bound")
        one.claim()
        worker.mount()
        one.run(4)
        assert worker.result == ""


def test_wait_that_begins_during_a_look_up_mounts_once() -> None:
    with agent() as one:
        worker = Worker(one)
        worker.mount()
        worker.mount()
        one.run(2)
        assert (worker.result, calls(one)) == ("", [0.0])


def test_newest_object_of_a_pod_counts() -> None:
    with agent(claimed=False) as one:
        one.claim(phase="Pending", volumeMode="Block")
        worker = Worker(one)
        worker.mount()
        one.run(1)
        one.claim(volumeMode="Block")
        worker.pod = Worker(one, device=True).pod
        worker.mount()
        one.run(3)
        assert worker.result == ""


# --- attachment -----------------------------------------------------------------------------------


def test_disk_is_in_use_before_it_is_attached_and_until_it_is_unmounted() -> None:
    with agent(attach_required=True) as one:
        worker = Worker(one)
        worker.mount()
        one.run(1)
        assert (one.manager.in_use(), one.reports, one.mounted) == ([UNIQUE], [[UNIQUE]], {})
        one.attach()
        one.run(3)
        assert worker.result == ""
        worker.unmount()
        assert one.manager.in_use() == [UNIQUE]
        one.run(4)
        assert (one.manager.in_use(), one.reports) == ([], [[UNIQUE], []])


@pytest.mark.parametrize(("attached", "used"), [(True, False), (False, True)])
def test_disk_is_mounted_only_if_both_lists_of_the_node_have_it(attached: bool, used: bool) -> None:
    with agent(attach_required=True) as one:
        one.attach(used=used)
        if not attached:
            one.node["status"]["volumesAttached"] = []
        Worker(one).mount()
        one.run(100)
        assert one.mounted == {}


def test_attachment_is_looked_at_after_delays_that_double_up_to_two_minutes() -> None:
    with agent(attach_required=True, mount_us=0) as one:
        worker = Worker(one)
        worker.mount()
        one.run(70)  # looks at 0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5 and 127.5 s
        one.attach()
        one.run(122)
        assert calls(one) == []
        one.run(200)
        assert calls(one) == [127.5]


def test_delay_of_a_mount_does_not_continue_that_of_the_attachment() -> None:
    with agent(attach_required=True, mount_us=0) as one:
        one.drivers.set_faults(DISK, [FAILS])
        Worker(one).mount()
        one.run(70)
        one.attach()
        one.run(129.1)
        assert calls(one) == [127.5, 128.0, 129.0]


@pytest.mark.parametrize(
    ("known", "required", "inline", "used"),
    [
        (True, True, False, True),
        (True, False, False, False),
        (False, True, False, True),
        (True, True, True, False),
    ],
)
def test_disks_that_a_controller_attaches_are_in_use(
    known: bool, required: bool, inline: bool, used: bool
) -> None:
    with agent(known, attach_required=required) as one:
        volumes = [{"name": "data", "csi": {"driver": DISK}}] if inline else None
        Worker(one, **({"volumes": volumes} if volumes else {})).mount()
        one.run(1)
        assert bool(one.manager.in_use()) is used


def test_volumes_in_use_are_reported_when_they_change() -> None:
    with agent(attach_required=True) as one:
        Worker(one, "u").mount()
        Worker(one, "v").mount()
        one.run(1)
        assert one.reports == [[UNIQUE]]


def test_disk_without_attachment_is_not_in_use_while_it_is_mounted() -> None:
    path = {"name": "h", "hostPath": {"path": "/x", "type": "DirectoryOrCreate"}}
    with agent(mount_us=5_000_000) as one:
        other = mounted(one, "h", 1, volumes=[path])
        Worker(one).mount()
        one.run(2)
        other.unmount()
        one.run(3)
        assert (other.result, one.reports) == ("", [])


def test_pod_that_ends_before_its_disk_is_attached_uses_it_no_longer() -> None:
    with agent(attach_required=True) as one:
        worker = Worker(one)
        worker.mount()
        one.run(1)
        worker.unmount()
        one.run(2)
        assert (worker.result, one.manager.in_use()) == ("", [])
        one.attach()
        one.run(300)
        assert one.mounted == {}


# --- mounts ---------------------------------------------------------------------------------------


def test_failed_mount_is_tried_again_after_delays_that_double_up_to_two_minutes() -> None:
    with agent(mount_us=0) as one:
        one.drivers.set_faults(DISK, [FAILS])
        Worker(one).mount()
        one.run(1000)
        gaps = [round(after - before, 1) for before, after in pairwise(calls(one))]
        assert gaps[:8] == [0.5, 1, 2, 4, 8, 16, 32, 64]
        assert gaps[8:] == [122] * 7
        text = 'MountVolume.MountDevice failed for volume "pv" : no'
        assert one.events.count(("FailedMount", text)) == len(calls(one))


def test_delay_of_a_volume_begins_again_after_a_success() -> None:
    with agent(mount_us=0, unmount_us=0) as one:
        one.drivers.set_faults(DISK, [FAILS])
        worker = Worker(one)
        worker.mount()
        one.run(5)
        one.drivers.set_faults(DISK, [NO_UNMOUNT])
        one.run(20)
        worker.unmount()
        one.run(23)
        first, second, third = calls(one, "unmount")
        assert (round(second - first, 1), round(third - second, 1)) == (0.5, 1)


@pytest.mark.parametrize("block", [True, False])
def test_events_of_devices_have_their_own_reasons(block: bool) -> None:
    with agent(claimed=False) as one:
        one.claim(volumeMode="Block" if block else "Filesystem")
        one.drivers.set_faults(DISK, [FAILS])
        worker = Worker(one, device=block)
        worker.mount()
        one.run(1)
        one.drivers.set_faults(DISK, [])
        one.run(5)
        assert worker.result == ""
        reasons = [reason for reason, _ in one.events]
        assert reasons[0] == ("FailedMapVolume" if block else "FailedMount")
        assert reasons.count("SuccessfulMountVolume") == block


@pytest.mark.parametrize(
    ("policy", "context", "delays_s"),
    [
        ("ReadWriteOnceWithFSType", GROUP, [10, 10]),
        ("ReadWriteOnceWithFSType", ON_MISMATCH, [10, 0]),
        ("ReadWriteOnceWithFSType", None, [0, 0]),
        ("None", GROUP, [0, 0]),
        ("File", GROUP, [10, 10]),
        ("File", None, [0, 0]),
    ],
)
def test_change_of_the_group_of_files_takes_its_time(
    policy: str, context: Obj | None, delays_s: list[int]
) -> None:
    with agent(mount_us=0, unmount_us=0, fs_group_us=10_000_000, fs_group_policy=policy) as one:
        for number, delay_s in enumerate(delays_s):
            start_s = 100 * number + 50
            one.run(start_s)
            worker = Worker(one, f"u{number}", **({"securityContext": context} if context else {}))
            worker.mount()
            one.run(start_s + delay_s - 0.1)
            assert bool(one.mounted) is False
            one.run(start_s + delay_s + 0.1)
            assert bool(one.mounted) is True
            one.run(start_s + 20)
            worker.unmount()
            one.run(start_s + 21)


@pytest.mark.parametrize(("fs_type", "delay_s"), [("", 0), ("ext4", 10)])
def test_group_of_files_is_left_to_a_driver_without_a_file_system(fs_type: str, delay_s: int) -> None:
    for policy in ("ReadWriteOnceWithFSType", "File"):
        with agent(claimed=False, mount_us=0, fs_group_us=10_000_000, fs_group_policy=policy) as one:
            one.claim(csi={"driver": DISK, "volumeHandle": "h1", "fsType": fs_type})
            Worker(one, securityContext=GROUP).mount()
            one.run(9)
            assert bool(one.mounted) is (policy != "File" and not delay_s)


@pytest.mark.parametrize(
    ("device", "failing", "takes_s"), [(False, False, 30), (True, False, 0), (False, True, 0)]
)
def test_relabelling_of_files_delays_a_mount_that_succeeds(device: bool, failing: bool, takes_s: int) -> None:
    with agent(claimed=False, mount_us=0, selinux_us=30_000_000, fs_group_us=30_000_000) as one:
        one.claim(volumeMode="Block" if device else "Filesystem")
        if failing:
            one.drivers.set_faults(DISK, [FAILS])
        Worker(one, device=device, **({"securityContext": GROUP} if failing else {})).mount()
        one.run(29)
        seen = bool(one.events) if failing else bool(one.mounted)
        assert seen is (takes_s == 0)


@pytest.mark.parametrize("others", [True, False])
def test_disk_of_one_pod_alone_is_refused_to_another(others: bool) -> None:
    with agent(claimed=False, mount_us=0) as one:
        one.manager._alone = True
        one.claim(accessModes=["ReadWriteOncePod"])
        one.machine.mounts[UNIQUE] = Device(DISK, False, {"other" if others else "u": "data"})
        Worker(one).mount()
        one.run(1)
        refused = [text for _, text in one.events if "already in use by another pod" in text]
        assert bool(refused) is others


def test_missing_path_of_the_node_is_a_failed_mount() -> None:
    with agent() as one:
        path = {"name": "h", "hostPath": {"path": "/data", "type": "Directory"}}
        worker = Worker(one, volumes=[path])
        worker.mount()
        one.run(1)
        assert worker.result is None
        assert one.events[0] == (
            "FailedMount",
            'MountVolume.SetUp failed for volume "h" : hostPath type check failed: /data is not a directory',
        )


# --- the end --------------------------------------------------------------------------------------


def test_volume_is_gone_once_the_driver_has_unmounted_it() -> None:
    with agent(unmount_us=5_000_000) as one:
        worker = mounted(one)
        worker.unmount()
        one.run(6.9)
        assert (worker.result, one.mounted) == (None, {UNIQUE: ["u"]})
        one.run(7.2)
        assert (worker.result, one.mounted) == ("", {})


def test_failed_unmount_is_a_decision_and_tried_again() -> None:
    with agent(unmount_us=0) as one:
        worker = mounted(one)
        one.drivers.set_faults(DISK, [NO_UNMOUNT])
        worker.unmount()
        one.run(3)
        what, why = one.decisions[0]
        assert (what, why) == (
            "unmount-fails pods/default/u",
            {"volume": "data", "error": "busy", "wait_us": 500_000},
        )
        one.drivers.set_faults(DISK, [])
        one.run(10)
        assert (worker.result, one.mounted) == ("", {})


def test_wait_for_an_unmount_ends_after_its_time() -> None:
    with agent() as one:
        worker = mounted(one)
        one.drivers.set_faults(DISK, [NO_UNMOUNT])
        worker.unmount()
        one.run(125)
        assert worker.result == "mounted volumes=[data]: timed out waiting for the condition"


def test_volume_of_two_pods_stays_until_the_last_has_ended() -> None:
    with agent() as one:
        first, second = mounted(one, "u", 2), mounted(one, "v", 4)
        first.unmount()
        one.run(5)
        assert one.mounted == {UNIQUE: ["v"]}
        second.unmount()
        one.run(6)
        assert one.mounted == {}


@pytest.mark.parametrize("fails", [False, True])
def test_mount_under_way_at_the_end_of_a_pod_is_undone(fails: bool) -> None:
    with agent(mount_us=5_000_000, unmount_us=0) as one:
        if fails:
            one.drivers.set_faults(DISK, [FAILS])
        worker = Worker(one)
        worker.mount()
        one.run(1)
        worker.unmount()
        one.run(4.9)
        assert worker.result is None
        one.run(6)
        assert (worker.result, one.mounted, one.events) == ("", {}, [])
        assert calls(one, "unmount") == ([] if fails else [5.0])


def test_file_system_of_an_ended_pod_is_not_made_larger() -> None:
    for ends in (False, True):
        with agent() as one:
            expansions = one.manager._expansion = Expansions()  # type: ignore[assignment]
            worker = Worker(one)
            worker.mount()
            one.run(0.2)
            if ends:
                worker.unmount()
            one.run(3)
            assert expansions.mounts == ([] if ends else ["u"])


def test_mount_that_waits_for_its_next_try_is_given_up_at_the_end_of_a_pod() -> None:
    with agent(mount_us=0) as one:
        one.drivers.set_faults(DISK, [FAILS])
        worker = Worker(one)
        worker.mount()
        one.run(1)
        count = len(calls(one))
        worker.unmount()
        one.run(10)
        assert (worker.result, len(calls(one))) == ("", count)


def test_disk_that_is_found_after_the_end_of_a_pod_is_not_mounted() -> None:
    with agent() as one:
        worker = Worker(one)
        worker.mount()
        worker.unmount()
        one.run(2)
        assert (worker.result, one.calls) == ("", [])


def test_pod_that_ends_twice_is_unmounted_once() -> None:
    with agent(unmount_us=1_000_000) as one:
        worker = mounted(one)
        worker.unmount()
        worker.unmount()
        one.manager.forget("u")
        one.run(5)
        assert calls(one, "unmount") == [2.0]


def test_forgotten_pod_loses_its_mounts() -> None:
    with agent(attach_required=True) as one:
        one.attach()
        mounted(one)
        one.manager.forget("u")
        one.run(5)
        assert (one.mounted, one.manager.in_use()) == ({}, [])


# --- an earlier incarnation -----------------------------------------------------------------------


def restarted(one: Agent) -> Agent:
    """The next incarnation of the agent, on the same machine."""
    again = Agent(StorageDrivers([StorageDriver(DISK, attach_required=False)]), one.machine.mounts)
    again.claim()
    return again


def test_mount_of_an_earlier_incarnation_is_taken_over() -> None:
    with agent() as one:
        mounted(one)
        again = restarted(one)
        worker = Worker(again)
        worker.mount()
        again.run(1)
        assert (worker.result, again.calls) == ("", [])
        other = Worker(again, "v")
        other.mount()
        again.run(3)
        assert (other.result, calls(again)) == ("", [1.0])


@pytest.mark.parametrize("runs", [True, False])
def test_mounts_of_pods_that_left_are_undone_after_a_restart(runs: bool) -> None:
    with agent() as one:
        mounted(one)
        again = restarted(one)
        again.manager.reconstruct(lambda uid: runs)
        again.run(2)
        assert again.mounted == ({UNIQUE: ["u"]} if runs else {})


def test_mount_of_a_driver_that_is_gone_needs_no_call() -> None:
    with agent() as one:
        mounted(one)
        again = Agent(StorageDrivers(), one.machine.mounts)
        again.manager.reconstruct(lambda uid: False)
        assert again.mounted == {}


# --- growth ---------------------------------------------------------------------------------------


class Expansions:
    """Records which pods' file systems are to grow, instead of the driver's work."""

    def __init__(self) -> None:
        self.online_calls: list[str] = []
        self.mounts: list[str] = []

    def during_mount(self, pod: Obj, target: Any, then: Any) -> None:
        self.mounts.append(pod["metadata"]["uid"])
        then("")

    def online(self, pod: Obj, target: Any, wanted: Any) -> None:
        assert wanted()
        self.online_calls.append(pod["metadata"]["uid"])


@pytest.mark.parametrize(("expands_us", "resyncs"), [(1, ["u"]), (0, [])])
def test_larger_disk_is_seen_at_the_next_sync_of_its_pods(expands_us: int, resyncs: list[str]) -> None:
    with agent(node_expand_us=expands_us) as one:
        expansions = one.manager._expansion = Expansions()  # type: ignore[assignment]
        worker = mounted(one)
        one.objects["persistentvolumes", "other"] = {}
        mounted(one, "h", 4, volumes=[{"name": "h", "hostPath": {"path": "/x", "type": "DirectoryOrCreate"}}])
        one.drivers.grown("pv")
        assert one.resyncs == resyncs
        worker.mount()
        worker.mount()
        assert expansions.online_calls == resyncs


def test_disk_of_an_ended_pod_grows_unseen() -> None:
    with agent() as one:
        worker = mounted(one)
        worker.unmount()
        one.run(5)
        one.drivers.grown("pv")
        assert one.resyncs == []


def test_growth_is_of_no_use_while_a_volume_is_being_unmounted() -> None:
    with agent(unmount_us=5_000_000) as one:
        expansions = one.manager._expansion = Expansions()  # type: ignore[assignment]
        worker = mounted(one)
        worker.unmount()
        one.drivers.grown("pv")
        one.manager.begin(worker)  # type: ignore[arg-type]
        assert expansions.online_calls == []


def test_mount_that_is_taken_over_follows_its_disk() -> None:
    with agent() as one:
        mounted(one)
        again = restarted(one)
        expansions = again.manager._expansion = Expansions()  # type: ignore[assignment]
        worker = mounted(again)
        assert expansions.online_calls == ["u"]
        again.drivers.grown("pv")
        assert (again.resyncs, worker.result) == (["u"], "")
