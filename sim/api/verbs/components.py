"""GET of componentstatuses: the health of the components at this moment.

Mirrors  kubernetes v1.25 pkg/registry/core/componentstatus/rest.go.
"""

from __future__ import annotations

from sim.api import selectors
from sim.api.auth.attributes import AccessAttributes, Decision
from sim.api.kinds.core.component_status import Answer, Component, components, status_of
from sim.api.refusals import Refusal, Steps, bad_request
from sim.api.store import Item
from sim.api.types import Reply, UserInfo
from sim.api.verbs.call import Call
from sim.api.verbs.list import check_list_options
from sim.units import NO_REVISION


def get_component(call: Call) -> Steps:
    """GET componentstatuses/NAME."""
    yield from ()  # no storage is read
    name = call.request.name
    for item in _items(call):
        if item.obj["metadata"]["name"] == name:
            return Reply(200, item=item)
    # Quirk: an error without a reason.
    raise Refusal(500, "", f"Component not found: {name}")


def list_components(call: Call) -> Steps:
    """GET componentstatuses."""
    yield from ()
    check_list_options(call.options, call.registry.names.group("meta"))
    try:
        labels = selectors.parse_labels(call.options.get("labelSelector", ""))
        fields = selectors.parse_fields(call.resource, call.options.get("fieldSelector", ""))
    except selectors.SelectorError as error:
        raise bad_request(str(error)) from None
    found = [item for item in _items(call) if labels.matches(None) and fields.matches(item.obj)]
    return Reply(200, items=found)


def _items(call: Call) -> list[Item]:
    registry = call.registry
    answers = {} if registry.probed is None else registry.probed()
    found = []
    for component in components(registry.names):
        answer = answers.get(component.name, Answer.HEALTHY)
        if answer is Answer.REVIEWED:
            answer = Answer.HEALTHY if _may_ask(call, component) else Answer.FORBIDDEN
        found.append(Item("", status_of(component, answer), NO_REVISION, NO_REVISION))
    return found


def _may_ask(call: Call, component: Component) -> bool:
    """True if a user without credentials may read the path of a component's health."""
    names, authorizer = call.registry.names, call.registry.authorizer
    user = UserInfo(names.user_anonymous, (names.group_unauthenticated,))
    wanted = AccessAttributes("get", component.path)
    return authorizer is None or authorizer.authorize(user, wanted).decision is Decision.ALLOW
