"""Further timing cases as scenarios: what the facts give for leases and clocks that a user changes,
for controller managers that restart during a wait, and for schedules, quotas and deletions.

The numbers of each case were computed from the facts before it was run; comments show them.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.scenario import WEB, run, step, within

LEASE = "leases named orch-controller-manager"
MANAGER = {"actor": "controller-manager-0"}
ENDING = {"nodes": [{"count": 3, "zones": ["a", "b", "c"], "runtime": {"exitAfter": "5s"}}]}
TWO_MANAGERS = {"controllerManager": {"replicas": 2}}
PLAIN = {"containers": [{"name": "c", "image": "r/c:1"}]}
Case = tuple[list[Any], list[Any], dict[str, Any]]


def job(name: str, **spec: Any) -> dict[str, Any]:
    runs = {"name": "c", "image": "r/c:1", "command": ["sleep", "infinity"]}
    template = {"spec": {"containers": [runs], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def cron_job(schedule: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": job("")["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "cron"},
        "spec": {"schedule": schedule, "jobTemplate": template, **spec},
    }


def web(**spec: Any) -> dict[str, Any]:
    return {**WEB, "spec": {**WEB["spec"], **spec}}


def spread_out() -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.orch.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    template = WEB["spec"]["template"]
    return web(template={**template, "spec": {**template["spec"], "topologySpreadConstraints": [constraint]}})


def later(what: Any, low: str, high: str, after: str) -> dict[str, Any]:
    return {**within(what, low, high), "after": after}


def never(what: Any, **window: Any) -> dict[str, Any]:
    return {"name": f"never {what}", "never": what, **window}


def count(what: Any, number: int, **window: Any) -> dict[str, Any]:
    return {"name": f"{number} {what}", "count": what, "equals": number, **window}


def then(action: str, body: Any, at: str, name: str) -> dict[str, Any]:
    return {"at": at, "name": name, action: body}


LOG = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "log"}, "spec": PLAIN}
MOUNT = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}


def user(name: str, uses: dict[str, Any]) -> dict[str, Any]:
    """A pod with a container that uses a ConfigMap `late`."""
    spec = {
        "containers": [{"name": "c", "image": "r/c:1", **uses}],
        "volumes": [{"name": "v", "configMap": {"name": "late"}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


SOFT = {
    "eviction-soft": "memory.available<500Mi",
    "eviction-soft-grace-period": "memory.available=30s",
    "eviction-max-pod-grace-period": 7,
}
PATIENT = {
    "leader-elect-lease-duration": "30s",
    "leader-elect-renew-deadline": "20s",
    "leader-elect-retry-period": "5s",
}
READY = {"name": "c", "image": "r/db:1", "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1}}
DB = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "db"},
    "spec": {
        "replicas": 3,
        "serviceName": "db",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"terminationGracePeriodSeconds": 20, "containers": [READY]},
        },
    },
}


def slow(name: str, image: str = "r/c:1", **spec: Any) -> dict[str, Any]:
    """A pod with a minute of grace."""
    whole = {"terminationGracePeriodSeconds": 60, "containers": [{"name": "c", "image": image}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


MISSING_NODE = then("fail", {"nodes": {"name": "node-a-0"}, "how": "power-loss"}, "1m", "dies")
GONE = step("delete", {"resource": "nodes", "name": "node-a-0"})
PODS_OF_IT = {"removed": "pods", "where": {"node": "node-a-0"}}
CRON_OUTAGE = then("crash", {**MANAGER, "restartAfter": "200s"}, "90s", "down")

# timeline, expectations, more of the scenario
CASES: dict[str, Case] = {
    # Its next renewal finds no lease and creates it, within the retry period; no other candidate
    # may lead before.
    "a lease that a user deletes is made anew by its leader": (
        [step("delete", {"resource": "leases", "namespace": "orch-system", "name": "orch-controller-manager"})],
        [
            within(f"{LEASE} are held", "0s", "2.1s"),
            count({"created": "leases", "where": {"name": "orch-controller-manager"}}, 1, after="it"),
            never(f"{LEASE} have spec.leaseTransitions>=1"),
        ],
        {"cluster": TWO_MANAGERS},
    ),
    # candidates see the stranger within 4.4 s and wait 15 s by their own clocks, and up to 4.4 s
    # for their next look
    "a lease that a stranger holds is taken over when it is old": (
        [step("loseLease", {"component": "controller-manager", "holder": "somebody"})],
        [within(f"{LEASE} have spec.leaseTransitions=1", "15s", "23.9s")],
        {"cluster": TWO_MANAGERS},
    ),
    # 10 to 10.4 s of its own are 14.3 to 14.9 s
    "a node whose clock is slow by a third is not taken for dead": (
        [step("clock", {"actor": "node-a-0", "offset": "0s", "driftPpm": -300_000}, **{"for": "5m"})],
        [never("any nodes have Ready=Unknown")],
        {},
    ),
    # the grace of 40 s is 20 s, less a renewal's 10.4 s, and a pass of 2.5 s; 300 s are 150 s
    "a controller manager whose clock runs twice as fast evicts in half the time": (
        [
            then("clock", {**MANAGER, "offset": "0s", "driftPpm": 1_000_000}, "1m", "fast"),
            step("fail", {"nodes": {"zone": "a"}, "how": "power-loss"}),
        ],
        [
            within("all nodes in zone a have Ready=Unknown", "9.5s", "23.1s"),
            within({"deleted": "pods"}, "162s", "176s"),
            never({"deleted": "pods"}, until="it"),
        ],
        {},
    ),
    # 40 s from the first of the loops (each 20 s) that misses the node, found by one of them
    "pods of a removed node go after forty to eighty seconds": (
        [MISSING_NODE, GONE],
        [within(PODS_OF_IT, "40s", "80.1s")],
        {},
    ),
    # The quarantine is in memory: it restarts when the next leader has started, 13 to 23.8 s after
    # the crash.
    "a new leader begins the quarantine of a removed node anew": (
        [MISSING_NODE, GONE, then("crash", {**MANAGER, "restartAfter": "1s"}, "2m35s", "crash")],
        [later(PODS_OF_IT, "53s", "84.5s", "crash")],
        {},
    ),
    # 61 s: later than the last change's whole second + 60 s; the condition is in the API, not in
    # memory
    "a rollout's deadline outlives its controller": (
        [
            then("workload", {"image": "r/web:1", "pullError": "gone"}, "1m", "broken"),
            step("apply", {"objects": [web(progressDeadlineSeconds=60)]}),
            then("crash", {**MANAGER, "restartAfter": "1s"}, "2m20s", "crash"),
        ],
        [within("all deployments have Progressing=False", "60s", "62.1s")],
        {"objects": []},
    ),
    "a finished Job's time to live outlives its controller": (
        [
            step("apply", {"objects": [job("j", activeDeadlineSeconds=10, ttlSecondsAfterFinished=60)]}),
            then("crash", {**MANAGER, "restartAfter": "1s"}, "2m30s", "crash"),
        ],
        [
            within("all jobs have Failed=True", "10s", "11.2s"),
            within({"removed": "jobs"}, "70s", "72.5s"),
        ],
        {"objects": []},
    ),
    # down from 90 to 290 s and no leader before 300 s: of the runs at 120 to 300 s the latest is
    # made up for
    "of the runs that a CronJob missed the latest is started": (
        [then("apply", {"objects": [cron_job("* * * * *")]}, "30s", "it"), CRON_OUTAGE],
        [
            later({"created": "jobs"}, "10s", "24.5s", "end of down"),
            count({"created": "jobs", "where": {"name": "cron-*"}}, 4, until="7m50s"),
        ],
        {"objects": [], "cluster": ENDING},
    ),
    # none of the missed ones is less than ten seconds late: 60, then 360, 420 and (not yet) 480 s
    "a CronJob with a starting deadline makes up for none": (
        [
            then("apply", {"objects": [cron_job("* * * * *", startingDeadlineSeconds=4)]}, "30s", "it"),
            then("crash", {**MANAGER, "restartAfter": "210s"}, "90s", "down"),
        ],
        [
            never({"created": "jobs"}, after="90s", until="5m59s"),
            count({"created": "jobs"}, 3, until="7m50s"),
        ],
        {"objects": [], "cluster": ENDING},
    ),
    # suspended before 240 s, resumed after 360 s: that run, at once; the next at 480 s
    "a CronJob that goes on starts the latest run of its pause at once": (
        [
            then("apply", {"objects": [cron_job("*/2 * * * *")]}, "30s", "it"),
            then("patch", {"resource": "cronjobs", "name": "cron", "merge": {"spec": {"suspend": True}}}, "150s", "pause"),
            then("patch", {"resource": "cronjobs", "name": "cron", "merge": {"spec": {"suspend": False}}}, "370s", "on"),
        ],
        [
            never({"created": "jobs"}, after="pause", until="on"),
            later({"created": "jobs"}, "0s", "0.5s", "on"),
            count({"created": "jobs"}, 1, after="on", until="7m59s"),
        ],
        {"objects": [], "cluster": ENDING},
    ),
    # Two at a time: two runs of 5 s, about 3 s to report each end and 1 s until the Job's sync.
    "a quota lets a Job's pods follow those that ended": (
        [step("apply", {"objects": [job("j", parallelism=4, completions=4)]})],
        [
            within("all jobs have Complete=True", "14s", "26s"),
            count({"created": "pods"}, 4),
            never("at least 3 pods are Running"),
        ],
        {
            "objects": [
                {
                    "apiVersion": "v1",
                    "kind": "ResourceQuota",
                    "metadata": {"name": "q"},
                    "spec": {"hard": {"pods": "2"}},
                }
            ],
            "cluster": ENDING,
        },
    ),
    # a cordoned zone counts as an empty domain: one pod each in the two others, until it is back
    "a spread constraint counts a cordoned zone": (
        [
            then("cordon", {"nodes": {"zone": "c"}}, "1m", "closed"),
            step("apply", {"objects": [spread_out()]}),
            then("uncordon", {"nodes": {"zone": "c"}}, "4m", "open"),
        ],
        [
            within("exactly 2 pods are Running", "0s", "5s"),
            never("at least 3 pods are Running", after="it", until="open"),
            later("at least 6 pods are Running", "0s", "5s", "open"),
        ],
        {"objects": []},
    ),
    # A mirror is only a copy: the agent creates it again, nothing restarts, and taints do not move
    # it.
    "a static pod stays whatever becomes of its mirror and of its node": (
        [
            then("delete", {"resource": "pods", "name": "log-node-a-0"}, "1m", "mirror"),
            step("fail", {"nodes": {"name": "node-a-0"}, "how": "power-loss"}),
        ],
        [
            later({"created": "pods", "where": {"name": "log-node-a-0"}}, "0s", "1.1s", "mirror"),
            never("pods named log-* have status.containerStatuses[0].restartCount>=1"),
            within("nodes named node-a-0 have taint unreachable:NoExecute", "34.6s", "50.8s"),
            never({"deleted": "pods", "where": {"name": "log-*"}}, after="it"),
            count({"created": "pods", "where": {"name": "log-*"}}, 4),
        ],
        {"objects": [], "cluster": {"nodes": [{"count": 3, "zones": ["a", "b", "c"], "staticPods": [LOG]}]}},
    ),
    # Renewed at 110 s, failed at 115 s: observed within 5.01 s, found by the first pass more than
    # 40 s after that.
    "leases without jitter are renewed at whole multiples of ten seconds": (
        [then("fail", {"nodes": {"zone": "a"}, "how": "power-loss"}, "115s", "it")],
        [within("any nodes have Ready=Unknown", "35s", "40.1s")],
        {"cluster": {"nodes": [{"count": 3, "zones": ["a", "b", "c"], "leaseJitter": False}]}},
    ),
    # the agent tries again 10 to 16 s after each failure, and a mount at doubling intervals: 1 s,
    # 2, 4 ... 64 s after the first
    "pods whose ConfigMap comes late start when they try next": (
        [
            then("apply", {"objects": [user("env", {"envFrom": [{"configMapRef": {"name": "late"}}]}), user("vol", MOUNT)]}, "1m", "pods"),
            step("apply", {"objects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}]}),
        ],
        [
            never("any pods are Running", until="it"),
            later({"event": "FailedMount"}, "0s", "1.5s", "pods"),
            within("pods named env are Running", "0s", "18s"),
            within("pods named vol are Running", "3s", "8s"),
        ],
        {"objects": []},
    ),
    # a status pass within 10.4 s, NoSchedule at once, NoExecute with the next pass over the nodes;
    # the timers end with it
    "a node whose network is back for a while says so within one period": (
        [step("fail", {"nodes": {"zone": "a"}, "how": "network-cut"}, **{"for": "58s"})],
        [
            within("any nodes have Ready=Unknown", "29.6s", "45.6s"),
            later("all nodes have Ready=True", "0s", "10.5s", "end of it"),
            later("no nodes have taint unreachable:NoExecute", "0s", "15.7s", "end of it"),
            never({"deleted": "pods"}),
        ],
        {},
    ),
    # seen at the first of the checks each 10 s, acted on when it has been so for 30 s, 7 s from
    # SIGTERM to SIGKILL
    "a soft threshold has its grace, and its pods no more than theirs": (
        [
            then("workload", {"stop": "never"}, "1m", "stubborn"),
            step("pressure", {"nodes": {"zone": "a"}, "resource": "memory", "available": "400Mi"}),
        ],
        [
            within("any nodes have MemoryPressure=True", "0s", "20.5s"),
            within({"event": "Evicted"}, "30s", "40.1s"),
            within("any pods are Failed and status.reason=Evicted", "37s", "47.3s"),
        ],
        {"cluster": {"nodes": [{"count": 3, "zones": ["a", "b", "c"], "flags": SOFT}]}},
    ),
    # 24 of 32 GiB are used up after 150 of 200 s; looked at each 10 s
    "memory that shrinks slowly has its first victim at the check after the threshold": (
        [step("pressure", {"nodes": {"zone": "a"}, "resource": "memory", "available": "0", "ramp": "200s"})],
        [within({"event": "Evicted"}, "150s", "160.1s")],
        {"cluster": {"nodes": [{"count": 3, "zones": ["a", "b", "c"], "flags": {"eviction-hard": "memory.available<25%"}}]}},
    ),
    # one group after the other: 10 s for priorities up to 999, then 5 s, then 3 s
    "a shutdown by priorities gives each its time": (
        [
            then("workload", {"stop": "never"}, "1m", "stubborn"),
            step("fail", {"nodes": {}, "how": "shutdown"}),
        ],
        [
            within("any nodes have Ready=False", "0s", "0.2s"),
            within("pods named low are Failed", "10s", "11s"),
            within("pods named brief are Failed", "2s", "3s"),
            within("pods named mid are Failed", "15s", "16s"),
            within("pods named top are Failed", "18s", "19.5s"),
        ],
        {
            "objects": [
                {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "mid"}, "value": 1500},
                slow("low"), slow("brief", terminationGracePeriodSeconds=2), slow("mid", priorityClassName="mid"),
                slow("top", priorityClassName="system-cluster-critical"),
            ],
            "cluster": {"nodes": [{"count": 1, "flags": {"shutdown-grace-period-by-pod-priority": "0=10s,1000=5s,2000000000=3s"}}]},
        },
    ),
    # 30 s less a renewal's 5 s, and up to two looks of 11 s more
    "a standby follows by the durations that it was given": (
        [step("crash", {"actor": "controller-manager-leader"})],
        [within(f"{LEASE} have spec.leaseTransitions=1", "25s", "52s")],
        {"cluster": {"controllerManager": {"replicas": 2, "flags": PATIENT}}},
    ),
    # from the last ordinal down to the partition: 20 s of grace each, and 10 s until the next is
    # ready
    "a partition keeps the lower ordinals of a StatefulSet as they are": (
        [
            then("workload", {"readyAfter": "10s", "stop": "never"}, "30s", "slow"),
            step("patch", {"resource": "statefulsets", "name": "db", "merge": {"spec": {"template": {"spec": {"containers": [{**READY, "image": "r/db:2"}]}}}}}),
        ],
        [
            within({"removed": "pods", "where": {"name": "db-2"}}, "20s", "23.5s"),
            within({"removed": "pods", "where": {"name": "db-1"}}, "50s", "61s"),
            never({"deleted": "pods", "where": {"name": "db-0"}}, after="it"),
        ],
        {"objects": [DB]},
    ),
    # the first ten at once, the others fail, and are tried again after 10 to 16 s
    "pulls beyond the registry's rate fail and are tried again": (
        [step("apply", {"objects": [slow(f"p{n}", f"r/i{n}:1") for n in range(14)]})],
        [
            within("at least 10 pods are Running", "5s", "9.5s"),
            never("at least 11 pods are Running", until="2m12s"),
            within("at least 14 pods are Running", "15s", "25s"),
        ],
        {"objects": [], "cluster": {"nodes": [{"count": 1, "runtime": {"imagePull": "5s"}, "flags": {"serialize-image-pulls": False}}]}},
    ),
    # 30 s of grace, and no new pods during that time.
    "a deletion in the foreground waits for pods that ignore it": (
        [
            then("workload", {"selector": "app=web", "stop": "never"}, "1m", "stubborn"),
            step("delete", {"resource": "deployments", "name": "web", "propagationPolicy": "Foreground"}),
        ],
        [within({"removed": "deployments"}, "30s", "34s"), never({"created": "pods"}, after="it")],
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
async def test_what_follows_comes_in_its_time(case: str, tmp_path: Path) -> None:
    timeline, expect, more = CASES[case]
    await run(tmp_path, timeline, expect, **more)
