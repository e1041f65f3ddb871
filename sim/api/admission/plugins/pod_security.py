"""PodSecurity: enforces and warns by the security standards in a namespace's labels.

The labels of a namespace decide whether a pod is refused and whether a pod or template causes
warnings; a stricter level of a namespace causes warnings about its existing pods.

Holds: a namespace without such labels costs one lookup. Templates cause warnings only: their pods
are judged on create.

Mirrors  pod-security-admission v0.25 admission/admission.go, api/helpers.go.
Differs  nothing is audited, so the audit level is only validated; no user, namespace or runtime
         class is exempt; when the level of a namespace rises, all its pods are checked in the order
         of their names (upstream: 3,000 of them, or as many as one second allows).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sim.api import status
from sim.api.admission.base import Attributes, Denial, View, forbidden, name_of
from sim.api.admission.plugins.pod_security_standards import LATEST, LEVELS, Finding, findings
from sim.api.kinds.common.errors import FieldError, invalid
from sim.api.kinds.registry import POD_SPECS
from sim.api.objects import annotations_of, get_in, labels_of
from sim.api.types import Obj
from sim.ident import Names

PRIVILEGED = LEVELS[0]
_MODES = ("enforce", "audit", "warn")
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")


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


class PodSecurity:
    """Checks pods and templates against the standards of their namespace."""

    def __init__(self, names: Names) -> None:
        self._prefix = names.label_pod_security_prefix
        self._apparmor = names.annotation_apparmor_prefix

    def concerns(self, operation: str, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return False

    def judges(self, operation: str, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        if operation == "delete":
            return False
        if plural == "pods":
            return subresource in ("", "ephemeralcontainers")
        return not subresource and (plural == "namespaces" or plural in POD_SPECS)

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        return obj

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        plural = attributes.resource.rule
        if plural == "namespaces":
            return self._namespace(attributes, obj, view)
        namespace = view.get("namespaces", "", attributes.namespace)
        labels = labels_of(namespace) if namespace is not None else {}
        if not any(label.startswith(self._prefix) for label in labels):
            return None
        standards, _ = standards_of(labels, self._prefix)
        path = POD_SPECS[plural]
        spec = get_in(obj, path)
        if not isinstance(spec, dict):
            return None
        if plural == "pods":
            if attributes.old is not None and not is_significant(attributes.old, obj):
                return None
            against = self._against(standards["enforce"], obj, spec)
            if against:
                text = f'violates PodSecurity "{standards["enforce"]}": {listed(against)}'
                return forbidden(attributes, text, name_of(attributes, obj))
        against = self._against(standards["warn"], get_in(obj, path[:-1]), spec)
        if against:
            attributes.warnings.append(f'would violate PodSecurity "{standards["warn"]}": {listed(against)}')
        return None

    def _against(self, standard: Standard, holder: Obj, spec: Obj) -> list[Finding]:
        """The checks that a pod or template (`holder`) fails at a standard."""
        prefix = self._apparmor
        profiles = {k: v for k, v in annotations_of(holder).items() if k.startswith(prefix)}
        return findings(standard.level, standard.minor, profiles, spec)

    def _namespace(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        standards, errors = standards_of(labels_of(obj), self._prefix)
        before = labels_of(attributes.old) if attributes.old is not None else {}
        had, wrong = standards_of(before, self._prefix)
        if errors and errors != wrong:
            name = name_of(attributes, obj)
            body = status.invalid_object(attributes.resource, name, errors)
            return Denial(422, body["reason"], body["message"], body["details"])
        if attributes.old is not None and is_tightened(had["enforce"], standards["enforce"]):
            attributes.warnings.extend(self._existing(attributes.name, standards["enforce"], view))
        return None

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


def standards_of(labels: Mapping[str, str], prefix: str) -> tuple[dict[str, Standard], list[FieldError]]:
    """The standard of each mode, and the errors in the labels.

    Quirk: an invalid label means the strictest level for the enforce mode and privileged for the
    others.
    """
    found, errors = {}, list[FieldError]()
    for mode in _MODES:
        level = labels.get(prefix + mode, PRIVILEGED)
        version = labels.get(f"{prefix}{mode}-version", "latest")
        if level not in LEVELS:
            place = f"metadata.labels[{prefix}{mode}]"
            errors.append(invalid(place, level, f"must be one of {', '.join(LEVELS)}"))
            level = LEVELS[-1] if mode == "enforce" else PRIVILEGED
        if version != "latest" and not _VERSION.fullmatch(version):
            place = f"metadata.labels[{prefix}{mode}-version]"
            errors.append(invalid(place, version, 'must be "latest" or "v1.x"'))
            version = "latest"
        found[mode] = Standard(level, version)
    return found, errors


def is_tightened(old: Standard, new: Standard) -> bool:
    """True if pods that were admitted before might be refused now."""
    if new == old or new.level == PRIVILEGED:
        return False
    return new.version != old.version or LEVELS.index(new.level) > LEVELS.index(old.level)


def is_significant(old: Obj, new: Obj) -> bool:
    """True if an update of a pod can violate a standard that the old pod met."""
    before, after = old["spec"], new["spec"]
    for kind in ("containers", "initContainers"):
        had, has = before.get(kind) or (), after.get(kind) or ()
        if len(had) != len(has) or any(
            a.get("image") != b.get("image") for a, b in zip(had, has, strict=True)
        ):
            return True
    ephemeral = {c.get("name"): c.get("image") for c in before.get("ephemeralContainers") or ()}
    return any(
        c.get("name") not in ephemeral or ephemeral[c.get("name")] != c.get("image")
        for c in after.get("ephemeralContainers") or ()
    )


def listed(found: Sequence[Finding]) -> str:
    """The findings as one text."""
    return ", ".join(map(str, found))


def _pods(names: Sequence[str]) -> str:
    others = len(names) - 1
    return f"{names[0]} (and {others} other pod{'s' * (others > 1)})" if others else names[0]
