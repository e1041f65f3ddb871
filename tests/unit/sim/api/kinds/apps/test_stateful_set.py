"""Validation of StatefulSets."""

from __future__ import annotations

from tests.unit.sim.api.kinds.samples import created, made


def test_max_unavailable_of_a_set_is_positive_and_at_most_100_percent() -> None:
    def strategy(unavailable: object) -> list[str]:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable}}
        spec = {**made("statefulsets")["spec"], "updateStrategy": rolling}
        return created("statefulsets", made("statefulsets", spec=spec))

    at = "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "
    none = 'intstr.IntOrString{Type:0, IntVal:0, StrVal:""}: cannot be 0'
    assert strategy(3) == strategy("40%") == []
    assert strategy(0) == [at + none]
    assert strategy(-1) == [f"{at}-1: must be greater than or equal to 0"]
    assert strategy("0%") == [at + 'intstr.IntOrString{Type:1, IntVal:0, StrVal:"0%"}: cannot be 0']
    (odd, as_none) = strategy("all")
    shown = at + 'intstr.IntOrString{Type:1, IntVal:0, StrVal:"all"}: a valid percent string'
    assert odd.startswith(shown) and as_none.endswith("cannot be 0")
    above = "must not be greater than 100%"
    assert strategy("101%") == [f'{at}intstr.IntOrString{{Type:1, IntVal:0, StrVal:"101%"}}: {above}']


def test_retention_policy_is_retain_or_delete() -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Keep"}
    spec = {**made("statefulsets")["spec"], "persistentVolumeClaimRetentionPolicy": policy}
    assert created("statefulsets", made("statefulsets", spec=spec)) == [
        'spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Keep":'
        ' supported values: "Retain", "Delete"'
    ]
