"""Stories of a real control plane as text, and the same requests sent to a simulated one.

    python -m tests.golden.recorded FILE    write the texts again, from transcripts

A text of `stories/real` has a line for each request (`> METHOD PATH [until ...] [BODY]`), and below
it the answer's code and the recorded fields of its object, in the form of the other transcripts.
`replayed` sends the requests of a text, waits as they say, and gives the answers of a cluster of
three nodes as the same lines.

Holds: the texts are what kube-apiserver v1.25 and its controllers answered.  Times are left out,
and generated names and uids are written as `<generated>` and `<uid>`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from sim.api.types import Reply
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.scenario.plan.plan import ClusterPlan
from tests.golden.transcript import GENERATED, UID, flat

FOLDER = Path(__file__).with_name("stories") / "real"
# By the name of a text: the story of the simulated control plane beside it, and the transcript.
STORIES = {
    "rollout": "deploy-real",
    "job": "job-real",
    "daemonset": "ds-real",
    "cascade": "gc-foreground",
    "node-death": "node-noexecute",
}
NAMESPACE, WAIT, TRIES = "default", "200ms", 600
REQUEST = re.compile(r"> (\w+) (\S+)(?: until (\S+)(?: (\".*?\"|\d+))?)?(?: (\{.*\}))?")
SYMBOL = re.compile(r"<(gen|uid|time):?\d*>")


def pointed(body: Any, pointer: str) -> Any:
    """The value at a JSON pointer; None if it is missing."""
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(body, list):
            body = body[int(part)] if int(part) < len(body) else None
        else:
            body = body.get(part) if isinstance(body, dict) else None
    return body


def _dotted(pointer: str) -> str:
    """A JSON pointer as a path of the other transcripts."""
    found = ""
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/")
        found += f"[{part}]" if part.isdecimal() else f".{part}" if found else part
    return found


def lines_of(value: Any, path: str) -> Iterator[str]:
    """The lines of a field of an answer."""
    if value is None:
        yield f"    - {path}"
        return
    for name, leaf in flat(value, path):
        text = leaf if isinstance(leaf, str) else json.dumps(leaf)
        text = SYMBOL.sub(lambda found: "<uid>" if found[1] == "uid" else "<generated>", text)
        if name.endswith("pod-template-hash"):
            text = "<generated>"
        yield f"    {name} = {GENERATED.sub('<generated>', UID.sub('<uid>', text))}"


# --- from a recording to a text -------------------------------------------------------------------


def text_of(transcript: Mapping[str, Any]) -> str:
    """The text of a transcript."""
    lines = [f"# {transcript['about']}"]
    for step in transcript["steps"]:
        request = step["request"]
        if "hash-" in json.dumps(request.get("body")) or "/version" in request["do"]:
            continue  # of the recording's own: it numbers the hashes, and waits
        until = request.get("until", {})
        waits = ""
        if "status" in until:
            waits = f" until status {until['status']}"
        elif until:
            state = "exists" if until.get("exists") else "absent" if until.get("absent") else "equals"
            value = f" {json.dumps(until['equals'])}" if "equals" in until else ""
            waits = f" until {until['pointer']}:{state}{value}"
        body = f" {json.dumps(request['body'])}" if "body" in request else ""
        lines.append(f"> {request['do']}{waits}{body}".replace("$(ns)", NAMESPACE))
        if "status" in step:
            kept = step["body"] if "keep" in request else _kept(step["body"])
            lines.append(f"< {step['status']} {' '.join(kept)}")
            shown = [line for pointer, value in kept.items() for line in lines_of(value, _dotted(pointer))]
            lines += [line.replace("<ns>", NAMESPACE) for line in shown]
    return "\n".join(lines) + "\n"


def _kept(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a whole answer that are compared: those of a refusal, or of each item."""
    if "items" not in body:
        return {f"/{key}": body[key] for key in ("reason", "message")}
    found = {}
    for index, item in enumerate(body["items"]):
        about = {f"involvedObject/{key}": value for key, value in item.pop("involvedObject", {}).items()}
        found |= {f"/items/{index}/{key}": value for key, value in (about | item).items()}
    return found


# --- from a text to the answers of a simulated cluster --------------------------------------------


def _body_of(reply: Reply) -> Any:
    if not reply.ok:
        return {"reason": reply.reason, "message": reply.message}
    if reply.items is not None:
        return {"items": [item.obj for item in reply.items]}
    return reply.obj


def _send(cluster: Cluster, method: str, url: str, body: Any) -> Reply:
    parts = urlsplit(url)
    words = [unquote(word) for word in parts.path.split("/")[1:]]
    words = words[2:] if words[0] == "api" else words[3:]
    namespace = words[1] if words[0] == "namespaces" and len(words) > 2 else ""
    resource, name = (
        (words[2:] if namespace else words)[:1][0],
        "".join((words[2:] if namespace else words)[1:2]),
    )
    verb = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "GET": "get" if name else "list"}[method]
    content = "application/merge-patch+json" if method == "PATCH" else "application/json"
    return cluster.request(
        verb,  # type: ignore[arg-type]  # one of the verbs
        resource,
        namespace,
        name,
        options=dict(parse_qsl(parts.query)),
        body=body,
        content_type=content,
    )


def _is_reached(reply: Reply, condition: str, wanted: str | None) -> bool:
    if condition == "status":
        return str(reply.code) == wanted
    pointer, _, state = condition.partition(":")
    found = pointed(_body_of(reply), pointer)
    if state == "equals":
        return bool(found == json.loads(wanted or "null"))
    return (found is not None) is (state == "exists")


async def replayed(text: str) -> list[str]:
    """The lines of a text with the answers of a simulated cluster in the place of the recorded."""
    plan = ClusterPlan(naming="kubernetes", nodes=plain_nodes(3))
    answers: list[str] = []
    uids: dict[str, str] = {}
    async with Cluster(plan, seed=1) as cluster:
        await cluster.run_for("30s")
        for block in text.split("\n> ")[1:]:
            line, *recorded = block.splitlines()
            found = REQUEST.fullmatch(f"> {line}")
            assert found is not None, line
            method, url, condition, wanted, body = found.groups()
            sent = json.loads(re.sub(r"\$\((\w+)\)", lambda name: uids[name[1]], body)) if body else None
            reply = _send(cluster, method, url, sent)
            for _ in range(TRIES):
                if condition is None or _is_reached(reply, condition, wanted):
                    break
                await cluster.run_for(WAIT)
                reply = _send(cluster, method, url, sent)
            if method == "POST" and reply.obj is not None:
                uids[reply.obj["metadata"]["name"]] = reply.obj["metadata"]["uid"]
            answers.append(f"> {line}")
            if recorded:
                _, _, *pointers = recorded[0].split(" ")
                found_body = _body_of(reply)
                answers.append(" ".join(["<", str(reply.code), *pointers]))
                for pointer in pointers:
                    answers += lines_of(pointed(found_body, pointer), _dotted(pointer))
            await cluster.run_for("1s")
    return answers


def main(arguments: Sequence[str]) -> int:
    """Write the texts again."""
    known = {each["id"]: each for each in json.loads(Path(arguments[0]).read_text())["transcripts"]}
    for story, name in STORIES.items():
        (FOLDER / f"{story}.txt").write_text(text_of(known[name]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
