"""Bootstrap tokens: secrets that name a user, and those that do not (facts of upstream 1.36)."""

import base64
import math
from typing import Any

import pytest

from actors.apiserver.http.authentication.bootstrap_tokens import BootstrapToken, bootstrap_user, parse_token
from protocols.kube.meta import Object

TOKEN = BootstrapToken("abcdef", "0123456789abcdef")
NOW = 1_800_000_000.0


def secret(**changes: Any) -> Object:
    data = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
    data |= {key.replace("_", "-"): value for key, value in changes.items() if value is not None}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"metadata": {"name": TOKEN.name}, "type": "bootstrap.kubernetes.io/token", "data": encoded}


@pytest.mark.parametrize(
    ("text", "known"), [("abcdef.0123456789abcdef", True), ("abcdef.short", False), ("x.y.z", False)]
)
def test_token_has_one_form(text: str, known: bool) -> None:
    assert (parse_token(text) is not None) is known


def test_token_names_a_user_of_its_groups() -> None:
    found = bootstrap_user(TOKEN, secret(auth_extra_groups="system:bootstrappers:a"), NOW)
    assert found is not None
    user, ends = found
    assert user.name == "system:bootstrap:abcdef"
    assert user.groups == ("system:bootstrappers", "system:bootstrappers:a", "system:authenticated")
    assert ends == math.inf


@pytest.mark.parametrize(
    "changes",
    [
        {"token_secret": "fedcba9876543210"},
        {"token_id": "fedcba"},
        {"usage_bootstrap_authentication": "false"},
        {"expiration": "2020-01-01T00:00:00Z"},
        {"expiration": "soon"},
        {"auth_extra_groups": "system:masters"},
    ],
)
def test_secret_that_does_not_confirm_it_proves_nothing(changes: Object) -> None:
    assert bootstrap_user(TOKEN, secret(**changes), NOW) is None


def test_secret_of_another_type_or_in_deletion_proves_nothing() -> None:
    assert bootstrap_user(TOKEN, None, NOW) is None
    assert bootstrap_user(TOKEN, {**secret(), "type": "Opaque"}, NOW) is None
    assert bootstrap_user(TOKEN, {**secret(), "metadata": {"deletionTimestamp": "x"}}, NOW) is None
