"""ping, datagrams by nc, and the subcommands of agnhost that talk to others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from actors.node.programs.images import PROGRAMS
from actors.node.programs.shell import run as shell
from actors.node.programs.surroundings import Answer
from sim.api.store import Item
from sim.api.types import Reply
from sim.units import SECOND
from tests.unit.actors.node.programs.network.test_commands import output
from tests.unit.actors.node.programs.network.town import World, endpoint, service, slice_of, world_of


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with world_of({**PROGRAMS, "sh": shell}) as made:
        made.pod("10.244.1.2", "n2").run("agnhost", "netexec")
        yield made


async def test_ping_counts_the_answers_of_a_host_that_is_there(world: World) -> None:
    out, _, code = await output(world, "ping", "-c", "2", "10.244.1.2")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("PING 10.244.1.2 (10.244.1.2)")
    assert sum("ttl=64" in line for line in lines) == 2
    assert "2 packets transmitted, 2" in out


async def test_ping_without_an_answer_fails(world: World) -> None:
    out, _, code = await output(world, "ping", "-c", "3", "-W", "2", "10.244.1.77")
    assert code == 1
    assert "3 packets transmitted, 0" in out
    assert "100% packet loss" in out


async def test_nc_copies_datagrams_both_ways(world: World) -> None:
    listener = world.pod("10.244.1.9", "n2")
    listener.run("nc", "-u", "-l", "-p", "7000")
    await world.kernel.run_until(SECOND)
    out, _, code = await output(world, "sh", "-c", "echo hostname | nc -u -w 1 10.244.1.2 8081")
    assert (out, code) == ("pod-10-244-1-2", 0)
    await output(world, "sh", "-c", "echo hello | nc -u -w 1 10.244.1.9 7000")
    assert listener.out == b"hello\n"


async def test_a_guestbook_passes_what_is_set_on_to_its_replicas(world: World) -> None:
    for name, host in (("agnhost-primary", "10.244.1.3"), ("agnhost-replica", "10.244.1.4")):
        world.town.by_name[name] = [slice_of(endpoint(host), port=6379)]
    world.town.all = [service("agnhost-primary", "10.96.0.81"), service("agnhost-replica", "10.96.0.82")]
    for one in world.town.all:
        one["spec"]["ports"] = [{"name": "http", "port": 6379, "protocol": "TCP"}]
    world.pod("10.244.1.3", "n2").run("agnhost", "guestbook", "--http-port", "6379")
    await world.kernel.run_until(SECOND)
    replica = world.pod("10.244.1.4", "n2")
    replica.run("agnhost", "guestbook", "--replicaof", "agnhost-primary", "--http-port", "6379")
    world.pod("10.244.1.5", "n2").run("agnhost", "guestbook", "--backend-port", "6379")
    await world.kernel.run_until(20 * SECOND)
    front = "http://10.244.1.5/guestbook?cmd="
    assert (await output(world, "curl", "-s", f"{front}get&key=a"))[0] == '{"data":""}'
    assert (await output(world, "curl", "-s", f"{front}set&key=a&value=b"))[0] == '{"message":"Updated"}'
    assert (await output(world, "curl", "-s", f"{front}get&key=a"))[0] == '{"data":"b"}'
    assert "Registered to node: agnhost-primary" in replica.err.decode()


async def test_nettest_passes_once_its_pods_have_contacted_each_other(world: World) -> None:
    hosts = ("10.244.1.3", "10.244.1.4")
    subsets = [{"addresses": [{"ip": host} for host in hosts], "ports": [{"port": 8080}]}]
    answers = [Reply(code=404), *[Reply(code=200, item=Item("e", {"subsets": subsets}, 1, 1))] * 100]

    def asked(*_: object, **__: object) -> Answer:
        answer = Answer()
        answer.take(answers.pop(0))
        return answer

    for host in hosts:
        pod = world.pod(host, "n2")
        pod.surroundings.ask = asked
        pod.run("agnhost", "nettest", "--peers", "2", "--delay-shutdown", "1")
    status = "http://10.244.1.3:8080/status"
    assert (await output(world, "curl", "-s", status))[0] == "running"
    await world.kernel.run_until(30 * SECOND)
    assert (await output(world, "curl", "-s", status))[0] == "pass"
    shown = json.loads((await output(world, "curl", "-s", "http://10.244.1.4:8080/read"))[0])
    assert sorted(shown["Sent"]) == sorted(shown["Received"]) == ["pod-10-244-1-3", "pod-10-244-1-4"]
    assert (await output(world, "curl", "-s", "-d", "{", "http://10.244.1.4:8080/write"))[0].startswith("{")
    await output(world, "curl", "-s", "http://10.244.1.4:8080/quit")
    assert (await output(world, "curl", "-s", "http://10.244.1.4:8080/read"))[2] == 7


async def test_net_runs_both_sides_of_a_half_closed_connection(world: World) -> None:
    server = world.pod("10.244.1.3", "n2")
    server.run("agnhost", "net", "--serve", ":8889")
    await world.kernel.run_until(SECOND)
    run = "http://10.244.1.3:8889/run/nat-closewait-server"
    side = world.pod("10.244.1.4", "n2")
    side.run("curl", "-s", run, "-d", '{"LocalAddr":"0.0.0.0:9999","PostFinTimeoutSeconds":2}')
    await world.kernel.run_until(2 * SECOND)
    options = '{"RemoteAddr":"10.244.1.3:9999","TimeoutSeconds":3,"PostFinTimeoutSeconds":1}'
    words = ("agnhost", "net", "--runner", "nat-closewait-client", "--options", options)
    out, _, code = await output(world, *words)
    assert (out.splitlines()[-1], code) == ("# closewait.go: Done", 0)
    await world.kernel.run_until(10 * SECOND)
    assert side.out.decode().startswith("ok\noutput:\n\n# closewait.go: Run")
    assert side.out.decode().endswith("# closewait.go: Done\n")
    assert (await output(world, *words))[2] == 1
    assert (await output(world, "curl", "-s", f"{run}x", "-d", "{}"))[0].startswith(
        "Error from runner: Invalid runner"
    )
