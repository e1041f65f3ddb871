"""Webhooks of the image agnhost: admission reviews and conversions, as tests of clusters use them.

Mirrors  kubernetes test/images/agnhost/webhook/{main,addlabel,alwaysallow,alwaysdeny,configmap,crd,
         customresource,pods}.go and crd-conversion-webhook/converter: paths, rules, texts.
Differs  reviews are logged by their paths alone; conversions are in JSON only.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Generator, Mapping
from typing import Any

from actors.node.programs.files.errors import FileError
from actors.node.programs.images.flags import flags_of
from actors.node.programs.images.web import date_of
from actors.node.programs.network.http import Request, Response, header, serve
from actors.node.programs.network.sockets import Connection, SocketError
from actors.node.programs.network.tasks import Tasks
from actors.node.programs.network.tls import accept
from actors.node.programs.process import Process
from actors.node.programs.waits import Main, Wait
from sim.units import SECOND

Obj = dict[str, Any]
Route = Callable[[Request], Generator[Wait, None, Response]]
DELAY_US = 5 * SECOND
SWITCHES = ("alsologtostderr", "logtostderr")
MARK, REFUSED, KEPT = "webhook-e2e-test", "webhook-disallow", "webhook-nondeletable"
PODS = {"group": "", "version": "v1", "resource": "pods"}
CONFIG_MAPS = {"group": "", "version": "v1", "resource": "configmaps"}
_JSON = (("Content-Type", "application/json"),)
_TEXT = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))


def _allowed() -> Obj:
    return {"allowed": True}


def _denied(**result: Any) -> Obj:
    return {"allowed": False, "status": {"metadata": {}, **result}}


def _patched(operations: list[Obj]) -> Obj:
    """Allowed with a patch, if there is one."""
    if not operations:
        return _allowed()
    return {
        "allowed": True,
        "patch": b64encode(json.dumps(operations).encode()).decode(),
        "patchType": "JSONPatch",
    }


def _wrong_resource(wanted: Mapping[str, str]) -> Obj:
    shown = f"{{{wanted['group']} {wanted['version']} {wanted['resource']}}}"
    return _denied(message=f"expect resource to be {shown}")


def _seen(request: Obj) -> Obj:
    """The object of a request, of a deletion the one that is deleted."""
    name = "oldObject" if request.get("operation") == "DELETE" else "object"
    found = request.get(name)
    return found if isinstance(found, dict) else {}


def always_deny(_: Obj) -> Obj:
    """Deny."""
    return _denied(message="this webhook denies all requests")


def always_allow(_: Obj) -> Obj:
    """Allow."""
    return {"allowed": True, "status": {"metadata": {}, "message": "this webhook allows all requests"}}


def add_label(request: Obj) -> Obj:
    """Add a label."""
    labels = (_seen(request).get("metadata") or {}).get("labels") or {}
    path = "/metadata/labels/added-label"
    if not labels:
        return _patched([{"op": "add", "path": "/metadata/labels", "value": {"added-label": "yes"}}])
    if "added-label" not in labels:
        return _patched([{"op": "add", "path": path, "value": "yes"}])
    return _patched(
        [{"op": "replace", "path": path, "value": "yes"}] if labels["added-label"] != "yes" else []
    )


def admit_pods(request: Obj) -> Obj | None:
    """Deny pods with a label or a name of a container; None: no answer is ever sent."""
    if request.get("resource") != PODS:
        return _wrong_resource(PODS)
    pod = _seen(request)
    mark = ((pod.get("metadata") or {}).get("labels") or {}).get(MARK)
    if mark == "wait-forever":
        return None
    texts = ["the pod contains unwanted label;"] if mark == REFUSED else []
    texts += [
        "the pod contains unwanted container name;"
        for one in (pod.get("spec") or {}).get("containers") or ()
        if REFUSED in one["name"]
    ]
    return _denied(message=" ".join(texts)) if texts else _allowed()


def attaching(request: Obj) -> Obj:
    """Deny an attachment to one container of one pod."""
    if request.get("name") != "to-be-attached-pod":
        return _allowed()
    if request.get("resource") != PODS:
        return _wrong_resource(PODS)
    if request.get("subResource") != "attach":
        return _denied(message=f"expect subresource to be attach, got {request.get('subResource') or ''}")
    options = _seen(request)
    if not options.get("stdin") or options.get("container") != "container1":
        return _allowed()
    return _denied(message="attaching to pod 'to-be-attached-pod' is not allowed")


def mutate_pods(request: Obj) -> Obj:
    """Add an init container to a pod with a certain name."""
    pod, name = _seen(request), "webhook-added-init-container"
    present = any(one["name"] == name for one in (pod.get("spec") or {}).get("initContainers") or ())
    if (pod.get("metadata") or {}).get("name") != "webhook-to-be-mutated" or present:
        return _allowed()
    added = {"image": "webhook-added-image", "name": name, "resources": {}}
    return _patched([{"op": "add", "path": "/spec/initContainers", "value": [added]}])


def sidecars(image: str) -> Callable[[Obj], Obj]:
    """What adds a container to pods."""

    def mutate(request: Obj) -> Obj:
        if not image:
            text = "No image specified by the sidecar-image parameter"
            return _denied(status="Failure", message=text, code=500)
        name = "webhook-added-sidecar"
        if any(one["name"] == name for one in (_seen(request).get("spec") or {}).get("containers") or ()):
            return _allowed()
        added = {"image": image, "name": name, "resources": {}}
        return _patched([{"op": "add", "path": "/spec/containers/-", "value": added}])

    return mutate


def _data(request: Obj) -> Mapping[str, Any]:
    found = _seen(request).get("data")
    return found if isinstance(found, dict) else {}


def _judged(request: Obj, refused: str, kept: str) -> Obj:
    """Deny by the data of an object.  Quirk: the text is the reason, and there is no message."""
    mark, operation = _data(request).get(MARK), request.get("operation")
    if mark == REFUSED and operation in ("CREATE", "UPDATE"):
        return _denied(reason=refused)
    if mark == KEPT and operation == "DELETE":
        return _denied(reason=kept)
    return _allowed()


def admit_config_maps(request: Obj) -> Obj:
    """Deny ConfigMaps by their data."""
    why = "the configmap contains unwanted key and value"
    kept = "the configmap cannot be deleted because it contains unwanted key and value"
    return _judged(request, why, kept)


def admit_custom(request: Obj) -> Obj:
    """Deny custom objects by their data."""
    kept = "the custom resource cannot be deleted because it contains unwanted key and value"
    return _judged(request, "the custom resource contains unwanted data", kept)


def mutate_data(request: Obj) -> Obj:
    """Add to the data of an object what follows from it."""
    data, stage = _data(request), 0
    if data.get("mutation-start") == "yes":
        stage = 1
    if data.get("mutation-stage-1") == "yes":
        stage = 2
    return _patched([{"op": "add", "path": f"/data/mutation-stage-{stage}", "value": "yes"}] if stage else [])


def admit_definitions(request: Obj) -> Obj:
    """Deny CustomResourceDefinitions with a label."""
    labels = (_seen(request).get("metadata") or {}).get("labels") or {}
    return _denied(message="the crd contains unwanted label") if labels.get(MARK) == REFUSED else _allowed()


def reviewing(process: Process, decide: Callable[[Obj], Obj | None], delay_us: int = 0) -> Route:
    """The handler of a path that answers reviews."""

    def handle(request: Request) -> Generator[Wait, None, Response]:
        if header(request.headers, "content-type") != "application/json":
            return Response(200)
        try:
            review = json.loads(request.body)
            asked, head = review["request"], {key: review[key] for key in ("kind", "apiVersion")}
        except (ValueError, KeyError, TypeError) as error:
            return Response(400, f"Request could not be decoded: {error}\n".encode(), _TEXT)
        until_us = process.now_us + delay_us
        while process.now_us < until_us:
            yield Wait(until_us=until_us)
        answer = decide(asked)
        while answer is None:
            yield Wait()
        body = {**head, "response": {"uid": asked.get("uid", ""), **answer}}
        return Response(200, json.dumps(body, separators=(",", ":")).encode(), _JSON)

    return handle


def converted(obj: Obj, wanted: str) -> Obj | str:
    """An object of the example's other version, or what is wrong."""
    given = obj.get("apiVersion") or ""
    if wanted == given:
        return f"conversion from a version to itself should not call the webhook: {wanted}"
    first, second = "stable.example.com/v1", "stable.example.com/v2"
    if given not in (first, second):
        return f'unexpected conversion version "{given}"'
    if wanted not in (first, second):
        return f'unexpected conversion version "{wanted}"'
    made = {**obj, "apiVersion": wanted}
    if given == first and "hostPort" in made:
        parts = str(made.pop("hostPort")).split(":")
        if len(parts) != 2:
            return f"invalid hostPort value `{':'.join(parts)}`"
        made["host"], made["port"] = parts
    elif given == second and ("host" in made or "port" in made):
        made["hostPort"] = f"{made.pop('host', '')}:{made.pop('port', '')}"
    return made


def convert(request: Request) -> Generator[Wait, None, Response]:
    """Answer a ConversionReview."""
    yield from ()
    media = header(request.headers, "content-type")
    if media != "application/json":
        return Response(400, f"invalid Content-Type header `{media}`\n".encode(), _TEXT)
    try:
        review = json.loads(request.body)
        asked, head = review["request"], {key: review[key] for key in ("kind", "apiVersion")}
        found = [converted(obj, asked["desiredAPIVersion"]) for obj in asked["objects"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"failed to deserialize body ({request.body.decode(errors='replace')}) with error {error}\n"
        return Response(400, text.encode(), _TEXT)
    failure = next((one for one in found if isinstance(one, str)), None)
    response: Obj = {"uid": asked.get("uid", "")}
    if failure is None:
        response |= {"convertedObjects": found, "result": {"metadata": {}, "status": "Success"}}
    else:
        failed = {"metadata": {}, "status": "Failure", "message": failure}
        response |= {"convertedObjects": None, "result": failed}
    body = {**head, "response": response}
    return Response(200, json.dumps(body, separators=(",", ":")).encode(), _JSON)


def _ready(_: Request) -> Generator[Wait, None, Response]:
    yield from ()
    return Response(200, b"ok", _TEXT[:1])


def _serving(process: Process, routes: Mapping[str, Route], default_port: int) -> Main:
    """Serve paths over TLS with the certificate of a file."""
    flags, _ = flags_of(process.words[2:], SWITCHES)
    tasks, port = Tasks(process), int(flags.get("port", str(default_port)))
    try:
        certificate = bytes(process.container.files.read(flags.get("tls-cert-file", ""), process))
        process.container.files.read(flags.get("tls-private-key-file", ""), process)
    except FileError as error:
        process.ends[2].write(f"open {error.path}: {error.text.lower()}\n".encode())
        return 1

    def handle(request: Request) -> Generator[Wait, None, Response]:
        route = routes.get(request.path)
        if route is None:
            return Response(404, b"404 page not found\n", _TEXT)
        process.ends[2].write(f"handling request: {request.path}\n".encode())
        return (yield from route(request))

    def connected(connection: Connection) -> Generator[Wait, None, None]:
        if (yield from accept(connection, certificate, lambda: process.now_us)):
            yield from serve(
                connection, handle, lambda: process.now_us, lambda: (("Date", date_of(process)),)
            )

    try:
        tasks.listen(port, connected)
    except SocketError as error:
        process.ends[2].write(f"panic: listen tcp :{port}: bind: {error.text.lower()}\n".encode())
        return 2
    return (yield from tasks.run(2))


def webhook(process: Process) -> Main:
    """Serve admission reviews."""
    flags, _ = flags_of(process.words[2:], SWITCHES)
    deciders: dict[str, Callable[[Obj], Obj | None]] = {
        "/always-deny": always_deny, "/add-label": add_label, "/pods": admit_pods, "/pods/attach": attaching,
        "/mutating-pods": mutate_pods, "/mutating-pods-sidecar": sidecars(flags.get("sidecar-image", "")),
        "/configmaps": admit_config_maps, "/mutating-configmaps": mutate_data, "/custom-resource": admit_custom,
        "/mutating-custom-resource": mutate_data, "/crd": admit_definitions,
    }  # fmt: skip
    routes: dict[str, Route] = {path: reviewing(process, decide) for path, decide in deciders.items()}
    routes["/always-allow-delay-5s"] = reviewing(process, always_allow, DELAY_US)
    routes["/readyz"] = _ready
    return (yield from _serving(process, routes, 443))


def conversion_webhook(process: Process) -> Main:
    """Serve conversions of the example's custom resource."""
    return (yield from _serving(process, {"/crdconvert": convert, "/readyz": _ready}, 443))
