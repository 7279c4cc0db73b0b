"""Whether somebody who holds some rules may hand out others: nobody grants more than they have."""

from collections.abc import Iterable, Iterator

from actors.apiserver.authorization.rbac.match import ANY, resource_matches, url_matches
from actors.apiserver.authorization.rbac.types import PolicyRule


def uncovered(held: Iterable[PolicyRule], granted: Iterable[PolicyRule]) -> tuple[PolicyRule, ...]:
    """The single permissions in `granted` that no rule of `held` includes, in order, each once."""
    have = tuple(held)
    missing = (atom for rule in granted for atom in _atoms(rule) if not any(_covers(h, atom) for h in have))
    return tuple(dict.fromkeys(missing))


def _atoms(rule: PolicyRule) -> Iterator[PolicyRule]:
    """A rule as rules of one verb on one thing."""
    for verb in rule.verbs:
        for url in rule.urls:
            yield PolicyRule((verb,), urls=(url,))
        for group in rule.groups:
            for resource in rule.resources:
                for name in rule.names or ("",):
                    yield PolicyRule((verb,), (group,), (resource,), (name,) if name else ())


def _covers(held: PolicyRule, atom: PolicyRule) -> bool:
    if ANY not in held.verbs and atom.verbs[0] not in held.verbs:
        return False
    if atom.urls:
        return any(url_matches(url, atom.urls[0]) for url in held.urls)
    resource, _, subresource = atom.resources[0].partition("/")
    return (
        (ANY in held.groups or atom.groups[0] in held.groups)
        and (atom.resources[0] in held.resources or resource_matches(held.resources, resource, subresource))
        and (not held.names or (bool(atom.names) and atom.names[0] in held.names))
    )
