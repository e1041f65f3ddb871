"""Send every recorded request to a served cluster and count the answers that agree: the table
"Served" of FIDELITY.md.

    python -m tests.bench.fidelity FOLDER      every recording of the folder, as a table
        --into FIDELITY.md                     write the table into that file, between its two marks
        --differences FILE                     write each differing answer there
        --only NAME ...                        these recordings only; the table names the others
        -j N                                                that many servers at a time (default 2)

FOLDER holds recordings of real control planes (`NN-AREA.json`), `replay.py`, which sends and
compares them, and `tokens.yaml`, the tokens of their users.  Each recording gets a fresh server
(`--naming kubernetes --pace 1`), with three nodes where a transcript needs nodes.

Holds: a recorded request counts as sent only if it was handed to a connection; one with an answer
that does not end in time (a watch that a recording shows as refused, and that is served here)
counts as a difference, and the next one is sent.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GROUPS = {"admin": "system:masters", "alice": "dev"}  # of the users of the recordings
BEGIN, END = "<!-- made by: python -m tests.bench.fidelity -->", "<!-- end of what is made -->"
ADMIN_RULES = 24  # of the ClusterRole admin, once they are gathered
NODES = 3
SHOWN_MAX = 8  # lines of how one answer differs


@dataclass(slots=True)
class Row:
    """What became of one recording.

    recorded: requests in it; sent: of these; extra: other requests (set-up, clean-up, polls)
    answers: that were compared; unscored: answers that are not; status, body, whole: how many of
        the compared agree
    unserved: of the answers that differ, those about kinds that are not served; different: the
        differing, in words
    """

    name: str
    recorded: int = 0
    sent: int = 0
    extra: int = 0
    answers: int = 0
    unscored: int = 0
    status: int = 0
    body: int = 0
    whole: int = 0
    unserved: int = 0
    different: list[str] = field(default_factory=list)

    def add(self, other: Row) -> None:
        for name in (
            "recorded",
            "sent",
            "extra",
            "answers",
            "unscored",
            "status",
            "body",
            "whole",
            "unserved",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def table(rows: Sequence[Row], left_out: Sequence[str]) -> str:
    """The table as Markdown, and below it what it covers.  left_out: names of recordings that were
    not sent at all.
    """
    total = Row("total")
    for row in rows:
        total.add(row)
    lines = [
        "| recording | requests sent | answers | status agrees | body | whole | differ | of kinds not served |",
        "|---|---|---|---|---|---|---|---|",
        *map(_line, [*rows, total]),
        "",
        f"{total.sent:,} of {total.recorded:,} recorded requests were sent, and {total.extra:,} more to set up, to clean up "
        f"and to wait.",
        f"{total.answers:,} answers were compared: {total.whole:,} agree, {total.answers - total.whole:,} differ. "
        f"{total.unscored} answers were not compared, for the recordings do not score them.",
        f"Left out: {', '.join(left_out) if left_out else 'no recording'}.",
    ]
    return "\n".join(lines)


def _line(row: Row) -> str:
    sent = f"{row.sent:,}" if row.sent == row.recorded else f"{row.sent:,} of {row.recorded:,}"
    shares = (f"{count / max(1, row.answers):.1%}" for count in (row.status, row.body, row.whole))
    cells = (row.name, sent, f"{row.answers:,}", *shares, f"{row.answers - row.whole:,}", f"{row.unserved:,}")
    return f"| {' | '.join(cells)} |"


def inserted(document: str, made: str) -> str:
    """The document with the table between its marks.  ValueError if it has no marks."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the document has no {BEGIN} with {END} below it")
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def resources_in(documents: Iterable[Any]) -> set[tuple[str, str]]:
    """Group with version, and resource, of every entry of discovery documents."""
    return {
        (document["groupVersion"], resource["name"].partition("/")[0])
        for document in documents
        if isinstance(document, dict) and document.get("kind") == "APIResourceList"
        for resource in document["resources"]
    }


def resource_of(path: str) -> tuple[str, str]:
    """Group with version, and resource, of a request's path; empty texts where it names none."""
    parts = path.partition("?")[0].strip("/").split("/")
    if parts[0] not in ("api", "apis"):
        return "", ""
    size = 2 if parts[0] == "api" else 3
    version, rest = "/".join(parts[1:size]), parts[size:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return version, rest[0] if rest else ""


def replay_module(folder: Path) -> Any:
    """`replay.py` of the folder, as a module of its own each time."""
    spec = spec_from_file_location("replay", folder / "replay.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def served(tokens: Mapping[str, str], nodes: int) -> Iterator[str]:
    """A fresh server; gives its URL."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "tokens.csv"
        file.write_text("".join(f'{t},{u},{u}-uid,"{GROUPS[u]}"\n' for u, t in sorted(tokens.items())))
        options = ["--naming", "kubernetes", "--pace", "1", "--port", "0", "--token-auth-file", str(file)]
        command = [sys.executable, "-m", "sim.app.cli.main", "serve", *options]
        if nodes:
            command += ["--nodes", str(nodes)]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server:
            try:
                assert server.stdout is not None
                yield server.stdout.readline().split()[-1]
            finally:
                server.kill()


def send(folder: Path, file: Path) -> Row:
    """Send one recording to a server of its own and compare the answers."""
    replay, recorded = replay_module(folder), json.loads(file.read_text(encoding="utf-8"))
    tokens = _tokens(folder)
    needs_nodes = any("nodes" in transcript.get("needs", ()) for transcript in recorded["transcripts"])
    row = Row(file.stem)
    with served(tokens, NODES if needs_nodes else 0) as url:
        client = replay.Server(url, tokens)
        _await_controllers(replay, client)
        if needs_nodes:
            _await_nodes(replay, client)
        missing = upstream_resources(folder) - _served_resources(client)
        for transcript in recorded["transcripts"]:
            send_transcript(replay, client, transcript, row, missing)
    return row


def _tokens(folder: Path) -> dict[str, str]:
    lines = (line.partition(":") for line in (folder / "tokens.yaml").read_text().splitlines() if line)
    return {user.strip(): token.strip() for user, _, token in lines}


def upstream_resources(folder: Path) -> set[tuple[str, str]]:
    """All resources that the recordings of discovery show."""
    recorded = json.loads((folder / "10-discovery.json").read_text(encoding="utf-8"))
    steps = (step for transcript in recorded["transcripts"] for step in transcript["steps"])
    return resources_in(step.get("body") for step in steps)


def _served_resources(client: Any) -> set[tuple[str, str]]:
    def get(path: str) -> Any:
        return json.loads(client.call("GET", path, {}, None, "admin")[2])

    groups = get("/apis")["groups"]
    versions = [version["groupVersion"] for group in groups for version in group["versions"]]
    return resources_in([get("/api/v1"), *[get(f"/apis/{version}") for version in versions]])


def _await_controllers(replay: Any, client: Any) -> None:
    """Wait until the controllers have done their work on a new cluster, as the recorded ones had.

    The role that gathers the rules of the most others has its last rule late.
    """
    until = {"pointer": f"/rules/{ADMIN_RULES - 1}", "exists": True}
    do = "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/admin"
    replay.ask(client, {"do": do, "until": until}, {})


def _await_nodes(replay: Any, client: Any) -> None:
    for number in range(NODES):
        until = {"pointer": "/status/conditions/3/status", "equals": "True"}
        replay.ask(client, {"do": f"GET /api/v1/nodes/node-{number}", "until": until}, {})


class _Counter:
    """A client that counts what it sends: recorded steps, and calls in all.  No answer is an answer
    of status 0.
    """

    def __init__(self, replay: Any, client: Any, steps: Sequence[Mapping[str, Any]]) -> None:
        self.calls = self.sent = 0
        self._client, self._ask, self._steps = client, type(self)._original(replay), steps
        replay.ask = self.ask

    @staticmethod
    def _original(replay: Any) -> Any:
        if not hasattr(replay, "plain_ask"):
            replay.plain_ask = replay.ask
        return replay.plain_ask

    def ask(self, client: Any, step: Mapping[str, Any], env: Any) -> Any:
        self.sent += any(step is one for one in self._steps)
        return self._ask(client, step, env)

    def call(self, *arguments: Any) -> Any:
        self.calls += 1
        try:
            return self._client.call(*arguments)
        except (OSError, HTTPException) as error:
            return 0, {}, f"no whole answer: {error}".encode()


def send_transcript(
    replay: Any, client: Any, transcript: dict[str, Any], row: Row, missing: set[tuple[str, str]]
) -> None:
    """Send a transcript; add to the row what became of it.  missing: resources that are not served"""
    steps = [dict(step["request"]) for step in transcript["steps"]]
    wanted = [step for step in transcript["steps"] if not step["request"].get("silent")]
    counter = _Counter(replay, client, steps)
    tag = format(int(time.time()) % 1679616, "x")
    try:
        played = replay.play(counter, {**transcript, "steps": steps}, tag)["steps"]
        answers = [step for step in played if not step["request"].get("silent")]
    except (
        Exception
    ) as error:  # of replay.py, which cannot read an answer: the rest of the transcript is not sent
        print(f"{row.name} {transcript['id']}: {error!r}", file=sys.stderr, flush=True)
        answers = [{"status": None, "headers": {}, "body": None}] * len(wanted)
    row.recorded += len(steps)
    row.sent += counter.sent
    row.extra += counter.calls - counter.sent
    pairing = replay.Pairing()
    for number, (want, got) in enumerate(zip(wanted, answers, strict=True)):
        if want.get("unscored"):
            row.unscored += 1
        else:
            _compare(replay, row, want, got, pairing, missing, f"{transcript['id']} answer {number}")


def _compare(
    replay: Any,
    row: Row,
    want: dict[str, Any],
    got: dict[str, Any],
    pairing: Any,
    missing: set[tuple[str, str]],
    title: str,
) -> None:
    """As `compare` of replay.py does it, and in the same order, for the pairing remembers."""
    plain = replay.without_managed_fields
    status = want["status"] == got["status"]
    body = status and not list(replay.differences(plain(want["body"]), plain(got["body"]), pairing))
    sides = ({key: one[key] for key in ("status", "headers", "body")} for one in (want, got))
    off = list(replay.differences(*sides, pairing))
    row.answers += 1
    row.status += status
    row.body += body
    row.whole += not off
    if off:
        unserved = resource_of(want["request"]["do"].partition(" ")[2]) in missing
        row.unserved += unserved
        lines = [f"{row.name} {title}: {want['request']['do']}{' (not served)' if unserved else ''}"]
        row.different.append("\n    ".join([*lines, *off[:SHOWN_MAX]]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Send recorded requests to served clusters; count what agrees."
    )
    parser.add_argument("folder", type=Path, help="of the recordings")
    parser.add_argument("--into", type=Path, metavar="FILE", help="write the table into this document")
    parser.add_argument("--differences", type=Path, metavar="FILE", help="write what differs here")
    parser.add_argument(
        "--only", nargs="+", default=(), metavar="NAME", help="these recordings, e.g. 61-auth"
    )
    parser.add_argument("-j", "--jobs", type=int, default=2, help="servers at a time")
    arguments = parser.parse_args()
    files = sorted(arguments.folder.glob("*.json"))
    chosen = [file for file in files if not arguments.only or file.stem in arguments.only]
    document = arguments.into.read_text(encoding="utf-8") if arguments.into is not None else ""
    if arguments.into is not None:
        inserted(document, "")  # the marks are there
    largest_first = sorted(chosen, key=lambda file: -file.stat().st_size)
    rows: list[Row] = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for sent in as_completed([pool.submit(send, arguments.folder, file) for file in largest_first]):
            row = sent.result()
            rows.append(row)
            print(_line(row), file=sys.stderr, flush=True)
    rows.sort(key=lambda row: row.name)
    made = table(rows, [file.stem for file in files if file not in chosen])
    print(made)
    if arguments.into is not None:
        arguments.into.write_text(inserted(document, made), encoding="utf-8")
    if arguments.differences is not None:
        text = "\n\n".join(different for row in rows for different in row.different)
        arguments.differences.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
