"""The steps of the syncs of accounts and of token Secrets, and what follows each answer."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import pytest

from actors.controllers.serviceaccount_tokens.decide import SecretKey, account_key, secret_key
from actors.controllers.serviceaccount_tokens.sync import Action, Make, Remove, Seen, Steps, Syncs
from actors.controllers.shared.shell import RootCa
from actors.controllers.shared.steps import Get, Sleep, Update
from sim.api.status import status as refusal
from sim.api.store import Item
from sim.api.types import Obj, Reply
from sim.ident import NAMES

N = NAMES["kubernetes"]
AWAY = Reply(503, body=refusal(503, "ServiceUnavailable", "away"))
GONE = Reply(404, body=refusal(404, "NotFound", "gone"))
CONFLICT = Reply(409, body=refusal(409, "Conflict", "conflict"))
CAUSES = {"causes": [{"reason": "NamespaceTerminating"}]}
ENDING = Reply(403, body=refusal(403, "Forbidden", "it ends", CAUSES))
STALE = "the account in the cache is not the newest one"


def account(uid: str = "u-1", revision: str = "1", refers: Sequence[str] = ()) -> Obj:
    meta = {"namespace": "shop", "name": "robot", "uid": uid, "resourceVersion": revision}
    return {"metadata": meta, "secrets": [{"name": name} for name in refers]}


def secret(name: str = "key", revision: str = "1", owner: str = "u-1", **data: str) -> Obj:
    notes = {N.annotation_service_account_name: "robot", N.annotation_service_account_uid: owner}
    meta: Obj = {"namespace": "shop", "name": name, "uid": f"of {name}", "resourceVersion": revision}
    return {"metadata": {**meta, "annotations": notes}, "data": {key: text(data[key]) for key in data}}


def text(value: str) -> str:
    return b64encode(value.encode()).decode()


def stored(obj: Obj) -> Reply:
    return Reply(200, item=Item("k", obj, 1, 1))


KEY = secret_key(secret(), N)
MADE = secret("made")


class Case:
    """Syncs with caches of their own; `accounts` and `secrets` may be changed between the steps."""

    def __init__(self, accounts: Sequence[Obj] = (), secrets: Sequence[Obj] = (), generates: bool = True):
        self.accounts, self.secrets = list(accounts), list(secrets)
        self.authority = RootCa()
        self.syncs = Syncs(
            Seen(
                N,
                lambda key: self._named(self.accounts, key),
                lambda key: self._named(self.secrets, key),
                lambda key: [one for one in self.secrets if secret_key(one, N).account_uid == key.uid],
                self.authority,
                lambda owner, name: f"{owner['metadata']['uid']} {name}",
                generates,
            )
        )

    def _named(self, objs: Sequence[Obj], key: str) -> Obj | None:
        return next((one for one in objs if f"shop/{one['metadata']['name']}" == key), None)

    def account(self, *replies: Reply, of: str = "u-1") -> tuple[list[Action], str | None]:
        """The sync of the account of this uid."""
        return drive(self.syncs.account(account_key(account(of))), replies)

    def secret(self, *replies: Reply, key: SecretKey = KEY) -> tuple[list[Action], str | None]:
        """The sync of a Secret."""
        return drive(self.syncs.secret(key), replies)


def drive(steps: Steps[Any], replies: Sequence[Reply]) -> tuple[list[Action], str | None]:
    """All actions and the error of a sync that needs exactly these replies; a delay has its own."""
    actions: list[Action] = []
    left = list(replies)
    try:
        action = next(steps)
        while True:
            actions.append(action)
            action = steps.send(Reply(200) if isinstance(action, Sleep) else left.pop(0))
    except StopIteration as end:
        assert left == []
        return actions, end.value


def referred(action: Action) -> list[str]:
    """The names of the Secrets that a written account refers to."""
    assert isinstance(action, Update) and action.resource == "serviceaccounts"
    return [each["name"] for each in action.obj["secrets"]]


GET_ACCOUNT, GET_SECRET = Get("serviceaccounts", "shop", "robot"), Get("secrets", "shop", "key")
REMOVE_MADE = Remove(secret_key(MADE, N))

# --- accounts -------------------------------------------------------------------------------------


def test_account_without_a_token_gets_one_and_refers_to_it() -> None:
    cached = account(refers=["other"])
    (get, make, update), error = Case([cached]).account(stored(cached), stored(MADE), Reply(200))
    assert (get, make, error) == (GET_ACCOUNT, Make(cached), None)
    assert referred(update) == ["other", "made"]


def test_account_gets_no_token_without_the_gate_or_beside_the_one_it_has() -> None:
    assert Case([account()], generates=False).account() == ([], None)
    assert Case([account(refers=["key"])], [secret()]).account() == ([], None)


def test_secret_that_was_made_counts_before_the_cache_shows_it() -> None:
    case = Case([account()])
    case.account(stored(account()), stored(MADE), Reply(200))
    case.accounts = [account(refers=["made"])]
    assert case.account() == ([], None)


def test_secret_that_was_made_for_an_account_is_forgotten_with_the_account() -> None:
    case = Case([account()])
    case.account(stored(account()), stored(MADE), Reply(200))
    case.accounts = []
    assert case.account() == ([], None)
    case.accounts = [account(refers=["made"])]
    assert case.account(AWAY) == ([GET_ACCOUNT], "away")


@pytest.mark.parametrize(("reply", "error"), [(AWAY, "away"), (stored(account(revision="2")), STALE)])
def test_no_token_is_made_for_an_account_that_is_not_as_in_the_cache(reply: Reply, error: str) -> None:
    assert Case([account()]).account(reply) == ([GET_ACCOUNT], error)


@pytest.mark.parametrize(("reply", "error"), [(AWAY, "away"), (ENDING, None)])
def test_secret_that_is_not_created_is_tried_again_unless_its_namespace_ends(
    reply: Reply, error: str | None
) -> None:
    actions, told = Case([account()]).account(stored(account()), reply)
    assert ([type(one) for one in actions], told) == ([Get, Make], error)


def test_reference_that_conflicts_is_added_to_the_account_that_is_read_then() -> None:
    newer = stored(account(revision="2", refers=["theirs"]))
    actions, error = Case([account()]).account(
        stored(account()), stored(MADE), CONFLICT, newer, CONFLICT, newer, Reply(200)
    )
    assert [type(one) for one in actions] == [Get, Make, Update, Sleep, Get, Update, Sleep, Get, Update]
    assert (referred(actions[2]), referred(actions[-1]), error) == (["made"], ["theirs", "made"], None)
    assert actions[3:5] == [Sleep(10_000), GET_ACCOUNT]


def test_reference_that_conflicts_each_time_is_given_up_and_the_secret_deleted() -> None:
    pairs = [CONFLICT, stored(account())] * 4
    actions, error = Case([account()]).account(stored(account()), stored(MADE), *pairs, CONFLICT, Reply(200))
    assert [one.us for one in actions if isinstance(one, Sleep)] == [10_000] * 4
    assert (actions[-1], error) == (REMOVE_MADE, None)


@pytest.mark.parametrize(
    ("reply", "error"),
    [(stored(account("u-2")), None), (stored(account(refers=["key"])), None), (GONE, None), (AWAY, "away")],
)
def test_secret_is_deleted_when_its_account_is_not_to_refer_to_it(reply: Reply, error: str | None) -> None:
    """The account is another one by then, has a token, is gone, or cannot be read."""
    case = Case([account()], [secret()])
    actions, told = case.account(stored(account()), stored(MADE), CONFLICT, reply, Reply(200))
    assert (actions[3:], told) == ([Sleep(10_000), GET_ACCOUNT, REMOVE_MADE], error)


@pytest.mark.parametrize(("reply", "error"), [(AWAY, "away"), (GONE, None)])
def test_secret_is_deleted_after_a_reference_that_is_refused(reply: Reply, error: str | None) -> None:
    actions, told = Case([account()]).account(stored(account()), stored(MADE), reply, AWAY)
    assert [type(one) for one in actions] == [Get, Make, Update, Remove]
    assert (actions[-1], told) == (REMOVE_MADE, error)


@pytest.mark.parametrize("cached", [[], [account("u-2")]])
def test_secrets_of_an_account_that_is_gone_are_deleted_though_one_is_refused(cached: list[Obj]) -> None:
    secrets = [secret(name) for name in ("a", "b", "c", "d")]
    actions, error = Case(cached, [*secrets, secret("e", owner="u-2")]).account(
        AWAY, GONE, CONFLICT, Reply(200)
    )
    assert actions == [Remove(secret_key(one, N)) for one in secrets]
    assert error == "away"
    assert Case(cached).account() == ([], None)


# --- Secrets --------------------------------------------------------------------------------------


def test_secret_is_filled_with_a_token_of_its_account() -> None:
    case = Case([account()], [secret(namespace="mine")])
    case.authority.pem = "ca"
    (get, update), error = case.secret(stored(secret(namespace="mine")), Reply(200))
    assert (get, error) == (GET_SECRET, None)
    assert isinstance(update, Update) and update.resource == "secrets"
    assert update.obj["data"] == {"token": text("u-1 key"), "namespace": text("mine"), "ca.crt": text("ca")}


def test_secret_with_a_token_keeps_it() -> None:
    case = Case([account()], [secret(token="t")])
    (_, update), _ = case.secret(stored(secret(token="t")), Reply(200))
    assert isinstance(update, Update)
    assert update.obj["data"]["token"] == text("t")


def test_secret_that_lacks_nothing_is_left_alone() -> None:
    assert Case([account()], [secret(token="t", namespace="shop")]).secret() == ([], None)


@pytest.mark.parametrize(
    ("reply", "error"), [(AWAY, "away"), (GONE, None), (stored(secret(revision="2")), None)]
)
def test_secret_that_is_not_as_in_the_cache_is_not_filled(reply: Reply, error: str | None) -> None:
    assert Case([account()], [secret()]).secret(reply) == ([GET_SECRET], error)


@pytest.mark.parametrize(("reply", "error"), [(AWAY, "away"), (GONE, None), (CONFLICT, None)])
def test_refused_write_of_a_secret_is_an_error_unless_another_write_came_first(
    reply: Reply, error: str | None
) -> None:
    actions, told = Case([account()], [secret()]).secret(stored(secret()), reply)
    assert ([type(one) for one in actions], told) == ([Get, Update], error)


@pytest.mark.parametrize("cached", [[], [account("u-2")]])
def test_account_that_the_cache_lacks_is_read(cached: list[Obj]) -> None:
    actions, error = Case(cached, [secret()]).secret(stored(account()), stored(secret()), Reply(200))
    assert actions[:2] == [GET_ACCOUNT, GET_SECRET]
    assert (type(actions[2]), error) == (Update, None)
    assert Case(cached, [secret()]).secret(AWAY) == ([GET_ACCOUNT], "away")


@pytest.mark.parametrize("live", [GONE, stored(account("u-2"))])
def test_secret_of_an_account_that_is_gone_is_deleted(live: Reply) -> None:
    for reply, error in ((Reply(200), None), (GONE, None), (AWAY, "away")):
        assert Case([], [secret()]).secret(live, reply) == ([GET_ACCOUNT, Remove(KEY)], error)


def test_secret_that_names_no_uid_is_for_any_account_of_the_name() -> None:
    bare = secret(owner="")
    for cached in ([account("u-2")], []):
        read = [] if cached else [stored(account("u-2"))]
        replies = [*read, stored(bare), Reply(200)]
        *_, update = Case(cached, [bare]).secret(*replies, key=secret_key(bare, N))[0]
        assert isinstance(update, Update)
        assert update.obj["data"]["token"] == text("u-2 key")


def test_secret_that_names_no_account_is_left_alone() -> None:
    assert Case([account()]).secret(key=KEY._replace(account="", account_uid="")) == ([], None)


@pytest.mark.parametrize("cached", [[], [{"metadata": {**secret()["metadata"], "uid": "later"}}]])
def test_reference_to_a_secret_that_is_gone_is_removed_from_the_live_account(cached: list[Obj]) -> None:
    live = stored(account(refers=["key", "other"]))
    actions, error = Case([account()], cached).secret(live, CONFLICT, live, Reply(200))
    assert [type(one) for one in actions] == [Get, Update, Sleep, Get, Update]
    assert (actions[0], referred(actions[1]), actions[2]) == (GET_ACCOUNT, ["other"], Sleep(100_000))
    assert error is None


def test_reference_stays_when_the_account_is_gone_or_never_had_it_or_writes_conflict() -> None:
    assert Case().secret() == ([], None)
    for reply in (AWAY, stored(account()), stored(account("u-2", refers=["key"]))):
        assert Case([account()]).secret(reply) == ([GET_ACCOUNT], None)
    pair = [stored(account(refers=["key"])), CONFLICT]
    actions, error = Case([account()]).secret(*pair * 10)
    assert ([one.us for one in actions if isinstance(one, Sleep)], error) == ([100_000] * 9, None)
