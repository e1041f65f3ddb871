"""PodSecurity: enforces, audits and warns by the security standards in a namespace's labels.

The labels of a namespace decide whether a pod is refused and whether a pod or template causes
warnings and audit annotations; a stricter level of a namespace causes warnings about its existing
pods.

Holds: a namespace without such labels costs one lookup. Templates cause warnings only: their pods
are judged on create.

Mirrors  pod-security-admission v0.25 admission/admission.go, api/helpers.go.
Differs  when the level of a namespace rises, all its pods are checked in the order of their names
         (upstream: 3,000 of them, or as many as one second allows).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sim.api import status
from sim.api.admission.base import Attributes, Denial, Operation, View, forbidden, name_of
from sim.api.admission.plugins.pods.security_standards import (
    CONTAINERS,
    EMPTY,
    LATEST,
    LEVELS,
    Finding,
    findings,
)
from sim.api.kinds.registry import POD_SPECS
from sim.api.objects import annotations_of, get_in, labels_of
from sim.api.types import Obj
from sim.api.validation.errors import FieldError, invalid
from sim.ident import Names
from sim.patterns import pattern

Labels = Mapping[str, str]
PRIVILEGED = LEVELS[0]
_MODES = ("enforce", "audit", "warn")
_VERSION = pattern(r"v1\.(0|[1-9][0-9]*)")


class Standard(NamedTuple):
    """A level at a version ("latest" or "v1.x")."""

    level: str = PRIVILEGED
    version: str = "latest"

    @property
    def minor(self) -> int:
        """The minor version; at most the latest known one."""
        return LATEST if self.version == "latest" else min(int(self.version.partition(".")[2]), LATEST)

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


class Exemptions(NamedTuple):
    """Names of what the plugin leaves alone."""

    usernames: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    runtime_classes: tuple[str, ...] = ()


PLAIN = Standard()


class PodSecurityLimits(NamedTuple):
    """The plugin's configuration.

    defaults: the standard of each mode where a namespace has no label for it
    """

    defaults: Mapping[str, Standard] = dict.fromkeys(_MODES, PLAIN)
    exemptions: Exemptions = Exemptions()


def _count(attributes: Attributes, what: str, *labels: str) -> None:
    """Add to a metric (pod-security-admission metrics/metrics.go)."""
    if attributes.count is not None:
        resource = "pod" if attributes.resource.rule == "pods" else "controller"
        about = attributes.operation, resource, attributes.subresource
        attributes.count(f"pod_security_{what}_total", (*labels, *about))


def count_exemption(attributes: Attributes) -> None:
    """Count a request that the plugin leaves alone."""
    _count(attributes, "exemptions")


def count_evaluation(attributes: Attributes, mode: str, standard: Standard, *, denied: bool) -> None:
    """Count a judgement."""
    version = "latest" if standard.level == PRIVILEGED else standard.version
    if version != "latest" and int(version.partition(".")[2]) > LATEST:
        version = "future"
    decision = "deny" if denied else "allow"
    _count(attributes, "evaluations", decision, standard.level, version, mode)


class PodSecurity:
    """Checks pods and templates against the standards of their namespace."""

    def __init__(self, names: Names, limits: PodSecurityLimits = PodSecurityLimits()) -> None:
        self._prefix = names.label_pod_security_prefix
        self._apparmor = names.annotation_apparmor_prefix
        self._seccomp = names.annotation_seccomp_pod
        self._seccomp_of_container = names.annotation_seccomp_container_prefix
        self._defaults, self._exempt = limits
        self._privileged = all(each.level == PRIVILEGED for each in self._defaults.values())

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        if operation == "delete":
            return False
        if plural == "pods":
            return subresource in ("", "ephemeralcontainers")
        return not subresource and (plural == "namespaces" or plural in POD_SPECS)

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        plural = attributes.resource.rule
        if plural == "namespaces":
            return self._namespace(attributes, obj, view)
        if attributes.namespace in self._exempt.namespaces:
            self._note(attributes, "exempt", "namespace")
            count_exemption(attributes)
            return None
        if self._exempt.usernames:
            view.mark_volatile()
            if attributes.user.name in self._exempt.usernames:
                self._note(attributes, "exempt", "user")
                count_exemption(attributes)
                return None
        namespace = view.get("namespaces", "", attributes.namespace)
        labels = labels_of(namespace) if namespace is not None else {}
        if self._privileged and not any(label.startswith(self._prefix) for label in labels):
            if plural == "pods":
                self._note(attributes, "enforce-policy", str(PLAIN))
                count_evaluation(attributes, "enforce", PLAIN, denied=False)
            return None
        standards, errors = standards_of(labels, self._prefix, self._defaults)
        path = POD_SPECS[plural]
        spec = get_in(obj, path)
        if not isinstance(spec, dict):
            return None
        old = attributes.old if plural == "pods" else None
        if old is not None and not is_significant(old, obj, self._seccomp_of_container):
            return None
        if spec.get("runtimeClassName") in self._exempt.runtime_classes:
            self._note(attributes, "exempt", "runtimeClass")
            count_exemption(attributes)
            return None
        if errors:
            texts = [f"{error.field}: {error.message}" for error in errors]
            text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            self._note(attributes, "error", f"Failed to parse policy: {text}")
            _count(attributes, "errors", "false")
        return self._evaluated(attributes, obj, standards)

    def _evaluated(
        self, attributes: Attributes, obj: Obj, standards: Mapping[str, Standard]
    ) -> Denial | None:
        """The refusal of a pod, with what the levels audit and warn say of a pod or template."""
        path = POD_SPECS[attributes.resource.rule]
        holder, spec = get_in(obj, path[:-1]), get_in(obj, path)
        denial = None
        if attributes.resource.rule == "pods":
            enforced = standards["enforce"]
            self._note(attributes, "enforce-policy", str(enforced))
            against = self._against(enforced, holder, spec)
            count_evaluation(attributes, "enforce", enforced, denied=bool(against))
            if against:
                text = f'violates PodSecurity "{enforced}": {listed(against)}'
                denial = forbidden(attributes, text, name_of(attributes, obj))
        if attributes.annotations is not None or attributes.count is not None:
            against = self._against(standards["audit"], holder, spec)
            if against:
                count_evaluation(attributes, "audit", standards["audit"], denied=True)
                text = f'would violate PodSecurity "{standards["audit"]}": {listed(against)}'
                self._note(attributes, "audit-violations", text)
        if denial is None:
            against = self._against(standards["warn"], holder, spec)
            if against:
                count_evaluation(attributes, "warn", standards["warn"], denied=True)
                text = f'would violate PodSecurity "{standards["warn"]}": {listed(against)}'
                attributes.warnings.append(text)
        return denial

    def _note(self, attributes: Attributes, key: str, value: str) -> None:
        """An annotation of the audit event."""
        if attributes.annotations is not None:
            attributes.annotations.setdefault(self._prefix + key, value)

    def _against(self, standard: Standard, holder: Obj, spec: Obj) -> list[Finding]:
        """The checks that a pod or template (`holder`) fails at a standard."""
        prefix, annotations = self._apparmor, annotations_of(holder)
        profiles = {k: v for k, v in annotations.items() if k.startswith(prefix)}
        containers = (one for kind in CONTAINERS for one in spec.get(kind) or ())
        keys = [self._seccomp, *(f"{self._seccomp_of_container}{one.get('name', '')}" for one in containers)]
        seccomp = {key: annotations[key] for key in keys if key in annotations} if annotations else EMPTY
        return findings(standard.level, standard.minor, profiles, spec, seccomp)

    def _namespace(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        labels = labels_of(obj)
        standards, errors = standards_of(labels, self._prefix, self._defaults)
        before = labels_of(attributes.old) if attributes.old is not None else {}
        had, wrong = standards_of(before, self._prefix, self._defaults)
        if errors and errors != wrong:
            name = name_of(attributes, obj)
            body = status.invalid_object(attributes.resource, name, errors)
            return Denial(422, body["reason"], body["message"], body["details"])
        tightened = attributes.old is not None and is_tightened(had["enforce"], standards["enforce"])
        name = obj["metadata"].get("name", "")
        if name in self._exempt.namespaces:
            if attributes.old is None or tightened:
                attributes.warnings.extend(self._ignored(name, standards, labels))
        elif tightened:
            attributes.warnings.extend(self._existing(name, standards["enforce"], view))
        return None

    def _ignored(self, namespace: str, standards: Mapping[str, Standard], labels: Labels) -> list[str]:
        """The warning that the labels of an exempt namespace have no effect."""
        prefix = self._prefix
        shown = [
            f"{mode}={standard}"
            for mode, standard in standards.items()
            if standard.level != PRIVILEGED
            and (prefix + mode in labels or f"{prefix}{mode}-version" in labels)
        ]
        if not shown or standards == self._defaults:
            return []
        policy = ", ".join(shown)
        return [
            f'namespace "{namespace}" is exempt from Pod Security, and the policy ({policy}) will be ignored'
        ]

    def _existing(self, namespace: str, standard: Standard, view: View) -> list[str]:
        """Warnings about existing pods that fail the new level; pods with equal findings share a
        line.
        """
        alike: dict[str, list[str]] = {}
        for pod in sorted(view.list("pods", namespace), key=lambda pod: str(pod["metadata"]["name"])):
            found = self._against(standard, pod, pod["spec"])
            if found:
                reasons = ", ".join(finding.reason for finding in found)
                alike.setdefault(reasons, []).append(pod["metadata"]["name"])
        if not alike:
            return []
        head = (
            f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{standard}"'
        )
        return [head, *sorted(f"{_pods(pods)}: {reasons}" for reasons, pods in alike.items())]


def standards_of(
    labels: Labels, prefix: str, defaults: Mapping[str, Standard]
) -> tuple[dict[str, Standard], list[FieldError]]:
    """The standard of each mode, and the errors in the labels.

    defaults: the standards where a label is absent

    Quirk: an invalid label means the strictest level for the enforce mode and privileged for the
    others.
    """
    found, errors = {}, list[FieldError]()
    for mode in _MODES:
        level = labels.get(prefix + mode, defaults[mode].level)
        version = labels.get(f"{prefix}{mode}-version", defaults[mode].version)
        if level not in LEVELS:
            place = f"metadata.labels[{prefix}{mode}]"
            errors.append(invalid(place, level, f"must be one of {', '.join(LEVELS)}"))
            level = LEVELS[-1] if mode == "enforce" else PRIVILEGED
        if not is_version(version):
            place = f"metadata.labels[{prefix}{mode}-version]"
            errors.append(invalid(place, version, 'must be "latest" or "v1.x"'))
            version = "latest"
        found[mode] = Standard(level, version)
    return found, errors


def is_version(text: str) -> bool:
    """True if the text names a version of the standards."""
    return text == "latest" or _VERSION.fullmatch(text) is not None


def is_tightened(old: Standard, new: Standard) -> bool:
    """True if pods that were admitted before might be refused now."""
    if new == old or new.level == PRIVILEGED:
        return False
    return new.version != old.version or LEVELS.index(new.level) > LEVELS.index(old.level)


def is_significant(old: Obj, new: Obj, seccomp: str) -> bool:
    """True if an update of a pod can violate a standard that the old pod met.

    seccomp: prefix of the annotations that name the profile of one container
    """
    before, after = old["spec"], new["spec"]
    had, has = annotations_of(old), annotations_of(new)

    def differs(container: Obj, known: Obj) -> bool:
        key = f"{seccomp}{container.get('name')}"
        return container.get("image") != known.get("image") or had.get(key) != has.get(key)

    for kind in ("containers", "initContainers"):
        first, second = before.get(kind) or (), after.get(kind) or ()
        if len(first) != len(second) or any(map(differs, second, first)):
            return True
    ephemeral = {each.get("name"): each for each in before.get("ephemeralContainers") or ()}
    return any(
        each.get("name") not in ephemeral or differs(each, ephemeral[each.get("name")])
        for each in after.get("ephemeralContainers") or ()
    )


def listed(found: Sequence[Finding]) -> str:
    """The findings as one text."""
    return ", ".join(map(str, found))


def _pods(names: Sequence[str]) -> str:
    others = len(names) - 1
    return f"{names[0]} (and {others} other pod{'s' * (others > 1)})" if others else names[0]
