"""Annotations that have a meaning for pods."""

from __future__ import annotations

from sim.api.kinds.common.pods.annotations import (
    annotation_changes,
    annotation_errors,
    seccomp_mismatches,
    with_seccomp_fields,
)
from sim.api.types import Obj
from sim.ident import NAMES
from tests.unit.sim.api.kinds.samples import texts

POD = "seccomp.security.alpha.kubernetes.io/pod"
CONTAINER = "container.seccomp.security.alpha.kubernetes.io/c"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
SPEC: Obj = {"containers": [{"name": "c"}]}


def errors(**annotations: str) -> list[str]:
    return texts(annotation_errors({"annotations": annotations}, SPEC, "a"))


def test_seccomp_annotations_must_name_a_profile() -> None:
    """ValidateSeccompPodAnnotations: each is a child of the annotations."""
    for sound in ("unconfined", "runtime/default", "docker/default", "localhost/a"):
        assert errors(**{POD: sound, CONTAINER: sound}) == []
    assert errors(**{POD: "x"}) == [f'a.{POD}: Invalid value: "x": must be a valid seccomp profile']
    assert errors(**{CONTAINER: "localhost/../b"}) == [
        f"a.{CONTAINER}: Invalid value: \"../b\": must not contain '..'"
    ]


def test_app_armor_annotations_name_a_container_and_a_profile() -> None:
    """ValidateAppArmorPodAnnotations."""
    for sound in ("", "unconfined", "runtime/default", "localhost/a"):
        assert errors(**{APP_ARMOR + "c": sound}) == []
    assert errors(**{APP_ARMOR + "d": "x"}) == [
        f'a[{APP_ARMOR}d]: Invalid value: "d": container not found',
        f'a[{APP_ARMOR}d]: Invalid value: "x": invalid AppArmor profile name: "x"',
    ]


def test_tolerations_of_an_annotation_are_checked() -> None:
    """ValidateTolerationsInPodAnnotations: field names may be written in any case."""
    assert errors(**{TOLERATIONS: '[{"KEY":"a"}]'}) == errors(**{TOLERATIONS: ""}) == []
    (odd,) = errors(**{TOLERATIONS: '[{"key":"a","Operator":"x"}]'})
    assert odd.startswith(f'a.{TOLERATIONS}[0].operator: Unsupported value: "x"')
    head = f'a: Invalid value: "{TOLERATIONS}": '
    assert errors(**{TOLERATIONS: "{}"}) == [
        f"{head}json: cannot unmarshal object into Go value of type []core.Toleration"
    ]
    assert errors(**{TOLERATIONS: "[1]"}) == [
        f"{head}json: cannot unmarshal number into Go value of type core.Toleration"
    ]
    assert errors(**{TOLERATIONS: "x"}) == [f"{head}invalid character 'x' looking for beginning of value"]


def test_seccomp_annotation_fills_in_the_absent_field() -> None:
    """applySeccompVersionSkew."""
    names = NAMES["kubernetes"]
    annotations = {POD: "unconfined", CONTAINER: "localhost/a"}
    made = with_seccomp_fields({"metadata": {"annotations": annotations}, "spec": SPEC}, names)
    assert made["spec"]["securityContext"] == {"seccompProfile": {"type": "Unconfined"}}
    assert made["spec"]["containers"][0]["securityContext"] == {
        "seccompProfile": {"type": "Localhost", "localhostProfile": "a"}
    }
    for pod in (made, {"metadata": {"annotations": {POD: "localhost/"}}, "spec": SPEC}):
        assert with_seccomp_fields(pod, names) is pod


def test_seccomp_annotation_must_match_the_field() -> None:
    """validateSeccompAnnotationsAndFieldsMatch."""

    def mismatches(written: str, **profile: str) -> list[str]:
        spec = {"containers": [{"name": "c", "securityContext": {"seccompProfile": profile}}]}
        return texts(seccomp_mismatches({"annotations": {CONTAINER: written}}, spec, "spec"))

    at = "spec.containers[0].securityContext.seccompProfile"
    wrong = [f"{at}.type: Forbidden: seccomp type in annotation and field must match"]
    assert mismatches("docker/default", type="RuntimeDefault") == []
    assert mismatches("localhost/a", type="Localhost", localhostProfile="a") == []
    assert mismatches("unconfined", type="RuntimeDefault") == wrong
    assert mismatches("localhost/a", type="Localhost", localhostProfile="b") == [
        f"{at}.localhostProfile: Forbidden: seccomp profile in annotation and field must match"
    ]


def test_changed_annotations_are_checked_again() -> None:
    """ValidatePodSpecificAnnotationUpdates ends with the checks of a new pod."""
    found = texts(annotation_changes({"annotations": {POD: "x", APP_ARMOR + "c": "a"}}, {}, SPEC))
    assert [text.partition(": ")[0] for text in found] == [
        f"metadata.annotations[{APP_ARMOR}c]",
        f"metadata.annotations.{POD}",
        f"metadata.annotations[{APP_ARMOR}c]",
    ]
