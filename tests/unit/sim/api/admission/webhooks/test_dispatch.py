"""The order of calls of admission webhooks, their changes, and what follows from a failure."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from sim.api.admission.base import Attributes
from sim.api.admission.webhooks.dispatch import Machine, mutate, validate
from sim.api.refusals import Refusal
from sim.api.scheme.scheme import Scheme
from sim.api.store import Consulted, Question
from sim.api.types import Obj
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]
PODS = Scheme(NAMING).resource("pods")
POD: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d", "labels": {}}}
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
ADMISSION = NAMING.group("admission")
Answers = Callable[[Question], Any]


def hook(name: str, **fields: Any) -> Obj:
    return {"name": name, "rules": [RULE], "admissionReviewVersions": ["v1"], "sideEffects": "None", **fields}


def response(question: Question, **fields: Any) -> Obj:
    body = {"uid": question.body["request"]["uid"], "allowed": True, **fields}
    return {"apiVersion": question.body["apiVersion"], "kind": "AdmissionReview", "response": body}


def labelled(question: Question, key: str) -> Obj:
    operations = [{"op": "add", "path": f"/metadata/labels/{key}", "value": "1"}]
    patch = b64encode(json.dumps(operations).encode()).decode()
    return response(question, patch=patch, patchType="JSONPatch")


class Asked:
    """Runs all webhooks of one kind on a pod, and notes the names of those that are called."""

    def __init__(
        self, *hooks: Obj, again: Callable[[Obj], Obj] = lambda obj: obj, dry_run: bool = False
    ) -> None:
        configuration = {"metadata": {"name": "c"}, "webhooks": list(hooks)}
        view: Any = SimpleNamespace(list=lambda plural: [configuration])
        same = lambda resource, obj: obj  # noqa: E731
        self.machine = Machine(view, lambda resource: [resource], same, same, lambda obj, scale: obj, again)
        self.annotations: dict[str, str] = {}
        self.attributes = Attributes(
            operation="create",
            resource=PODS,
            namespace="d",
            name="p",
            dry_run=dry_run,
            annotations=self.annotations,
        )
        registry = SimpleNamespace(names=NAMING, bits=Random(1).getrandbits)
        self.call: Any = SimpleNamespace(registry=registry, options={}, operation_options=None, warnings=[])
        self.names: list[str] = []

    def run(self, verb: Any, answers: Answers, order: Callable[[list[int]], list[int]] = sorted) -> Any:
        """answers: gives the answer to a question, or the text of a failure."""
        steps = verb(self.call, self.attributes, POD, self.machine)
        try:
            consult = next(steps)
            while True:
                self.names += [question.name for question in consult.questions]
                given = [answers(question) for question in consult.questions]
                arrived = [
                    (at, None, given[at]) if isinstance(given[at], str) else (at, given[at], "")
                    for at in order(list(range(len(given))))
                ]
                consult = steps.send(Consulted(tuple(arrived)))
        except StopIteration as end:
            return end.value


def test_webhook_sees_the_change_of_the_one_before_it() -> None:
    asked = Asked(hook("a"), hook("b"))
    seen = []

    def answers(question: Question) -> Obj:
        seen.append(question.body["request"]["object"]["metadata"]["labels"])
        return labelled(question, question.name)

    changed = asked.run(mutate, answers)
    assert seen == [{}, {"a": "1"}]
    assert changed["metadata"]["labels"] == {"a": "1", "b": "1"}
    assert POD["metadata"]["labels"] == {}


def test_only_reinvocable_webhooks_before_a_change_are_called_again() -> None:
    asked = Asked(
        hook("a", reinvocationPolicy="IfNeeded"), hook("b"), hook("c", reinvocationPolicy="IfNeeded")
    )
    asked.run(
        mutate, lambda question: labelled(question, "x") if question.name == "b" else response(question)
    )
    assert asked.names == ["a", "b", "c", "a"]


def test_change_of_the_plugins_repeats_all_reinvocable_webhooks_once() -> None:
    def again(obj: Obj) -> Obj:
        return {**obj, "metadata": {**obj["metadata"], "annotations": {"by": "plugin"}}}

    asked = Asked(hook("a", reinvocationPolicy="IfNeeded"), hook("b"), again=again)
    asked.run(mutate, lambda question: labelled(question, "x"))
    assert asked.names == ["a", "b", "a"]


def test_unchanged_object_is_the_same_and_no_webhook_is_called_again() -> None:
    asked = Asked(hook("a", reinvocationPolicy="IfNeeded"), hook("b"))
    assert asked.run(mutate, response) is POD
    assert asked.names == ["a", "b"]


@pytest.mark.parametrize(("verb", "kind"), [(mutate, "mutation"), (validate, "validating")])
def test_ignored_failure_is_annotated_and_the_next_webhook_is_called(verb: Any, kind: str) -> None:
    asked = Asked(hook("a", failurePolicy="Ignore"), hook("b"))
    asked.run(verb, lambda question: "no route" if question.name == "a" else response(question))
    assert asked.names == ["a", "b"]
    assert asked.annotations[f"failed-open.{kind}.webhook.{ADMISSION}/round_0_index_0"] == "a"


@pytest.mark.parametrize("verb", [mutate, validate])
def test_failure_is_refused_as_an_internal_error_by_default(verb: Any) -> None:
    with pytest.raises(Refusal) as refused:
        Asked(hook("a")).run(verb, lambda question: "no route")
    assert refused.value.code == 500
    assert 'failed calling webhook "a": failed to call webhook: no route' in str(refused.value)


def test_refusal_of_a_webhook_ends_the_calls_although_failures_are_ignored() -> None:
    asked = Asked(hook("a", failurePolicy="Ignore"), hook("b"))
    with pytest.raises(Refusal, match='admission webhook "a" denied the request: no') as refused:
        asked.run(mutate, lambda question: response(question, allowed=False, status={"message": "no"}))
    assert (refused.value.code, asked.names) == (400, ["a"])


def test_first_refusal_to_arrive_is_the_answer_of_validating_webhooks() -> None:
    asked = Asked(hook("a"), hook("b"))
    with pytest.raises(Refusal, match='webhook "b" denied'):
        asked.run(validate, lambda question: response(question, allowed=False), lambda given: given[::-1])
    assert asked.names == ["a", "b"]


def test_dry_run_calls_no_webhook_with_side_effects() -> None:
    stored = Asked(hook("a", sideEffects="Some"))
    assert stored.run(mutate, response) is POD
    asked = Asked(hook("a", sideEffects="Some"), dry_run=True)
    with pytest.raises(Refusal, match="a"):
        asked.run(mutate, response)
    assert asked.names == []
    asked = Asked(hook("a", sideEffects="NoneOnDryRun"), dry_run=True)
    assert asked.run(mutate, response) is POD
    assert asked.names == ["a"]


def test_equal_warnings_of_two_webhooks_are_given_once() -> None:
    asked = Asked(hook("a"), hook("b"))
    asked.run(mutate, lambda question: response(question, warnings=["old", question.name]))
    assert asked.call.warnings == ["old", "a", "b"]


def test_patch_of_another_type_is_a_failure() -> None:
    patch = b64encode(b'[{"op": "add"}]').decode()
    with pytest.raises(Refusal) as refused:
        Asked(hook("a")).run(mutate, lambda question: response(question, patch=patch, patchType="Merge"))
    assert refused.value.code == 500


def test_annotation_says_which_webhook_changed_the_object() -> None:
    asked = Asked(hook("a"), hook("b"))
    asked.run(
        mutate, lambda question: labelled(question, "x") if question.name == "b" else response(question)
    )
    noted = [json.loads(asked.annotations[f"mutation.webhook.{ADMISSION}/round_0_index_{n}"]) for n in (0, 1)]
    assert [(each["webhook"], each["mutated"]) for each in noted] == [("a", False), ("b", True)]
