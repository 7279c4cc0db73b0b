"""Callers of the node endpoint: tokens and rights are reviewed by the API, and remembered for a while."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from actors.podworker.endpoint import callers
from actors.podworker.endpoint.callers import API_SERVER, Caller, CallerAccess
from actors.podworker.endpoint.errors import AccessUndecided, CallerForbidden, CallerUnknown
from protocols.kinds.table import Resource
from protocols.kube.errors import ApiAway


class Reviews:
    """An API that knows the tokens of `users`, each of whom has the rights in `rights`."""

    def __init__(self) -> None:
        self.users = {"good": "alice", "thief": API_SERVER}
        self.rights = {("alice", "metrics")}
        self.asked: list[str] = []
        self.away = False

    async def create(self, resource: Resource, review: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(resource.kind)
        if self.away:
            raise ApiAway("no route")
        spec = review["spec"]
        if resource is callers.TOKEN_REVIEWS:
            name = self.users.get(spec["token"], "")
            return {"status": {"authenticated": bool(name), "user": {"username": name, "groups": ["g"]}}}
        return {"status": {"allowed": (spec["user"], spec["resourceAttributes"]["subresource"]) in self.rights}}


class Request:
    transport = protocol = None

    def __init__(self, path: str, token: str = "") -> None:
        self.method, self.path = "GET", path
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}


@pytest.fixture
def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
def access(reviews: Reviews) -> CallerAccess:
    return CallerAccess(cast(Any, reviews), "n1")


async def check(access: CallerAccess, path: str, token: str = "") -> None:
    await access.check(cast(web.BaseRequest, Request(path, token)))


async def test_access_token_with_right_is_reviewed_once(access: CallerAccess, reviews: Reviews) -> None:
    for _ in range(3):
        await check(access, "/metrics", "good")
    assert reviews.asked == ["TokenReview", "SubjectAccessReview"]


async def test_access_token_without_right_is_forbidden_by_name(access: CallerAccess, reviews: Reviews) -> None:
    for _ in range(2):
        with pytest.raises(CallerForbidden, match=r"verb=get, resource=nodes, subresource\(s\)=\[pods proxy\]"):
            await check(access, "/pods", "good")
    assert reviews.asked == ["TokenReview", "SubjectAccessReview", "SubjectAccessReview"]


@pytest.mark.parametrize("token", ["", "bad", "thief"])
async def test_access_unknown_token_and_name_of_api_server_are_unauthorized(access: CallerAccess, token: str) -> None:
    with pytest.raises(CallerUnknown):
        await check(access, "/metrics", token)


async def test_access_api_away_decides_nothing(access: CallerAccess, reviews: Reviews) -> None:
    await check(access, "/metrics", "good")
    reviews.away = True
    await check(access, "/metrics/resource", "good")
    with pytest.raises(AccessUndecided):
        await check(access, "/stats/summary", "good")
    with pytest.raises(CallerUnknown):
        await check(access, "/metrics", "other")
    reviews.away = False
    reviews.rights.add(("alice", "stats"))
    await check(access, "/stats/summary", "good")


def test_name_of_a_caller_is_the_last_common_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the API server and Go read it: signers check the last one only."""
    subject = ((("commonName", API_SERVER),), (("organizationName", "system:nodes"),), (("commonName", "me"),))
    transport = SimpleNamespace(get_extra_info=lambda name: {"subject": subject})
    monkeypatch.setattr(callers, "is_trusted", lambda *_: True)
    assert callers.certified(SimpleNamespace(transport=transport)) == Caller("me", groups=("system:nodes",))  # type: ignore[arg-type]  # a fake
