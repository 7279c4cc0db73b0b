"""Whether one rule speaks of one request."""

from actors.apiserver.api.attributes import Attributes
from actors.apiserver.authorization.rbac.types import PolicyRule

ANY = "*"


def rule_allows(rule: PolicyRule, wanted: Attributes) -> bool:
    if ANY not in rule.verbs and wanted.verb not in rule.verbs:
        return False
    if not wanted.resource:
        return any(url_matches(url, wanted.path) for url in rule.urls)
    return (
        (ANY in rule.groups or wanted.group in rule.groups)
        and resource_matches(rule.resources, wanted.resource, wanted.subresource)
        and (not rule.names or wanted.name in rule.names)
    )


def resource_matches(resources: tuple[str, ...], resource: str, subresource: str) -> bool:
    """`pods` is not `pods/log`; `*/log` is the log of everything; `*` is all, subresources too."""
    if ANY in resources:
        return True
    if not subresource:
        return resource in resources
    return f"{resource}/{subresource}" in resources or f"{ANY}/{subresource}" in resources


def url_matches(url: str, path: str) -> bool:
    return url in (ANY, path) or (url.endswith(ANY) and path.startswith(url.rstrip(ANY)))
