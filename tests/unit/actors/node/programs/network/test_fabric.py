"""Connections and datagrams between pods, over links that take time and are cut."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator

import pytest

from actors.node.programs.ends import receive, send
from actors.node.programs.network.sockets import Address, Connection, SocketError
from actors.node.programs.network.tasks import Tasks, dial, drop, hold, network_of
from actors.node.programs.process import Process, Signal
from actors.node.programs.waits import Main, Wait
from sim.kernel.network import Rule
from sim.units import SECOND
from tests.unit.actors.node.programs.network.town import Pod, World, endpoint, service, slice_of, world_of

Steps = Generator[Wait, None, None]


def echo(process: Process) -> Main:
    """A server at port 8080 that names itself and repeats what it reads."""

    def serve(connection: Connection) -> Steps:
        yield from send(connection, f"{process.container.hostname} {connection.peer.host} ".encode())
        while data := (yield from receive(connection)):
            yield from send(connection, data)

    tasks = Tasks(process)
    tasks.listen(8080, serve)
    return (yield from tasks.run())


def caller(host: str, port: int, said: list[str], text: bytes = b"hi") -> object:
    def body(process: Process) -> Steps:
        try:
            connection = yield from dial(process, host, port)
        except SocketError as error:
            said.append(f"{error.code} {process.now_us // SECOND}")
            return
        yield from send(connection, text)
        connection.shutdown()
        data = b""
        while more := (yield from receive(connection)):
            data += more
        said.append(data.decode() if not connection.error else connection.error)
        drop(process, connection)

    return body


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with world_of() as made:
        yield made


async def call(world: World, pod: Pod, host: str, port: int = 8080, for_s: int = 200) -> list[str]:
    said: list[str] = []
    pod.steps(caller(host, port, said))  # type: ignore[arg-type]
    await world.kernel.run_until(world.kernel.now_us + for_s * SECOND)
    return said


async def test_pods_of_two_nodes_talk_and_see_each_others_addresses(world: World) -> None:
    near, far = world.pod("10.244.0.2"), world.pod("10.244.1.2", "n2")
    far.start(echo, "echo")
    assert await call(world, near, "10.244.1.2") == ["pod-10-244-1-2 10.244.0.2 hi"]
    assert await call(world, far, "127.0.0.1") == ["pod-10-244-1-2 127.0.0.1 hi"]


async def test_errors_are_those_that_linux_gives_after_their_time(world: World) -> None:
    near = world.pod("10.244.0.2")
    world.pod("10.244.1.2", "n2")
    assert await call(world, near, "10.244.1.2") == ["ECONNREFUSED 0"]
    assert await call(world, near, "10.244.1.99") == ["EHOSTUNREACH 203"]
    assert await call(world, near, "198.51.100.1") == ["ETIMEDOUT 527"]
    assert ("10.244.1.2", 8080) in world.town.woken


async def test_a_connection_is_made_by_the_first_syn_after_a_partition(world: World) -> None:
    near, far = world.pod("10.244.0.2"), world.pod("10.244.1.2", "n2")
    far.start(echo, "echo")
    world.kernel.network.impose(Rule("cut", frozenset({"n1"}), frozenset({"n2"}), cut=True))
    said: list[str] = []
    near.steps(caller("10.244.1.2", 8080, said))  # type: ignore[arg-type]
    await world.kernel.run_until(6 * SECOND)
    world.kernel.network.lift("cut")
    await world.kernel.run_until(6_900_000)
    assert said == []
    await world.kernel.run_until(8 * SECOND)
    assert said == ["pod-10-244-1-2 10.244.0.2 hi"]


async def test_a_node_without_power_does_not_answer(world: World) -> None:
    near, far = world.pod("10.244.0.2"), world.pod("10.244.1.2", "n2")
    far.start(echo, "echo")
    world.town.down.add("n2")
    assert await call(world, near, "10.244.1.2") == ["ETIMEDOUT 127"]


async def test_a_service_spreads_over_its_endpoints_and_affinity_keeps_one(world: World) -> None:
    near = world.pod("10.244.0.2")
    for host in ("10.244.1.2", "10.244.1.3"):
        world.pod(host, "n2").start(echo, "echo")
    world.town.all = [service("web")]
    world.town.by_name["web"] = [slice_of(endpoint("10.244.1.2"), endpoint("10.244.1.3"))]
    said = [(await call(world, near, "10.96.0.80", 80, for_s=1))[0].split()[0] for _ in range(12)]
    assert set(said) == {"pod-10-244-1-2", "pod-10-244-1-3"}
    world.town.all[0]["spec"]["sessionAffinity"] = "ClientIP"
    said = [(await call(world, near, "10.96.0.80", 80, for_s=1))[0].split()[0] for _ in range(12)]
    assert len(set(said)) == 1
    world.town.by_name["web"] = [slice_of()]
    assert (await call(world, near, "10.96.0.80", 80, for_s=1))[0].startswith("ECONNREFUSED")


async def test_much_data_passes_and_waits_for_the_reader(world: World) -> None:
    near, far = world.pod("10.244.0.2"), world.pod("10.244.1.2", "n2")
    far.start(echo, "echo")
    said: list[str] = []
    near.steps(caller("10.244.1.2", 8080, said, b"x" * 60_000))  # type: ignore[arg-type]
    await world.kernel.run_until(SECOND)
    assert [len(text) for text in said] == [len("pod-10-244-1-2 10.244.0.2 ") + 60_000]


async def test_the_end_of_a_process_closes_its_sockets(world: World) -> None:
    near, far = world.pod("10.244.0.2"), world.pod("10.244.1.2", "n2")
    server = far.start(echo, "echo")
    read: list[bytes] = []

    def body(process: Process) -> Steps:
        connection = yield from dial(process, "10.244.1.2", 8080)
        while data := (yield from receive(connection)):
            read.append(data)
        read.append(b"END")

    near.steps(body)
    await world.kernel.run_until(SECOND)
    far.table.signal(server, Signal.KILL, outside=True)
    await world.kernel.run_until(2 * SECOND)
    assert read[-1] == b"END"
    assert far.network.ports == ()


async def test_answers_to_datagrams_come_from_the_address_that_was_asked(world: World) -> None:
    near, far = world.pod("10.244.0.2"), world.pod("10.244.1.2", "n2")
    world.town.all = [service("dns", ports=[{"name": "dns", "port": 53, "protocol": "UDP"}])]
    world.town.by_name["dns"] = [slice_of(endpoint("10.244.1.2"), port=5353, name="dns", protocol="UDP")]

    def server(process: Process) -> Main:
        socket = hold(process, network_of(process).bind(5353))
        while True:
            while (found := socket.receive_from()) is None:
                yield Wait((socket.readable,))
            socket.send_to(found[0], b"re:" + found[1])

    far.start(server, "server")
    said: list[object] = []

    def body(process: Process) -> Steps:
        for target in (Address("10.96.0.80", 53), Address("10.244.1.2", 9)):
            socket = hold(process, network_of(process).bind())
            socket.peer = target
            socket.write(b"x")
            data = yield from receive(socket)
            said.append((data, socket.error))
            drop(process, socket)

    near.steps(body)
    await world.kernel.run_until(SECOND)
    assert said == [(b"re:x", ""), (b"", "ECONNREFUSED")]


async def test_endpoints_that_clients_kept_are_forgotten_after_their_time(
    world: World,
) -> None:
    config = {"clientIP": {"timeoutSeconds": 60}}
    world.town.all.append(service("web", sessionAffinity="ClientIP", sessionAffinityConfig=config))
    world.town.by_name["web"] = [slice_of(endpoint("10.244.2.2"))]
    hosts = [f"10.244.1.{number}" for number in range(2, 6)]
    for host in hosts[:3]:
        world.fabric.connect(world.fabric.network(host, "n1"), Address("10.96.0.80", 80))
    assert len(world.fabric._affinity) == 3
    await world.kernel.run_until(100 * SECOND)
    world.fabric._affinity_max = 3
    world.fabric.connect(world.fabric.network(hosts[3], "n1"), Address("10.96.0.80", 80))
    assert [key[2] for key in world.fabric._affinity] == [hosts[3]]


async def test_a_dropped_syn_has_no_answer_until_policies_let_it_through(world: World) -> None:
    near, far = world.pod("10.244.0.2"), world.pod("10.244.1.2", "n2")
    far.start(echo, "echo")
    target = Address("10.244.1.2", 8080)
    for drop_at in (("Egress", "10.244.0.2", target, "TCP"), ("Ingress", "10.244.0.2", target, "TCP")):
        world.town.dropped = {drop_at}
        assert (await call(world, near, "10.244.1.2"))[0].startswith("ETIMEDOUT")
    said: list[str] = []
    near.steps(caller("10.244.1.2", 8080, said))  # type: ignore[arg-type]
    await world.kernel.run_until(world.kernel.now_us + 2 * SECOND)
    world.town.dropped = {("Ingress", "10.244.1.2", Address("10.244.0.2", 32768), "TCP")}
    await world.kernel.run_until(world.kernel.now_us + 2 * SECOND)
    assert said == ["pod-10-244-1-2 10.244.0.2 hi"]


async def test_a_dropped_datagram_is_lost_and_an_answer_passes(world: World) -> None:
    near, far = world.pod("10.244.0.2"), world.pod("10.244.1.2", "n2")
    target = Address("10.244.1.2", 5353)
    server, client = far.network.bind(5353), near.network.bind(4000)
    server.users = client.users = 1
    for direction in ("Egress", "Ingress"):
        world.town.dropped = {(direction, "10.244.0.2", target, "UDP")}
        client.send_to(target, b"lost")
        await world.kernel.run_until(world.kernel.now_us + SECOND)
    assert server.receive_from() is None
    world.town.dropped = {("Egress", "10.244.1.2", Address("10.244.0.2", 4000), "UDP")}
    server.send_to(Address("10.244.0.2", 4000), b"unasked")
    client.send_to(target, b"asked")
    await world.kernel.run_until(world.kernel.now_us + SECOND)
    server.send_to(Address("10.244.0.2", 4000), b"answer")
    await world.kernel.run_until(world.kernel.now_us + SECOND)
    assert [client.receive_from(), client.receive_from()] == [(target, b"answer"), None]


async def test_interfaces_count_what_passes_them(world: World) -> None:
    near, far, beside = world.pod("10.244.0.2"), world.pod("10.244.1.2", "n2"), world.pod("10.244.0.3")
    far.start(echo, "echo")
    beside.start(echo, "echo")
    [said] = await call(world, near, "10.244.1.2")
    traffic, node = near.network.traffic, world.fabric.hosts["n1"]
    assert (traffic.sent, traffic.received) == (2, len(said))
    assert (far.network.traffic.received, far.network.traffic.sent) == (2, len(said))
    assert (node.sent, node.received) == (2, len(said))
    assert (traffic.packets_sent, traffic.packets_received) == (1, 2)
    await call(world, near, "10.244.0.3")
    await call(world, beside, "127.0.0.1")
    assert (beside.network.traffic.received, node.sent) == (2, 2)
    far.network.bind(5353).users = 1
    near.network.bind(4000).send_to(Address("10.244.1.2", 5353), b"four")
    await world.kernel.run_until(world.kernel.now_us + SECOND)
    assert (far.network.traffic.received, node.sent) == (6, 6)
