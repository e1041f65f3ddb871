"""What a cluster loses when parts of it fail, as a scenario: steps that take the parts away, and
expectations that measure the service that is lost.

Turns the import of a kubectl dump and texts such as "zone=a" into the same import with a timeline
and expectations:

- each workload serves: at no time are fewer of its pods available than its PodDisruptionBudget
  needs, or than one where it has none
- each workload with more pods than that has all of them again at most `WHOLE_US` after the end
- no Pod without a controller is deleted: nothing replaces it
- if a part of the control plane or a webhook is lost: a Deployment that is created a second later
  has a ready pod within `NEW_PODS`

Mirrors  kubernetes pkg/controller/disruption/disruption.go: getExpectedPodCount (the pods that a
         budget needs; percentages are rounded up).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sim.api.selectors import from_selector
from sim.app.imports.made import controller_of
from sim.app.imports.parts import Imported, Value
from sim.app.imports.references import UPSTREAM
from sim.dataclass import dataclass
from sim.errors import InputError, suggestion
from sim.units import MINUTE, SECOND, format_duration

AT_US = 2 * MINUTE  # when the parts are lost
WHOLE_US = 10 * MINUTE  # after the end of the loss a workload has its pods again
REST_US = 5 * MINUTE  # from then to the end of the run
NEW_PODS = "1m"
STEP, CHANGE = "loss", "new-deployment"
SHOWN_MAX = 10  # names that an error lists
PROBE = "orrery-whatif"  # the name of the Deployment that is created during the loss
IMAGE = "registry.example/pause:3"
NODES_FAIL = ("power-loss", "network-cut", "hang", "shutdown", "agent-crash", "runtime-failure")
KINDS = {
    "zone=NAME": "all nodes of a zone",
    "node=NAME": "one node",
    "apiserver": "all API servers",
    "controller-manager": "all controller managers",
    "scheduler": "all schedulers",
    "storage": "the quorum of the storage",
    "webhook": "all admission webhooks of the dump",
    "webhook=NAME": "one of them, by its name or that of its configuration",
}
_PLURALS = {
    "Deployment": "deployments", "StatefulSet": "statefulsets", "ReplicaSet": "replicasets",
    "ReplicationController": "replicationcontrollers",
}  # fmt: skip
_WEBHOOKS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
_ALL = {
    "apiserver": "each API server", "controller-manager": "each controller manager", "scheduler": "each scheduler",
    "storage": "the quorum of the storage", "webhook": "each webhook",
}  # fmt: skip
_PROCESSES = ("apiserver", "controller-manager", "scheduler")


class Loss(NamedTuple):
    """One part that is lost: its kind and, for some kinds, its name."""

    kind: str
    name: str

    @property
    def words(self) -> str:
        """The part in words: "zone a"."""
        return f"{self.kind} {self.name}" if self.name else _ALL[self.kind]


@dataclass(frozen=True, slots=True)
class Question:
    """What is lost, and for how long.

    losses: all begin at the same time
    lasts_us: the time of the loss
    how: the way in which nodes fail
    allowed_us: the time for which a workload may serve with too few pods, in all
    """

    losses: tuple[Loss, ...]
    lasts_us: int
    how: str = NODES_FAIL[0]
    allowed_us: int = 0

    @property
    def words(self) -> str:
        """The question in words: "zone a is lost for 20m"."""
        parts = " and ".join(loss.words for loss in self.losses)
        verb = "are" if len(self.losses) > 1 else "is"
        return f"{parts} {verb} lost for {short_duration(self.lasts_us)}"


def parsed_loss(text: str) -> Loss:
    """The loss that a text such as "zone=a" names.  Raises InputError."""
    kind, equals, name = text.partition("=")
    wants = [form.partition("=")[1] for form in KINDS if form.partition("=")[0] == kind]
    if not wants:
        known = [form.partition("=")[0] for form in KINDS]
        remedy = suggestion(kind, known, f"one of {', '.join(KINDS)}")
        raise InputError("names nothing that can be lost", f"--lose {text}", remedy)
    if equals not in wants or (equals and not name):
        forms = " or ".join(form for form in KINDS if form.partition("=")[0] == kind)
        problem = "takes no name" if name else "has no name"
        raise InputError(problem, f"--lose {text}", f"write {forms}")
    return Loss(kind, name)


def with_losses(found: Imported, question: Question) -> Imported:
    """The import with the steps and the expectations of a question.  Raises InputError."""
    lasts = short_duration(question.lasts_us)
    base: Value = {"at": short_duration(AT_US), "for": lasts}
    steps = [
        {**base, "name": f"{STEP}-{number}" if number else STEP, **action}
        for number, action in enumerate(
            action for loss in question.losses for action in _actions(found, loss, question.how)
        )
    ]
    found.expect = [*_expectations(found, question)]
    if any(loss.kind not in ("zone", "node") for loss in question.losses):
        steps.append(_change(found))
        found.expect.append(_change_expectation(found))
    found.steps = [*found.steps, *steps]
    found.lasts_s = -(-(AT_US + question.lasts_us + WHOLE_US + REST_US) // SECOND) - 10 * 60
    return found


def short_duration(us: int) -> str:
    """A duration as a scenario is written: "20m", not "20m0s"."""
    text = format_duration(us)
    for unit, zero in (("m", "m0s"), ("h", "h0m")):
        if text.endswith(zero):
            text = text.removesuffix(zero) + unit
    return text


def _actions(found: Imported, loss: Loss, how: str) -> list[Value]:
    """The actions of the steps that take a part away."""
    shown = f"--lose {loss.kind}={loss.name}"
    if loss.kind == "zone":
        _check(loss.name, [zone for group in found.nodes for zone in group.get("zones") or ()], "zone", shown)
        return [{"fail": {"nodes": {"zone": loss.name}, "how": how}}]
    if loss.kind == "node":
        _check(loss.name, found.names, "node", shown)
        return [{"fail": {"nodes": {"name": found.names[loss.name]}, "how": how}}]
    if loss.kind in _PROCESSES:
        return [{"crash": {"actor": loss.kind}}]
    if loss.kind == "storage":
        return [{"storage": {"how": "lost-quorum"}}]
    return [{"webhook": {"name": name, "how": "down"}} for name in _webhooks(found, loss.name, shown)]


def _check(name: str, known: Iterable[str], what: str, shown: str) -> None:
    there = sorted(dict.fromkeys(known))
    if name in there:
        return
    if not there:
        remedy = "the dump has none: add nodes to kubectl get"
    elif len(there) <= SHOWN_MAX:
        remedy = f"there are {', '.join(there)}"
    else:
        remedy = suggestion(name, there, f"there are {', '.join(there[:SHOWN_MAX])} and more")
    raise InputError(f"the cluster has no such {what}", shown, remedy)


def _webhooks(found: Imported, name: str, shown: str) -> list[str]:
    """The names of all webhooks, or of those of a name."""
    given = [
        (obj["metadata"]["name"], hook["name"])
        for obj in found.objects
        if obj["kind"] in _WEBHOOKS
        for hook in obj.get("webhooks") or ()
    ]
    if not given:
        kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
        raise InputError("the dump has no webhooks", shown.removesuffix("="), f"add {kinds} to kubectl get")
    if name:
        _check(name, [each for pair in given for each in pair], "webhook", shown)
    return [*dict.fromkeys(hook for pair in given for hook in pair[1:] if not name or name in pair)]


def _expectations(found: Imported, question: Question) -> Iterable[Value]:
    # Zero is in minutes, so that the time that is lost is shown in minutes and seconds.
    allowed = short_duration(question.allowed_us) if question.allowed_us else "0m"
    whole = short_duration(question.lasts_us + WHOLE_US)
    for obj in found.objects:
        replicas = (obj.get("spec") or {}).get("replicas", 1) if obj["kind"] in _PLURALS else 0
        if not replicas:
            continue
        name, of = _place(obj)
        least, why = _least(found.objects, obj, replicas)
        serves = {"of": of, "below": least, "atMost": allowed}
        yield {"name": f"{name} serves, with {why}", "unavailability": serves, "after": STEP}
        if replicas > least:
            has = "has its pod" if replicas == 1 else f"has all {replicas} pods"
            again = {"of": of, "atMost": whole}
            yield {"name": f"{name} {has} again", "unavailability": again, "after": STEP}
    for obj in found.objects:
        if obj["kind"] == "Pod" and controller_of(obj) is None:
            space, name = _space(obj), obj["metadata"]["name"]
            where = {"namespace": space, "name": name}
            yield {
                "name": f"pod {space}/{name} stays",
                "never": {"deleted": "pods", "where": where},
                "after": STEP,
            }


def _place(obj: Value) -> tuple[str, str]:
    """The name of a workload for readers, and its name in an expectation."""
    space, name = _space(obj), obj["metadata"]["name"]
    return f"{space}/{name}", f"{_PLURALS[obj['kind']]}/{space}/{name}"


def _space(obj: Value) -> str:
    return obj["metadata"].get("namespace") or UPSTREAM.default_namespace


def _least(objects: Sequence[Value], workload: Value, replicas: int) -> tuple[int, str]:
    """The number of pods that a workload needs to serve, and in words where it comes from."""
    template = (workload.get("spec") or {}).get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    for obj in objects:
        spec = obj.get("spec") or {}
        if obj["kind"] != "PodDisruptionBudget" or _space(obj) != _space(workload):
            continue
        if "selector" in spec and from_selector(spec["selector"]).matches(labels):
            if "maxUnavailable" in spec:
                least = replicas - _scaled(spec["maxUnavailable"], replicas)
            else:
                least = _scaled(spec.get("minAvailable", 1), replicas)
            least = max(1, min(replicas, least))
            return least, f"the {least} pods of its budget" if least > 1 else "the pod of its budget"
    return 1, "a pod"


def _scaled(value: object, replicas: int) -> int:
    """A number, or a percentage of the replicas, rounded up."""
    text = str(value)
    return -(-int(text[:-1]) * replicas // 100) if text.endswith("%") else int(text)


def _change_space(found: Imported) -> str:
    """The namespace of the first workload: webhooks and quotas of it count."""
    return next((_space(obj) for obj in found.objects if obj["kind"] in _PLURALS), UPSTREAM.default_namespace)


def _change(found: Imported) -> Value:
    labels = {"app": PROBE}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "pause", "image": IMAGE}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": PROBE, "namespace": _change_space(found)},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod},
    }
    return {"at": short_duration(AT_US + SECOND), "name": CHANGE, "apply": {"objects": [deployment]}}


def _change_expectation(found: Imported) -> Value:
    space = _change_space(found)
    when = f"deployments in namespace {space} named {PROBE} have status.readyReplicas=1"
    return {
        "name": f"a new Deployment in {space} gets its pod",
        "when": when,
        "within": ["0s", NEW_PODS],
        "after": CHANGE,
    }
