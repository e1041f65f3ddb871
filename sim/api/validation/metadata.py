"""Object metadata, label maps and selectors: the rules every kind shares.

Holds: labels and annotations that were checked once are known by identity, because the pods of a
template share them.

Mirrors  apimachinery v1.25 pkg/api/validation/objectmeta.go,
         pkg/apis/meta/v1/validation/validation.go, kubernetes
         pkg/apis/core/validation/validation.go: ValidateObjectMeta.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.api.go.printing import LABEL_SELECTOR, GoValue, time_text
from sim.api.memo import IdentityMemo
from sim.api.schema.json_text import go_quote
from sim.api.status import CAUSES_MAX
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    AT_LEAST_ZERO,
    Errors,
    FieldError,
    checked,
    forbidden,
    immutable,
    invalid,
    required,
    too_long,
)
from sim.ident import NAMES

ANNOTATIONS_BYTES_MAX = 256 * 1024  # objectmeta.go: TotalAnnotationSizeLimitB
_STANDARD_FINALIZERS = (  # core.IsStandardFinalizerName, in either naming set
    *(names.finalizer_namespace for names in NAMES.values()),
    "orphan",
    "foregroundDeletion",
)

Problems = text.Problems
NameRule = Callable[[str], Problems]

_checked: IdentityMemo[tuple[Errors]] = IdentityMemo()


def masked(name: str) -> str:
    """A generateName for the check of names, in which the trailing dash represents the suffix."""
    return name[:-2] + "a" if name.endswith("-") and len(name) > 1 else name


def name_errors(rule: NameRule, name: str, field: str, prefix: bool = False) -> Errors:
    """Errors of a name, or of the prefix of a generated one."""
    problems = rule(masked(name) if prefix else name)
    if prefix and rule is text.segment and name in (".", ".."):
        return []  # IsValidPathSegmentPrefix: something follows
    return [invalid(field, name, problem) for problem in problems] if problems else []


def labels(value: Any, field: str) -> Errors:
    """Errors of a map of labels.  Quirk: keys and values are both reported at the path of the
    map.
    """
    if not value:
        return []
    known = _checked.get(value, field)
    if known is None:
        known = _checked.put((_labels(value, field),), value, field)
    return known[0]


def _labels(value: Any, field: str) -> Errors:
    errors: Errors = []
    for key, item in value.items():
        errors += checked(field, key, text.qualified_name)
        errors += [invalid(field, item, problem) for problem in text.label_value(item or "")]
        if len(errors) > CAUSES_MAX:
            break
    return errors


def annotation_map(value: Any, field: str) -> Errors:
    """Errors of the keys and the total size of annotations."""
    if not value:
        return []
    known = _checked.get(value, field)
    if known is None:
        errors = [invalid(field, k, p) for k in value for p in text.qualified_name(k.lower())]
        if sum(len(k.encode()) + len((v or "").encode()) for k, v in value.items()) > ANNOTATIONS_BYTES_MAX:
            errors.append(too_long(field, ANNOTATIONS_BYTES_MAX))
        known = _checked.put((errors,), value, field)
    return known[0]


def owner_references(value: Any, field: str) -> Errors:
    """Errors of owner references."""
    errors: Errors = []
    controller, shown_owners = "", None
    for owner in value or ():
        errors += _owner(owner, field)
        if not owner.get("controller"):
            continue
        if controller:
            detail = (
                'Only one reference can have Controller set to true. Found "true" in references for '
                f"{controller} and {owner.get('name', '')}"
            )
            if shown_owners is None:  # made once, because it is long
                shown_owners = GoValue("[]v1.OwnerReference", value)
            errors.append(invalid(field, shown_owners, detail))
        else:
            controller = owner.get("name", "")
    return errors


def _owner(owner: Obj, field: str) -> Errors:
    version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
    errors: Errors = []
    if not version.rpartition("/")[2] or version.count("/") > 1:
        errors.append(invalid(f"{field}.apiVersion", version, "version must not be empty"))
    if not kind:
        errors.append(invalid(f"{field}.kind", kind, "kind must not be empty"))
    if not owner.get("name"):
        errors.append(invalid(f"{field}.name", "", "name must not be empty"))
    if not owner.get("uid"):
        errors.append(invalid(f"{field}.uid", "", "uid must not be empty"))
    if version == "v1" and kind == "Event":
        errors.append(
            invalid(
                field,
                GoValue("v1.OwnerReference", owner),
                "/v1, Kind=Event is disallowed from being an owner",
            )
        )
    return errors


def finalizers(value: Any, field: str) -> Errors:
    """Errors of finalizers."""
    errors: Errors = []
    for name in value or ():
        if problems := text.qualified_name(name):
            errors += [invalid(field, name, problem) for problem in problems]
            if len(errors) > CAUSES_MAX:
                break
    if value and "orphan" in value and "foregroundDeletion" in value:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(field, GoValue("[]string", value), detail))
    return errors


def core_finalizers(metadata: Obj) -> Errors:
    """Errors by a rule of core kinds: a finalizer without a domain must be a known one."""
    return [
        error
        for i, name in enumerate(metadata.get("finalizers") or ())
        if "/" not in name
        for error in _standard(name, f"metadata.finalizers[{i}]")
    ]


def core_finalizer(name: str, field: str) -> Errors:
    """Errors of one finalizer of a core kind."""
    return checked(field, name, text.qualified_name) + _standard(name, field)


def _standard(name: str, field: str) -> Errors:
    if "/" in name or name in _STANDARD_FINALIZERS:
        return []
    return [invalid(field, name, "name is neither a standard finalizer name nor is it fully qualified")]


def object_meta(metadata: Obj, namespaced: bool, rule: NameRule, core: bool = True) -> Errors:
    """Errors of metadata as a whole.

    core: True to apply the rules of core/validation as well
    """
    field = "metadata"
    errors: Errors = []
    generate, name = metadata.get("generateName"), metadata.get("name")
    if generate:
        errors += name_errors(rule, generate, f"{field}.generateName", prefix=True)
    if name:
        errors += name_errors(rule, name, f"{field}.name")
    else:
        errors.append(required(f"{field}.name", "name or generateName is required"))
    namespace = metadata.get("namespace")
    if namespaced:
        if not namespace:
            errors.append(required(f"{field}.namespace"))
        else:
            errors += name_errors(text.label, namespace, f"{field}.namespace")
    elif namespace:
        errors.append(forbidden(f"{field}.namespace", "not allowed on this type"))
    if metadata.get("generation", 0) < 0:
        errors.append(invalid(f"{field}.generation", metadata["generation"], AT_LEAST_ZERO))
    errors += _parts(metadata)
    if core and metadata.get("finalizers"):
        errors += core_finalizers(metadata)
    return errors


_sound_parts: IdentityMemo[bool] = IdentityMemo()


def _parts(metadata: Obj) -> Errors:
    """Errors of labels, annotations, owners and finalizers, which objects of one owner share."""
    parts = (*map(metadata.get, ("labels", "annotations", "ownerReferences", "finalizers")),)
    if parts == (None, None, None, None) or _sound_parts.get(*parts):
        return []
    errors = _find_parts(metadata)
    if not errors:
        _sound_parts.put(True, *parts)
    return errors


def _find_parts(metadata: Obj) -> Errors:
    given = metadata.get("labels")
    errors = list(labels(given, "metadata.labels")) if given else []
    given = metadata.get("annotations")
    if given:
        errors += annotation_map(given, "metadata.annotations")
    given = metadata.get("ownerReferences")
    if given:
        known = _checked.get(given)
        if known is None:
            known = _checked.put((owner_references(given, "metadata.ownerReferences"),), given)
        errors += known[0]
    given = metadata.get("finalizers")
    if given:
        errors += finalizers(given, "metadata.finalizers")
    return errors


_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def object_meta_update(new: Obj, old: Obj, core: bool = True) -> Errors:
    """Errors of changed metadata; parts that are the same objects are not checked again."""
    if new is old:
        return []
    errors: Errors = []
    if old.get("deletionTimestamp") and new.get("finalizers"):
        had = old.get("finalizers") or ()
        added = sorted(f for f in new["finalizers"] if f not in had)
        if added:
            listed = "[]string{" + ", ".join(map(go_quote, added)) + "}"
            detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {listed}"
            errors.append(forbidden("metadata.finalizers", detail))
    if not new.get("resourceVersion"):
        errors.append(invalid("metadata.resourceVersion", "", "must be specified for an update"))
    if new.get("generation", 0) < old.get("generation", 0):
        errors.append(invalid("metadata.generation", new.get("generation", 0), "must not be decremented"))
    for key in _FIXED if [*map(new.get, _FIXED)] != [*map(old.get, _FIXED)] else ():
        after, before = new.get(key), old.get(key)
        if after is not before and after != before:
            shown = "" if after is None and key in ("name", "namespace", "uid") else after
            errors.append(
                FieldError(f"metadata.{key}", "Invalid value", "field is immutable", _shown_fixed(key, shown))
            )
    for key in ("labels", "annotations", "ownerReferences"):
        if new.get(key) is not old.get(key):
            errors += [error for error in _parts(new) if error.field != "metadata.finalizers"]
            break
    if core and new.get("finalizers") and new.get("finalizers") is not old.get("finalizers"):
        errors += core_finalizers(new)
    return errors


def _shown_fixed(key: str, value: Any) -> str:
    if key.endswith("Timestamp"):
        return time_text(value)
    return go_quote(value) if isinstance(value, str) else str(value)


# --- selectors ------------------------------------------------------------------------------------


def label_selector(value: Any, field: str) -> Errors:
    """Errors of a label selector.  Quirk: v1.25 does not check the values of expressions."""
    if value is None:
        return []
    errors = list(labels(value.get("matchLabels"), f"{field}.matchLabels"))
    for i, expression in enumerate(value.get("matchExpressions") or ()):
        errors += _requirement(expression, f"{field}.matchExpressions[{i}]")
    return errors


def _requirement(expression: Obj, field: str) -> Errors:
    operator, values = expression.get("operator", ""), expression.get("values")
    key = expression.get("key", "")
    errors: Errors = []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{field}.values", detail))
    else:
        errors.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    return errors + checked(f"{field}.key", key, text.qualified_name)


def is_sound(selector: Any) -> bool:
    """True if the selector can be compiled: its operators, keys and values are valid."""
    match = (selector or {}).get("matchLabels") or {}
    if any(text.qualified_name(k) or text.label_value(v) for k, v in match.items()):
        return False
    return all(_is_sound(expression) for expression in (selector or {}).get("matchExpressions") or ())


def _is_sound(expression: Obj) -> bool:
    values = expression.get("values") or ()
    return not _requirement(expression, "") and not any(text.label_value(v) for v in values)


def matches(selector: Any, values: Any) -> bool:
    """True if the selector matches the labels; a selector of None matches nothing."""
    if selector is None:
        return False
    values = values or {}
    if any(values.get(k) != v for k, v in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression_matches(e, values) for e in selector.get("matchExpressions") or ())


def _expression_matches(expression: Obj, values: Obj) -> bool:
    key, operator, wanted = expression.get("key"), expression.get("operator"), expression.get("values") or ()
    if operator == "In":
        return key in values and values[key] in wanted
    if operator == "NotIn":
        return key not in values or values[key] not in wanted
    return (key in values) == (operator == "Exists")


def immutable_selector(new: Any, old: Any) -> Errors:
    """An error if a selector has changed."""
    return immutable("spec.selector", new, old, GoValue(LABEL_SELECTOR, new))
