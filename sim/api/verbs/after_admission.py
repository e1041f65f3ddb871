"""What mutating webhooks may not change: where an object is, and which revision of it is meant.

An object after mutating admission becomes the object that is validated and stored, or a refusal.

Mirrors  kubernetes v1.25 apiserver pkg/registry/rest/{create,update}.go,
         pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

from sim.api.objects import with_metadata
from sim.api.refusals import Refusal, internal
from sim.api.types import Obj
from sim.api.verbs.call import Call, check_namespace, parse_revision
from sim.units import parse_unsigned


def placed(call: Call, obj: Obj) -> Obj:
    """A new object after admission, in the namespace of the request; raises if a webhook has set
    another one (create.go: BeforeCreate).
    """
    metadata, namespace = obj["metadata"], call.request.namespace
    if not call.resource.namespaced:
        return with_metadata(obj, namespace=None) if "namespace" in metadata else obj
    check_namespace(metadata, call.request)
    return obj if metadata.get("namespace") == namespace else with_metadata(obj, namespace=namespace)


def check_admitted(call: Call, wanted: Obj, new: Obj, old: Obj) -> None:
    """Raises if a webhook has given an updated object another namespace or revision.

    Mirrors  generic/registry/store.go (Update, which compares revisions after admission),
             rest/update.go (BeforeUpdate).
    """
    given, before = (str(one["metadata"].get("resourceVersion", "")) for one in (new, wanted))
    if given != before:
        parse_revision(given)
        if given in ("", "0"):
            if not call.resource.behavior.strategy.unconditional:
                raise must_specify_revision(call)
        elif given != old["metadata"]["resourceVersion"]:
            raise call.modified()
    if call.resource.namespaced:
        check_namespace(new["metadata"], call.request)


def must_specify_revision(call: Call) -> Refusal:
    """The refusal of an update without a resourceVersion, for kinds that require one."""
    # Quirk: only this message names the plural resource, and it prints the number in hexadecimal.
    resource, name = call.resource, call.request.name
    text = "Invalid value: 0x0: must be specified for an update"
    cause = {"reason": "FieldValueInvalid", "message": text, "field": "metadata.resourceVersion"}
    return Refusal(
        422,
        "Invalid",
        f'{resource.group_resource} "{name}" is invalid: metadata.resourceVersion: {text}',
        call.details(name, causes=[cause]),
    )


def to_be_stored(obj: Obj) -> Obj:
    """The object without the revision that a client gave it, which the store refuses.

    Quirk: it ignores one that is not a number, or zero (etcd3 store.go: Create).
    """
    metadata = obj["metadata"]
    if "resourceVersion" not in metadata:
        return obj
    if parse_unsigned(metadata["resourceVersion"]):
        raise internal("resourceVersion should not be set on objects to be created")
    kept = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    return {**obj, "metadata": kept}


def counted(call: Call, new: Obj, old: Obj) -> Obj:
    """The updated object with the next generation if its body held what reflection notices."""
    field, sent = call.resource.behavior.strategy.reflected, call.sent
    before = old["metadata"].get("generation", 0)
    if not field or sent is None or new["metadata"].get("generation", 0) != before:
        return new
    if any(path == field or path.startswith((f"{field}.", f"{field}[")) for path in sent.emptied):
        return with_metadata(new, generation=before + 1)
    return new
