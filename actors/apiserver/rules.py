"""The steps that an object passes in a replica: defaults, admission, validation.

Turns the pure parts of `sim.api` into the `Rules` on which the verbs run.

Mirrors  kubernetes v1.25 apiserver pkg/admission.
Differs  Admission reads the current store; upstream's plugins read informers that may lag by
         milliseconds. apiserver_cel_evaluation_duration_seconds counts one evaluation for each
         object.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from actors.apiserver.metrics.admission import Admission, operation_of
from actors.apiserver.options import ApiServerOptions
from actors.apiserver.ports import LocalStore
from sim.api import status
from sim.api.admission.base import Attributes, Denial, Operation
from sim.api.admission.chain import (
    MUTATING_WEBHOOK,
    NAMESPACE_AUTO_PROVISION,
    RESOURCE_QUOTA,
    VALIDATING_WEBHOOK,
    Chain,
)
from sim.api.admission.handled import ADMIT, VALIDATE, Pass
from sim.api.admission.provision import provision
from sim.api.admission.quota import is_counted
from sim.api.admission.quota_charge import Charge, charge
from sim.api.admission.webhooks import dispatch
from sim.api.admission.webhooks.hooks import MUTATING, VALIDATING, is_exempt
from sim.api.crd import objects as custom_objects
from sim.api.crd.served import CustomResource
from sim.api.generated_names import generated_name
from sim.api.kinds.common.sent import as_judged, as_sent, with_differences
from sim.api.kinds.conversion import form_of
from sim.api.kinds.defaults import apply_defaults, with_gated_defaults
from sim.api.kinds.validation import validate_create, validate_update
from sim.api.refusals import Refusal, internal
from sim.api.schema.json_text import go_quote
from sim.api.schema.kind import CONNECTING
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.store import Answer, Change, Op, Page, Range
from sim.api.types import Obj
from sim.api.validation.errors import Errors
from sim.api.verbs import custom as custom_verbs
from sim.api.verbs.call import Call, Rules, any_of
from sim.api.verbs.scale import scale_of
from sim.kernel import Kernel
from sim.units import Revision


class Read(NamedTuple):
    """A read by admission: of one key, or of all keys below a prefix, and the objects found."""

    key: str
    listed: bool
    found: Any


class Reads:
    """What admission has read for a request.

    turn: the view's count of changes when all reads were last found to give the same objects
    """

    __slots__ = ("rows", "turn")

    def __init__(self, rows: tuple[Read, ...] = ()) -> None:
        self.rows = rows
        self.turn = -1


class StoreView:
    """The cluster as admission plugins read it.

    reads: the recorded reads; None while reads are not recorded
    """

    def __init__(self, store: LocalStore, scheme: Scheme) -> None:
        self._store = store
        self._turn = 0  # rises with each change of a resource that was read
        self._watched: dict[str, Callable[[], None]] = {}  # by prefix, how to unsubscribe
        self._scheme = scheme
        # Lists by prefix, each with the revision at which it was read and the log of its resource.
        self._lists: dict[str, tuple[Revision, list[Obj], Sequence[Any]]] = {}
        self.reads: list[Read] | None = None

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        """Return an object of the store, and record the read while reads are recorded."""
        key = self._scheme.key(resource, namespace, name)
        item = self._store.get(key)
        if self.reads is not None:
            self._take_down(resource, Read(key, False, item))
        return None if item is None else item.obj

    def _take_down(self, resource: str, read: Read) -> None:
        assert self.reads is not None
        self.reads.append(read)
        prefix = self._scheme.prefix(resource)
        if prefix not in self._watched:
            self._watched[prefix] = self._store.subscribe(prefix, self._changed)

    def _changed(self, _: Change) -> None:
        self._turn += 1

    def close(self) -> None:
        """End the subscriptions."""
        for cancel in self._watched.values():
            cancel()
        self._watched.clear()

    def holds(self, reads: Reads) -> bool:
        """Return True if replaying these reads gives the same values."""
        if reads.turn == self._turn:
            return True
        for key, listed, found in reads.rows:
            if (self._below(key) if listed else self._store.get(key)) is not found:
                return False
        reads.turn = self._turn
        return True

    def _below(self, prefix: str) -> Sequence[Obj]:
        store = self._store
        known = self._lists.get(prefix)
        if known is None or known[0] < store.floor or (known[2] and known[2][-1].rev > known[0]):
            page = store.range(Range(prefix))
            assert isinstance(page, Page)
            found = [item.obj for item in page.items]
            if known is not None and _are(known[1], found):
                found = known[1]  # the change was in another namespace
            known = self._lists[prefix] = (store.revision, found, store.log_of(prefix))
        return known[1]

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of a kind; None if it is not served."""
        return self._scheme.by_kind(api_version, kind)

    def mark_volatile(self) -> None:
        """Stop recording reads, because no template may be learned from this request."""
        self.reads = None

    def list(self, resource: str, namespace: str = "") -> Sequence[Obj]:
        """Return the objects of a resource, and record the read while reads are recorded."""
        prefix = self._scheme.prefix(resource, namespace)
        found = self._below(prefix)
        if self.reads is not None:
            self._take_down(resource, Read(prefix, True, found))
        return found


def _are(old: list[Obj], new: list[Obj]) -> bool:
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))


def token_suffix(spec: Obj, account: Obj) -> str:
    """Return five letters that look random, and are equal for equal specs and accounts."""
    encoded = msgspec.json.encode((account["metadata"].get("uid", ""), spec))
    value = int.from_bytes(blake2b(encoded, digest_size=5).digest())
    return generated_name("", lambda _: value)


PLAIN = ApiServerOptions()
# The plugins that call webhooks, by whether these may change objects.
PLUGINS_OF_HOOKS = {True: MUTATING_WEBHOOK, False: VALIDATING_WEBHOOK}


class Machinery:
    """The rules of one replica."""

    def __init__(
        self,
        scheme: Scheme,
        store: LocalStore,
        options: ApiServerOptions = PLAIN,
        kernel: Kernel | None = None,
    ) -> None:
        self.view = StoreView(store, scheme)
        self._chain = Chain(
            scheme.names,
            token_suffix,
            options.disabled_admission,
            options.tolerations,
            options.enabled_admission,
            options.admission,
        )
        self._metering = Admission(
            (lambda: None) if kernel is None else (lambda: kernel.meters),
            (lambda: 0) if kernel is None else (lambda: kernel.now_us),
            self._chain.running,
        )
        self._charges = RESOURCE_QUOTA in self._chain.running
        self._provides = NAMESPACE_AUTO_PROVISION in self._chain.running
        self._hooks = {
            True: MUTATING if MUTATING_WEBHOOK in self._chain.running else "",
            False: VALIDATING if VALIDATING_WEBHOOK in self._chain.running else "",
        }
        self._scheme = scheme
        self._defaults = partial(_gated_defaults, options.gates) if options.gates else _defaults
        self._limited = options.admission.limited

    def rules(self) -> Rules:
        """Return the rules for the verbs."""
        return Rules(
            defaults=self._defaults,
            admit=self._admit,
            valid=_valid,
            check=self._check,
            charge=self._charge,
            provide=self._provide,
            hooks=self._call_hooks,
        )

    def _attributes(self, call: Call, operation: Operation, obj: Obj, old: Obj | None) -> Attributes:
        request, registry = call.request, call.registry
        return Attributes(
            operation=operation,
            resource=call.resource,
            subresource=request.subresource,
            namespace=request.namespace,
            name=request.name or (obj.get("metadata") or {}).get("name", ""),
            old=old,
            user=request.user,
            dry_run=call.dry_run,
            now_us=registry.wall_us(),
            authorizer=registry.authorizer,
            annotations=request.annotations,
            count=self._metering.counter(),
        )

    def _admit(self, call: Call, obj: Obj, old: Obj | None) -> Obj:
        try:
            return self._run_plugins(call, obj, old)
        except Refusal:
            self._metering.refused(operation_of(obj, old), ADMIT, self._chain.refuser)
            raise

    def _run_plugins(self, call: Call, obj: Obj, old: Obj | None) -> Obj:
        operation = operation_of(obj, old)
        if not self._chain.plan(operation, call.resource.rule, call.request.subresource)[0]:
            return obj
        result = self._chain.mutate(self._attributes(call, operation, obj, old), obj, self.view)
        if isinstance(result, Denial):
            raise _refusal(result)
        return result

    def _check(self, call: Call, obj: Obj | None, old: Obj | None) -> None:
        operation = operation_of(obj, old)
        plan = self._chain.plan(operation, call.resource.rule, call.request.subresource)
        given = old or {} if obj is None else obj
        if obj is None and plan[0]:
            result = self._chain.mutate(self._attributes(call, operation, given, old), given, self.view)
            if isinstance(result, Denial):
                self._metering.refused(operation, ADMIT, self._chain.refuser)
                raise _refusal(result)
        if obj is None:
            self._metering.passed(operation, ADMIT)
        if not plan[1]:
            return
        attributes = self._attributes(call, operation, given, old)
        denial = self._chain.validate(attributes, given, self.view)
        if denial is not None:
            self._metering.refused(operation, VALIDATE, self._chain.refuser)
            raise _refusal(denial)
        call.warnings += [warning for warning in attributes.warnings if warning not in call.warnings]

    def _charge(self, call: Call, obj: Obj, old: Obj | None) -> Charge | None:
        if not self._is_charged(call, old):
            return None
        quotas = self.view.list("resourcequotas", call.request.namespace)
        limited = [each for each in self._limited if each.is_for(call.resource)]
        if not (quotas or limited):
            return None
        run = charge(call, [quota["metadata"]["name"] for quota in quotas], obj, old, limited)
        if self._metering.meters() is None:
            return run
        return self._metering.charged(run, operation_of(obj, old))

    def _is_charged(self, call: Call, old: Obj | None) -> bool:
        """True if quotas and limited resources may count the object of a request."""
        request, resource = call.request, call.resource
        if request.subresource or not request.namespace or not self._charges:
            return False
        use = resource.behavior.quota
        if use is None or (old is not None and not use.charges_updates):
            return False
        return is_counted(resource)

    def _ends_with_charge(self, call: Call, obj: Obj | None, old: Obj | None) -> bool:
        """True if `_charge` will return a charge of this request."""
        if obj is None or obj is old or not self._is_charged(call, old):
            return False
        if self.view.list("resourcequotas", call.request.namespace):
            return True
        return any(each.is_for(call.resource) for each in self._limited)

    def _call_hooks(
        self, call: Call, obj: Obj | None, old: Obj | None, mutating: bool
    ) -> dispatch.Run | None:
        run, metering = self._hook_run(call, obj, old, mutating), self._metering
        if metering.meters() is None:
            return run
        operation = _operation(call, obj, old)
        kind: Pass = ADMIT if mutating else VALIDATE
        # The plugins see an object that is deleted after the mutating webhooks: see `_check`.
        ends = obj is not None if mutating else not self._ends_with_charge(call, obj, old)
        if run is not None:
            return metering.called(run, operation, kind, PLUGINS_OF_HOOKS[mutating], ends=ends)
        if ends:
            metering.passed(operation, kind)
        return None

    def _hook_run(self, call: Call, obj: Obj | None, old: Obj | None, mutating: bool) -> dispatch.Run | None:
        plural = self._hooks[mutating]
        if not plural or not self.view.list(plural):
            return None
        operation = _operation(call, obj, old)
        attributes = self._attributes(call, operation, obj or old or {}, old)
        if call.collected:
            attributes = msgspec.structs.replace(attributes, name="")
        if call.request.resource == "bindings":  # which is a resource, and no part of pods
            bindings = self._scheme.resource("bindings")
            attributes = msgspec.structs.replace(attributes, resource=bindings, subresource="")
        if is_exempt(attributes, call.registry.names):
            return None
        self.view.mark_volatile()
        machine = dispatch.Machine(
            self.view,
            partial(_served_versions, call.registry.scheme),
            partial(_shown_in, call),
            partial(self._taken_in, call),
            partial(_rescaled, call),
            lambda changed: self._run_plugins(call, changed, old),
        )
        run = dispatch.mutate if mutating else dispatch.validate
        return run(call, attributes, obj, machine)

    def _taken_in(self, call: Call, resource: Resource, obj: Obj) -> Obj:
        """An object that a webhook changed, in the version of the request, with defaults."""
        if call.subresource not in ("", "status"):
            return obj
        version = obj.get("apiVersion")
        if resource.custom and version != resource.api_version:
            unfit = "is unstructured and is not suitable for converting to"
            text = f"{version}, Kind={obj.get('kind')} {unfit} {go_quote(call.resource.api_version)}"
            raise internal(text)
        if resource is not call.resource:
            names = call.registry.names
            given, asked = form_of(resource, names), form_of(call.resource, names)
            stored = obj if given is None else given.stored(obj)
            obj = stored if asked is None else asked.shown(stored)
            obj = {**obj, "apiVersion": call.resource.api_version}
        return self._defaults(call.resource, obj, call.subresource)

    def _provide(self, call: Call) -> Generator[Op, Answer, None] | None:
        namespace = call.request.namespace
        if not self._provides or not namespace or call.dry_run:
            return None
        return provision(call) if self.view.get("namespaces", "", namespace) is None else None


def _operation(call: Call, obj: Obj | None, old: Obj | None) -> Operation:
    """The operation that webhooks see."""
    return "connect" if call.request.subresource in CONNECTING else operation_of(obj, old)


def _served_versions(scheme: Scheme, resource: Resource) -> Sequence[Resource]:
    """The resources that serve the objects of a resource, itself included."""
    more = [each for each in scheme.more.served.resources if each.prefix == resource.prefix]
    return [*(each for each in scheme.resources if each.prefix == resource.prefix), *more]


def _shown_in(call: Call, resource: Resource, obj: Obj) -> Obj:
    """An object of a request in the version of an equivalent resource."""
    if call.request.subresource == "scale":
        if call.resource.custom:
            return custom_verbs.seen_scale(call, obj)
        return scale_of(call.resource.behavior.scaling, obj)
    if resource is call.resource:
        return obj if "kind" in obj else {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    names = call.registry.names
    asked, wanted = form_of(call.resource, names), form_of(resource, names)
    stored = obj if asked is None else asked.stored(obj)
    shown = stored if wanted is None else wanted.shown(stored)
    return {**shown, "apiVersion": resource.api_version, "kind": resource.kind}


def _rescaled(call: Call, obj: Obj, scale: Obj) -> Obj:
    """An object with the number of replicas of a Scale that a webhook changed."""
    replicas = any_of(scale.get("spec")).get("replicas") or 0
    if call.resource.custom:
        return custom_verbs.with_replicas(call, obj, replicas)
    return {**obj, "spec": {**any_of(obj.get("spec")), "replicas": replicas}}


def _refusal(denial: Denial) -> Refusal:
    return Refusal(denial.code, denial.reason, denial.message, denial.details)


def _defaults(resource: Resource, obj: Obj, subresource: str = "") -> Obj:
    if resource.custom:
        assert isinstance(resource, CustomResource)
        return custom_objects.with_defaults(resource, obj)
    return apply_defaults(resource, obj, subresource)


def _gated_defaults(gates: tuple[str, ...], resource: Resource, obj: Obj, subresource: str = "") -> Obj:
    obj = _defaults(resource, obj, subresource)
    return obj if subresource == "status" else with_gated_defaults(resource, obj, gates)


def _valid(call: Call, obj: Obj, old: Obj | None) -> None:
    errors = _custom_errors(call, obj, old) if call.resource.custom else _errors(call, obj, old)
    if errors:
        name = obj["metadata"].get("name", "")
        raise Refusal.of(status.invalid_object(call.resource, name, errors))


def _errors(call: Call, obj: Obj, old: Obj | None) -> Errors:
    obj = as_judged(call.resource.plural, obj, call.sent)
    if old is None:
        errors = validate_create(call.resource, obj, call.registry.gates)
    else:
        judge = partial(_update_errors, call, old)
        errors = judge(obj)
        if errors and call.sent is not None:
            errors = with_differences(errors, obj, call.sent, judge)
    return as_sent(errors, call.sent) if errors and call.sent is not None else errors


def _update_errors(call: Call, old: Obj, obj: Obj) -> Errors:
    return validate_update(call.resource, obj, old, call.subresource, call.registry.gates)


def _custom_errors(call: Call, obj: Obj, old: Obj | None) -> Errors:
    """Quirk: an object of a kind other than the resource's is refused under its own name."""
    resource = call.resource
    assert isinstance(resource, CustomResource)
    if resource.has_rules:
        call.registry.observe("apiserver_cel_evaluation_duration_seconds", 0.0)
    wrong = custom_objects.type_errors(resource, obj)
    if wrong:
        group = str(obj.get("apiVersion")).rpartition("/")[0]
        name = obj["metadata"].get("name", "")
        if call.subresource != "status":
            wrong = [*wrong, *custom_objects.structure_errors(resource, obj, old, wrong)]
        raise Refusal.of(status.invalid(group, str(obj.get("kind")), name, wrong))
    if old is None:
        return custom_objects.create_errors(resource, obj)
    found = custom_objects.status_errors if call.subresource == "status" else custom_objects.update_errors
    return _errors(call, obj, old) + found(resource, obj, old)
