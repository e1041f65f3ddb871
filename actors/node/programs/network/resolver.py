"""How a program turns a name into addresses: its files and the servers that they name.

Mirrors  resolv.conf(5), glibc resolv/res_search.c: a name with at least `ndots` dots is tried as it
         is before the search domains, others after them; nsswitch.conf with `hosts: files dns`; a
         server that does not answer is asked again after 5 s, twice in all.
Differs  a server that is reached answers at once.
"""

from __future__ import annotations

from collections.abc import Generator
from ipaddress import ip_address
from typing import NamedTuple

from actors.node.programs.files.errors import FileError
from actors.node.programs.network.dns import NOERROR, NXDOMAIN, SERVFAIL, Answer, Record, answer
from actors.node.programs.network.tasks import network_of
from actors.node.programs.process import Process
from actors.node.programs.waits import Wait
from sim.units import SECOND

TIMEOUT = "TIMEOUT"
TIMEOUT_US, ATTEMPTS = 5 * SECOND, 2
SERVERS_MAX = 3  # MAXNS
CHAIN_MAX = 8  # aliases in a row, CoreDNS maxCnameChain is 10


class Settings(NamedTuple):
    """What `/etc/resolv.conf` says."""

    servers: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    ndots: int = 1


class Resolved(NamedTuple):
    """The end of a search: the server that answered, the name that it was asked for, its answer."""

    server: str
    name: str
    answer: Answer

    @property
    def hosts(self) -> tuple[str, ...]:
        """The addresses in it."""
        return tuple(record.value for record in self.answer.records if record.kind in ("A", "AAAA"))


def read_file(process: Process, path: str) -> str:
    """A file's text, "" if it cannot be read."""
    files = process.container.files
    if files is None:
        return ""
    try:
        return str(files.read(path, process).decode(errors="replace"))
    except FileError:
        return ""


def settings(process: Process) -> Settings:
    """The resolver's settings."""
    found = Settings()
    for line in read_file(process, "/etc/resolv.conf").splitlines():
        words = line.split()
        if not words or words[0].startswith(("#", ";")):
            continue
        if words[0] == "nameserver" and len(words) > 1:
            found = found._replace(servers=(*found.servers, words[1])[:SERVERS_MAX])
        elif words[0] in ("search", "domain"):
            found = found._replace(search=tuple(words[1:]))
        elif words[0] == "options":
            for word in words[1:]:
                name, _, value = word.partition(":")
                if name == "ndots" and value.isdecimal():
                    found = found._replace(ndots=min(15, int(value)))
    return found


def from_hosts(process: Process, name: str) -> tuple[str, ...]:
    """The addresses that `/etc/hosts` has for a name."""
    found = []
    for line in read_file(process, "/etc/hosts").splitlines():
        words = line.partition("#")[0].split()
        if name.lower() in (word.lower() for word in words[1:]):
            found.append(words[0])
    return tuple(found)


def is_address(text: str) -> bool:
    """True for an address of IPv4 or IPv6."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def candidates(name: str, found: Settings) -> list[str]:
    """The full names that are tried, in order."""
    if name.endswith("."):
        return [name]
    searched = [f"{name}.{domain.rstrip('.')}." for domain in found.search if domain.strip(".")]
    plain = f"{name}."
    return [plain, *searched] if name.count(".") >= found.ndots else [*searched, plain]


def ask(process: Process, server: str, name: str, kind: str) -> Generator[Wait, None, Answer]:
    """The answer of one server; code TIMEOUT if it does not answer."""
    network = network_of(process)
    fabric = network.fabric
    if fabric is None or not fabric.answers_names(network, server):
        if server.startswith("127."):
            return Answer(SERVFAIL)
        until_us = process.now_us + TIMEOUT_US
        while process.now_us < until_us:
            yield Wait(until_us=until_us)
        return Answer(TIMEOUT)
    zone, asked = fabric.zone, name
    records: list[Record] = []
    for _ in range(CHAIN_MAX):
        found = answer(zone, asked, kind)
        records += found.records
        target = next((one.value for one in found.records if one.kind == "CNAME"), "")
        if found.code != NOERROR or not target or kind == "CNAME":
            break
        asked = target
    code = found.code if not records else NOERROR
    return Answer(code, tuple(dict.fromkeys(records)))


def search(
    process: Process, name: str, kind: str, servers: tuple[str, ...] = (), *, by_list: bool = True
) -> Generator[Wait, None, Resolved]:
    """Ask for a name; the last answer if none has a record.  by_list: with the search domains"""
    found = settings(process)
    servers = servers or found.servers or ("127.0.0.1",)
    last = Resolved(servers[0], name, Answer(NXDOMAIN))
    for full in candidates(name, found) if by_list else [f"{name.rstrip('.')}."]:
        for server in servers * ATTEMPTS:
            given = yield from ask(process, server, full, kind)
            last = Resolved(server, full.rstrip("."), given)
            if given.code != TIMEOUT:
                break
        if last.answer.records or last.answer.code == TIMEOUT:
            return last
    return last


def lookup(process: Process, name: str, kinds: tuple[str, ...] = ("A",)) -> Generator[Wait, None, Resolved]:
    """The addresses of a name, as programs look them up: a literal, the hosts file, then servers."""
    text = name.strip("[]")
    if is_address(text):
        return Resolved("", name, Answer(NOERROR, (_record(name, text),)))
    hosts = from_hosts(process, name) or (("127.0.0.1",) if name == "localhost" else ())
    if hosts:
        return Resolved("", name, Answer(NOERROR, tuple(_record(name, host) for host in hosts)))
    last = Resolved("", name, Answer(NXDOMAIN))
    for kind in kinds:
        last = yield from search(process, name, kind)
        if last.hosts or last.answer.code == TIMEOUT:
            return last
    return last


def _record(name: str, host: str) -> Record:
    return Record(name, "AAAA" if ":" in host else "A", host)
