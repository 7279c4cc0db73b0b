"""The policy follows roles too long to be read in the event loop."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from actors.apiserver.api.stored import Stored
from actors.apiserver.authorization.rbac.feed import KINDS, LONG, PolicyFeed
from actors.apiserver.replica.window import Change


class Roles:
    """A replica of one kind, without objects at first."""

    def __init__(self, kind: str) -> None:
        self.resource = SimpleNamespace(kind=kind)
        self.filled = True
        self.objects = SimpleNamespace(below=lambda _prefix: ())
        self.listeners: list[Any] = []

    def listen(self, listener: Any) -> None:
        self.listeners.append(listener)

    def change(self, rv: int, rules: int | None) -> None:
        """Let the role `ns/a` have so many rules; None deletes it."""
        obj = {"metadata": {"name": "a"}, "rules": [{"verbs": [f"verb{n}"] * 5} for n in range(rules or 0)]}
        after = None if rules is None else Stored("ns/a", rv, json.dumps(obj).encode())
        for listener in self.listeners:
            listener(Change("ns/a", rv, None, after, 0.0))


MANY = LONG // 40


def rules_after(*changes: int | None) -> int:
    """Return how many rules the role has once everything was read."""

    async def story() -> int:
        replicas: dict[str, Any] = {kind: Roles(kind) for kind in KINDS}
        feed = PolicyFeed(replicas)
        policy = feed.policy()
        assert policy is not None
        for rv, rules in enumerate(changes, start=1):
            replicas["Role"].change(rv, rules)
        for _ in range(1000):
            if not feed._reading:
                break
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)  # an older one that ends later would show now
        return len(policy.role_rules("Role", "a", "ns"))

    return asyncio.run(story())


def test_feed_long_role_is_read() -> None:
    assert rules_after(MANY) == MANY


def test_feed_newer_state_wins_over_a_long_one() -> None:
    assert rules_after(MANY, 2) == 2
    assert rules_after(MANY, MANY + 1) == MANY + 1
    assert rules_after(MANY, None) == 0
