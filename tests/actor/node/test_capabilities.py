"""Capabilities of containers, as results of commands show them."""

from typing import Any

import pytest

from sim.units import SECOND
from tests.actor.node.fake import one_node
from tests.actor.node.test_machine_options import log

NONE: dict[str, Any] = {"capabilities": {"drop": ["ALL"]}}
ROOT = "0000000000000000"


def only(*names: str) -> dict[str, Any]:
    return {"capabilities": {"drop": ["ALL"], "add": list(names)}}


async def printed(script: str, security: dict[str, Any], image: str = "busybox", **pod: Any) -> list[str]:
    """What a script prints under a security context, without its errors' texts."""
    container = {"name": "c", "image": image, "command": ["sh", "-c", script], "securityContext": security}
    async with one_node() as (kernel, api, node):
        api.bind("a", {"containers": [container], "restartPolicy": "Never", **pod})
        await kernel.run_until(40 * SECOND)
        return log(node)


# (script, capability that it needs, what it prints without, what with it)
CASES = [
    ("touch f; chown 7 f 2>&1 && echo ok", "CHOWN", "chown: f: Operation not permitted", "ok"),
    ("nc -l -p 80 2>&1 >/dev/null & sleep 1; kill $! 2>/dev/null && echo ok", "NET_BIND_SERVICE",
     "nc: Permission denied", "ok"),
    ("ping -c1 127.0.0.1 2>&1 | head -1", "NET_RAW", "ping: permission denied (are you root?)",
     "PING 127.0.0.1 (127.0.0.1): 56 data bytes"),
    ("cat /secret/f 2>&1", "DAC_OVERRIDE", "cat: can't open '/secret/f': Permission denied", "hidden"),
    ("chmod 644 /secret/f 2>&1 && echo ok", "FOWNER", "chmod: /secret/f: Operation not permitted", "ok"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "name", "without", "having"), CASES)
async def test_root_has_the_rights_of_its_capabilities_only(
    script: str, name: str, without: str, having: str
) -> None:
    writer = {
        "name": "w", "image": "busybox", "command": ["sh", "-c", "echo hidden >/secret/f; chmod 600 /secret/f"],
        "securityContext": {"runAsUser": 7}, "volumeMounts": [{"name": "v", "mountPath": "/secret"}],
    }  # fmt: skip
    for added, expected in (((), without), ((name,), having)):
        container = {
            "name": "c", "image": "busybox", "command": ["sh", "-c", script], "securityContext": only(*added),
            "volumeMounts": [{"name": "v", "mountPath": "/secret"}],
        }  # fmt: skip
        spec = {
            "initContainers": [writer],
            "containers": [container],
            "volumes": [{"name": "v", "emptyDir": {}}],
        }
        async with one_node() as (kernel, api, node):
            api.bind("a", {**spec, "restartPolicy": "Never"})
            await kernel.run_until(60 * SECOND)
            (runtime,) = node.machine.pods.values()
            lines = node.machine.output_of(runtime.newest("c")).lines
            assert lines[0].data.decode().rstrip() == expected


async def test_signals_to_other_users_need_cap_kill() -> None:
    script = "su -s /bin/sh -c 'sleep 50' nobody & sleep 1; kill $! 2>&1 && echo ok"
    assert await printed(script, only("SETUID", "SETGID")) == [
        "sh: can't kill pid 2: Operation not permitted"
    ]
    assert await printed(script, only("SETUID", "SETGID", "KILL")) == ["ok"]


async def test_changes_of_the_user_need_cap_setuid_and_drop_all_capabilities() -> None:
    script = "su -s /bin/sh -c 'id -u; grep CapEff /proc/self/status' nobody 2>&1"
    assert await printed(script, NONE) == ["su: can't set groups: Operation not permitted"]
    assert await printed(script, {}) == ["65534", f"CapEff:\t{ROOT}"]
    assert await printed("gosu 7:8 id -u 2>&1; su-exec nobody id -g", {}, "debian") == ["7", "65534"]


@pytest.mark.parametrize(
    ("security", "shown"),
    [
        ({}, ["00000000a80425fb"] * 3 + ["0"]),
        (NONE, [ROOT] * 3 + ["0"]),
        (only("NET_ADMIN", "CAP_KILL"), ["0000000000001020"] * 3 + ["0"]),
        ({"privileged": True}, ["000001ffffffffff"] * 3 + ["0"]),
        ({"runAsUser": 1000, "allowPrivilegeEscalation": False}, [ROOT, ROOT, "00000000a80425fb", "1"]),
        ({"runAsUser": 1000, "capabilities": {"add": ["ALL"]}}, [ROOT, ROOT, "000001ffffffffff", "0"]),
    ],
)
async def test_proc_shows_the_sets_of_capabilities(security: dict[str, Any], shown: list[str]) -> None:
    script = "grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs)' /proc/self/status | cut -f2"
    assert await printed(script, security) == shown


async def test_sysctls_of_a_pod_open_privileged_ports_and_echo_requests() -> None:
    sysctls = [
        {"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"},
        {"name": "net.ipv4.ping_group_range", "value": "0 10"},
    ]
    script = "ping -q -c1 127.0.0.1 | head -1; nc -l -p 80 & sleep 1; kill $! && echo ok"
    security = {"sysctls": sysctls, "runAsUser": 1000}
    assert await printed(script, {}, securityContext=security) == [
        "PING 127.0.0.1 (127.0.0.1): 56 data bytes",
        "ok",
    ]
