"""Notation of the default roles: a role per paragraph, a rule per indented line.

    NAME
        VERBS GROUPS RESOURCES [NAMES]
        VERBS /URL,...

Lists have commas. `core` is the core group. `read`, `write` and `all` are sets of verbs, and `events` stands for the
rule of everything that records events. Values are sorted, as upstream stores them.
"""

from collections.abc import Iterable, Iterator

from protocols.kinds.rbac.policy_rule import PolicyRule

VERBS = {
    "read": ("get", "list", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
    "all": ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
}
EVENTS = "create,patch,update core,events.k8s.io events"
CORE = "core"


def roles_of(text: str) -> dict[str, tuple[PolicyRule, ...]]:
    """Return rules by role name, in the order of the table."""
    roles: dict[str, list[PolicyRule]] = {}
    rules: list[PolicyRule] = []
    for line in text.strip().splitlines():
        if line.startswith(" "):
            rules.append(_rule(line.split()))
        else:
            rules = roles[line] = []
    return {name: tuple(held) for name, held in roles.items()}


def _rule(words: list[str]) -> PolicyRule:
    if words == ["events"]:
        words = EVENTS.split()
    verbs, second, *rest = words
    if second.startswith("/"):
        return PolicyRule(_sorted(_verbs(verbs)), urls=_sorted(second.split(",")))
    groups = ["" if group == CORE else group for group in second.split(",")]
    resources, *names = rest
    return PolicyRule(
        verbs=_sorted(_verbs(verbs)),
        groups=_sorted(groups),
        resources=_sorted(resources.split(",")),
        names=_sorted(names[0].split(",")) if names else (),
    )


def _verbs(text: str) -> Iterator[str]:
    for verb in text.split(","):
        yield from VERBS.get(verb, (verb,))


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(values))
