"""Recorded transcripts of real control planes against the verbs on a store in memory, without
server and time.

Only the subject of this suite is compared: the code; of an error the reason, message and causes;
and the ownership of fields after an apply.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from actors.apiserver.builtin.bootstrap import bootstrap
from actors.apiserver.handlers import PLAIN
from actors.apiserver.rules import Machinery
from actors.apiserver.webhooks import unreachable
from actors.storage import MemoryStore
from sim.api.kinds import conversion as forms
from sim.api.kinds.registry import KINDS
from sim.api.ownership import managed
from sim.api.refusals import Refusal, method_not_allowed
from sim.api.schema.kind import Kind
from sim.api.scheme.scheme import Scheme
from sim.api.store import Consult, Consulted
from sim.api.types import Reply, Request, UserInfo
from sim.api.verbs import subresources as verbs_sub
from sim.api.verbs.call import Call, Registry, any_of
from sim.ident import NAMES

GOLDEN = Path(__file__).resolve().parents[5] / "shared" / "golden"
USER = UserInfo("admin", ("system:masters",))
VERBS = {
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "GET": "get",
    "LIST": "list",
}
UID = re.compile(r"<uid:\d+>|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
IP = re.compile(r"<ip:\d+>|\d+\.\d+\.\d+\.\d+")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


# What these are about is the transport's to refuse (options and media types) or to find, or takes a
# server that lives.
OF_TRANSPORT = ("apply-options", "apply-media-types", "crd-conflicts", "crd-discovery")


def transcripts(*files: str) -> Iterator[dict[str, Any]]:
    """Those of the files; none where the recordings are not beside the checkout."""
    for file in files:
        path = GOLDEN / file
        if path.exists():
            found = json.loads(path.read_text())["transcripts"]
            yield from [transcript for transcript in found if transcript["id"] not in OF_TRANSPORT]


class Api:
    """A namespace with its default account on an otherwise empty cluster."""

    def __init__(
        self, namespace: str = "golden-ns", kinds: tuple[Kind, ...] = KINDS, alpha: bool = False
    ) -> None:
        names = NAMES["kubernetes"]
        self.namespace = namespace
        self.user = USER
        self.scheme = Scheme(names, frozenset() if alpha else None, kinds)
        self.store = MemoryStore(lambda: 0)
        bits = random.Random(1).getrandbits
        rules = Machinery(self.scheme, self.store).rules()
        self.registry = Registry(self.scheme, rules, bits, lambda: 1_700_000_000_000_000)
        bootstrap(self.registry, self.store, ("172.16.250.1", 6443), {})
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})

    def knows(self, path: str) -> bool:
        group, version, _, resource, _, _ = route(urlsplit(path).path)
        return self.scheme.find(group, version, resource) is not None

    def ask(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Reply:
        url = urlsplit(path)
        group, version, namespace, resource, name, subresource = route(url.path)
        found = self.scheme.find(group, version, resource)
        assert found is not None
        request = Request(
            verb=VERBS[method],
            group=group,
            version=version,
            resource=resource,
            namespace=namespace,
            name=name,
            subresource=subresource,
            options=dict(parse_qsl(url.query, keep_blank_values=True)),
            body=_bytes(body),
            content_type=content,
            user=self.user,
            manager="recorder",
        )
        call = Call(request, found, self.registry, options=request.options, subresource=subresource)
        call.dry_run = request.options.get("dryRun") == "All"
        try:
            special = subresource or found.plural in verbs_sub.VIRTUAL
            if found.rule == "bindings":
                call.resource = self.scheme.resource("pods")
            steps = verbs_sub.verb_of(call) if special else PLAIN.get(request.verb)
            if steps is None:
                raise method_not_allowed()
            run = steps(call)
            form = forms.form_of(found, self.scheme.names)
            if form is not None:
                run = forms.converted(run, form, found.prefix)
            op = next(run)
            while True:
                op = run.send(consulted(op) if isinstance(op, Consult) else self.store.apply(op))
        except StopIteration as stop:
            reply: Reply = stop.value
            return reply
        except Refusal as refusal:
            return refusal.reply()


def consulted(op: Consult) -> Consulted:
    """The answer where no program outside can be reached."""
    answers: list[tuple[int, Any, str]] = []
    for index, question in enumerate(op.questions):
        unreachable(question, lambda answer, text, index=index: answers.append((index, answer, text)))  # type: ignore[misc]
    return Consulted(tuple(answers))


def _bytes(body: Any) -> bytes | None:
    """A body as it comes from outside."""
    if body is None:
        return None
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def route(path: str) -> tuple[str, str, str, str, str, str]:
    parts = [unquote(p) for p in path.strip("/").split("/")]
    group, parts = ("", parts[1:]) if parts[0] == "api" else (parts[1], parts[2:])
    version, parts = parts[0], parts[1:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("finalize", "status"):
        namespace, parts = parts[1], parts[2:]
    name, subresource = (*parts[1:], "", "")[:2]
    return group, version, namespace, parts[0], name, subresource


def differences(transcript: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """(request, wanted, got) of every compared step; equal where we agree."""
    api = Api()
    saved = {"ns": api.namespace}

    def filled(value: Any) -> Any:
        text = json.dumps(value)
        for key, known in saved.items():
            text = text.replace(f"$({key})", str(known))
        return json.loads(text)

    for step in transcript["steps"]:
        asked = step["request"]
        method, _, path = filled(asked.get("do", "")).partition(" ")
        if method not in VERBS or asked.get("as") or asked.get("watch") or not api.knows(path):
            continue
        applied = "apply" in asked.get("content", "")
        if (method == "GET" and "until" in asked) or (applied and isinstance(asked["body"], str)):
            continue  # a wait; YAML, which is the transport's to read
        reply = api.ask(method, path, filled(asked.get("body")), asked.get("content", "application/json"))
        for key, pointer in asked.get("save", {}).items():
            value: Any = whole(reply) if reply.ok else {}
            for part in pointer.strip("/").split("/"):
                value = value[int(part)] if isinstance(value, list) else any_of(value).get(part, "")
            saved[key] = value
        if "status" in step and not asked.get("unscored"):
            wanted = _said(step["status"], step.get("body"))
            got = _said(reply.code, reply.body, api.namespace)
            for pointer in asked.get("drop", ()):
                if pointer == "/message" or pointer.startswith("/details"):
                    wanted, got = wanted[:2], got[:2]
            if asked.get("keep"):
                wanted, got = wanted[:1], got[:1]
            elif applied and reply.ok and step["status"] < 300:
                wanted, got = (*wanted, *_owners(step["body"])), (*got, *_owners(whole(reply)))
            yield f"{asked['do']} {json.dumps(asked.get('body'))}", wanted, got


def _said(code: int, body: Any, namespace: str = "") -> tuple[Any, ...]:
    if code < 400 or not isinstance(body, dict):
        return (code,)
    message = _plain(body.get("message", ""))
    causes = (body.get("details") or {}).get("causes") or ()
    listed = sorted((c.get("field", ""), _plain(c.get("message", ""))) for c in causes)
    said = (code, body.get("reason", ""), message, listed)
    if namespace:
        text = json.dumps(said).replace(namespace, "<ns>")
        code, reason, message, pairs = json.loads(text)
        said = (code, reason, message, [tuple(p) for p in pairs])
    return said


def whole(reply: Reply) -> Any:
    """The object of a reply in its returned form, with its managedFields."""
    if reply.item is None:
        return reply.body
    record = managed.render(reply.item.managed, reply.item.obj)
    return {**reply.obj, "metadata": {**reply.obj["metadata"], "managedFields": record}}


def _owners(body: Any) -> list[str]:
    """The owners of all fields, and which entries have a time."""
    entries = body["metadata"].get("managedFields", ())
    texts = [json.dumps({**e, "time": "time" in e}, sort_keys=True) for e in entries]
    return sorted(IP.sub("<ip>", TIME.sub("<time>", text)) for text in texts)


def _plain(text: str) -> str:
    """Without what differs from run to run, and without the storage's own key prefix."""
    return UID.sub("<uid>", TIME.sub("<time>", text)).replace("Key: /registry/", "Key: /")
