"""Commands that connect, against servers of known images."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from actors.node.programs.images import PROGRAMS
from actors.node.programs.images.redis import parsed
from sim.units import SECOND
from tests.unit.actors.node.programs.network.town import Pod, World, endpoint, service, slice_of, world_of


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with world_of(dict(PROGRAMS)) as made:
        made.town.all = [service("web"), service("out", "", type="ExternalName", externalName="example.com")]
        made.town.by_name["web"] = [slice_of(endpoint("10.244.1.2"), port=80)]
        made.pod("10.244.1.2", "n2").run("nginx")
        yield made


async def output(world: World, *words: str, for_s: int = 400) -> tuple[str, str, int]:
    """What a command prints in a new pod of the first node, its errors, its code."""
    pod = world.pod("10.244.0.2")
    process = pod.run(*words)
    await world.kernel.run_until(world.kernel.now_us + for_s * SECOND)
    return pod.out.decode(), pod.err.decode(), process.ended.code


async def served(world: World, *words: str, env: dict[str, str] | None = None) -> Pod:
    """A pod at 10.244.1.9 that runs agnhost with a subcommand."""
    pod = world.pod("10.244.1.9", "n2")
    pod.run("agnhost", *words, env=env)
    await world.kernel.run_until(world.kernel.now_us + SECOND)
    return pod


async def test_wget_fetches_a_page_through_a_service_by_its_name(world: World) -> None:
    out, err, code = await output(world, "wget", "-O-", "web")
    assert (code, "Welcome to nginx!" in out) == (0, True)
    assert err == "Connecting to web (10.96.0.80:80)\nwriting to stdout\nwritten to stdout\n"
    server = world.fabric.networks["10.244.1.2"]
    assert server.ports == (80,)


@pytest.mark.parametrize(("words", "err", "code"), [
    (("wget", "-q", "-O-", "nobody"), "wget: bad address 'nobody'\n", 1),
    (("wget", "-q", "-O-", "http://web/none"), "wget: server returned error: HTTP/1.1 404 Not Found\n", 1),
    (("wget", "-q", "-O-", "http://10.244.1.2:81/"),
     "wget: can't connect to remote host (10.244.1.2): Connection refused\n", 1),
    (("wget", "-q", "-T", "5", "-O-", "http://198.51.100.1/"), "wget: download timed out\n", 1),
    (("curl", "-sS", "http://nobody"), "curl: (6) Could not resolve host: nobody\n", 6),
    (("curl", "-fsS", "http://web/none"), "curl: (22) The requested URL returned error: 404\n", 22),
    (("curl", "-sS", "http://10.244.1.2:81/"),
     "curl: (7) Failed to connect to 10.244.1.2 port 81 after 0 ms: Connection refused\n", 7),
    (("curl", "-sS", "--connect-timeout", "3", "http://198.51.100.1/"),
     "curl: (28) Connection timed out after 3000 milliseconds\n", 28),
    (("nc", "-z", "-v", "10.244.1.2", "81"), "nc: 10.244.1.2 (10.244.1.2:81): Connection refused\n", 1),
    (("nc", "-z", "-v", "web", "80"), "web (10.96.0.80:80) open\n", 0),
])  # fmt: skip
async def test_a_failure_has_the_tools_text_and_code(
    world: World, words: tuple[str, ...], err: str, code: int
) -> None:
    assert await output(world, *words) == ("", err, code)


async def test_curl_shows_the_code_and_the_head(world: World) -> None:
    out, _, code = await output(
        world, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}\\n", "http://web/none"
    )
    assert (out, code) == ("404\n", 0)
    out, _, _ = await output(world, "curl", "-sI", "http://web/")
    assert out.startswith("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n")


async def test_nslookup_and_getent_show_addresses(world: World) -> None:
    out, _, code = await output(world, "nslookup", "web")
    assert code == 0
    assert out == (
        "Server:\t\t10.96.0.10\nAddress:\t10.96.0.10:53\n\n"
        "Name:\tweb.default.svc.cluster.local\nAddress: 10.96.0.80\n\n"
    )
    out, _, code = await output(world, "nslookup", "nobody.default.svc.cluster.local")
    assert (code, "** server can't find" in out) == (1, True)
    assert await output(world, "getent", "hosts", "nobody") == ("", "", 2)
    out, _, _ = await output(world, "getent", "hosts", "web")
    assert out.split() == ["10.96.0.80", "web.default.svc.cluster.local"]


async def test_netexec_answers_about_itself_and_its_client(world: World) -> None:
    await served(world, "netexec")
    for path, wanted in {
        "hostname": "pod-10-244-1-9", "echo?msg=a%20b": "a b", "shell?cmd=echo%20hi": "",
        "dial?host=10.244.1.9&port=8081&request=hostname&protocol=udp": '{"responses":["pod-10-244-1-9"]}',
        "dial?host=10.244.1.9&port=8080&request=echo?msg=x&tries=2": '{"responses":["x","x"]}',
        "dial?host=10.244.1.9&port=9&request=x": '{"errors":["Connection refused"]}',
    }.items():  # fmt: skip
        out, _, code = await output(world, "curl", "-s", f"http://10.244.1.9:8080/{path}")
        assert code == 0
        assert wanted in out
    out, _, _ = await output(world, "curl", "-s", "http://10.244.1.9:8080/clientip")
    assert out.startswith("10.244.0.2:")


async def test_netexec_ends_with_the_code_that_was_asked_for(world: World) -> None:
    pod = world.pod("10.244.1.9", "n2")
    process = pod.run("agnhost", "netexec")
    await world.kernel.run_until(SECOND)
    await output(world, "curl", "-s", "http://10.244.1.9:8080/exit?code=3&wait=2s")
    assert process.ended.code == 3


async def test_other_subcommands_serve(world: World) -> None:
    await served(world, "serve-hostname")
    out, _, _ = await output(world, "curl", "-s", "http://10.244.1.9:9376/")
    assert out == "pod-10-244-1-9"
    await served(world, "porter", env={"SERVE_PORT_90": "ninety"})
    out, _, _ = await output(world, "curl", "-s", "http://10.244.1.9:90/")
    assert out == "ninety"
    pod = await served(world, "liveness")
    out, _, _ = await output(world, "curl", "-s", "http://10.244.1.9:8080/healthz")
    assert out == "ok"
    await output(world, "curl", "-s", "http://10.244.1.9:8080/healthz")
    assert pod.network.ports == (90, 8080, 9376)


@pytest.mark.parametrize(("words", "out"), [
    (("entrypoint-tester", "a", "b"), "[agnhost entrypoint-tester a b]\n"),
    (("etc-hosts",), "127.0.0.1\tlocalhost\n"),
    (("dns-suffix",), "default.svc.cluster.local,svc.cluster.local,cluster.local\n"),
    (("dns-server-list",), "10.96.0.10\n"),
    (("mounttest", "--file_content=/etc/hosts"), 'content of file "/etc/hosts": 127.0.0.1\tlocalhost\n\n'),
    (("mounttest", "--new_file_0660=/tmp/x", "--file_perm=/tmp/x"),
     'content of file "/tmp/x": mount-tester new file\n\nperms of file "/tmp/x": -rw-rw----\n'),
    (("mounttest", "--file_mode=/tmp"), 'mode of file "/tmp": dtrwxrwxrwx\n'),
    (("mounttest", "--file_owner=/tmp"), 'owner UID of "/tmp": 0\nowner GID of "/tmp": 0\n'),
])  # fmt: skip
async def test_a_subcommand_prints_what_upstreams_does(
    world: World, words: tuple[str, ...], out: str
) -> None:
    assert await output(world, "agnhost", *words) == (out, "", 0)


async def test_logs_generator_prints_all_its_lines_in_the_given_time(world: World) -> None:
    out, _, _ = await output(
        world, "agnhost", "logs-generator", "--log-lines-total", "10", "--run-duration", "5s"
    )
    lines = [line.split() for line in out.splitlines()]
    assert [int(line[1]) for line in lines] == list(range(10))
    assert (lines[0][0], lines[-1][0]) == ("2022-08-23T00:00:00Z", "2022-08-23T00:00:05Z")


async def test_connect_prints_the_word_for_a_failure(world: World) -> None:
    assert (await output(world, "agnhost", "connect", "10.244.1.2:80"))[2] == 0
    assert (await output(world, "agnhost", "connect", "10.244.1.2:81"))[1] == "REFUSED\n"
    assert (await output(world, "agnhost", "connect", "--timeout=3s", "198.51.100.1:80"))[1] == "TIMEOUT\n"


async def test_a_program_that_is_not_simulated_accepts_and_answers_http(world: World) -> None:
    world.pod("10.244.1.7", "n2")
    world.town.silent.add("10.244.1.7")
    assert await output(world, "nc", "-z", "10.244.1.7", "5432") == ("", "", 0)
    shown = await output(world, "curl", "-s", "-w", "%{http_code}", "http://10.244.1.7:8080/ready")
    assert shown == ("200", "", 0)


async def test_dig_shows_records_of_full_names_and_by_the_search_list(world: World) -> None:
    full = "web.default.svc.cluster.local"
    assert await output(world, "dig", "+short", full) == ("10.96.0.80\n", "", 0)
    assert await output(world, "dig", "+short", "web") == ("", "", 0)
    assert await output(world, "dig", "+short", "+search", "web", "A") == ("10.96.0.80\n", "", 0)
    assert await output(world, "dig", "+short", "-x", "10.96.0.80") == (f"{full}.\n", "", 0)
    out, _, _ = await output(world, "dig", f"_http._tcp.{full}", "SRV")
    assert f"_http._tcp.{full}.\t30\tIN\tSRV\t0 100 80 {full}." in out


async def test_redis_keeps_strings_for_its_client(world: World) -> None:
    world.pod("10.244.1.8", "n2").run("redis-server")
    cli = ("redis-cli", "-h", "10.244.1.8")
    for words, out in (
        (("ping",), "PONG\n"), (("set", "a", "x y"), "OK\n"), (("get", "a"), "x y\n"), (("get", "b"), "\n"),
        (("del", "a", "b"), "1\n"), (("dbsize",), "0\n"),
        (("nonsense",), "ERR unknown command 'nonsense', with args beginning with: \n"),
    ):  # fmt: skip
        assert await output(world, *cli, *words, for_s=1) == (out, "", 0)
    refused = "Could not connect to Redis at 127.0.0.1:6379: Connection refused\n"
    assert await output(world, "redis-cli", "ping") == ("", refused, 1)


@pytest.mark.parametrize("sent", [b"*1\r\n$99999999\r\n", b"*1\r\nx\r\n", b"*x\r\n"])
def test_redis_refuses_what_is_no_command(sent: bytes) -> None:
    with pytest.raises(ValueError):
        parsed(sent)
