"""ValidatingWebhookConfiguration and MutatingWebhookConfiguration: defaults, validation, columns."""

from urllib.parse import urlsplit

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.admission.rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATIONS,
    condition_causes,
    default_match,
    one_of,
    part,
    rule_causes,
    selectors_causes,
)
from protocols.kinds.check.causes import Cause, invalid, required, too_many
from protocols.kinds.check.table import once
from protocols.kinds.dra.selectors import Budget
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import Column, Served
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.table import Resource
from protocols.kube.meta import Object
from protocols.kube.names import dns1035_faults, subdomain_faults
from protocols.kube.objects import items

SIDE_EFFECTS, VERSIONS = ("None", "NoneOnDryRun"), ("v1", "v1beta1")
HOOKS = 128
"""Webhooks of one configuration."""
FORMAT = "; desired format: https://host[/path]"


class _WebhookStrategy(Strategy):
    has_generation = True

    def __init__(self, mutating: bool) -> None:
        self._mutating = mutating

    def default(self, obj: Object) -> None:
        for hook in items(obj, "webhooks"):
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("timeoutSeconds", 10)
            if self._mutating:
                hook.setdefault("reinvocationPolicy", "Never")
            default_match(hook)
            if (service := part(hook, "clientConfig", "service")) is not None:
                service.setdefault("port", 443)

    def bumps_generation(self, new: Object, old: Object) -> bool:
        return bool(new.get("webhooks") != old.get("webhooks"))

    def validate_create(self, obj: Object) -> list[Cause]:
        hooks, budget, is_new = items(obj, "webhooks"), Budget(), once()
        causes = [too_many("webhooks", len(hooks), HOOKS)] if len(hooks) > HOOKS else []
        for index, hook in enumerate(hooks[:HOOKS]):
            where = f"webhooks[{index}]"
            causes += self._hook_causes(where, hook, budget)
            if name := hook.get("name"):
                is_new(f"{where}.name", name, causes)
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self.validate_create(new) if self.bumps_generation(new, old) else []

    def _hook_causes(self, path: str, hook: Object, budget: Budget) -> list[Cause]:
        from protocols.cel.policies import PolicyScope

        causes = _name_causes(f"{path}.name", str(hook.get("name") or ""))
        for index, rule in enumerate(items(hook, "rules")):
            causes += rule_causes(f"{path}.rules[{index}]", rule)
        causes += one_of(f"{path}.failurePolicy", hook.get("failurePolicy"), FAILURE_POLICIES)
        causes += one_of(f"{path}.matchPolicy", hook.get("matchPolicy"), MATCH_POLICIES)
        causes += _effect_causes(f"{path}.sideEffects", hook.get("sideEffects"))
        seconds = hook.get("timeoutSeconds")
        if not isinstance(seconds, int) or not 1 <= seconds <= 30:
            text = "the timeout value must be between 1 and 30 seconds"
            causes.append(invalid(f"{path}.timeoutSeconds", seconds, text))
        causes += selectors_causes(path, hook)
        if self._mutating:
            causes += one_of(f"{path}.reinvocationPolicy", hook.get("reinvocationPolicy"), REINVOCATIONS)
        causes += _client_causes(f"{path}.clientConfig", part(hook, "clientConfig") or {})
        causes += condition_causes(f"{path}.matchConditions", items(hook, "matchConditions"), PolicyScope(), budget)
        return causes + _version_causes(f"{path}.admissionReviewVersions", hook.get("admissionReviewVersions") or [])


def _name_causes(path: str, name: str) -> list[Cause]:
    if not name:
        return [required(path)]
    if faults := subdomain_faults(name):
        return [invalid(path, name, ",".join(faults))]
    short = name.count(".") < 2
    return [invalid(path, name, "should be a domain with at least three segments separated by dots")] if short else []


def _effect_causes(path: str, value: object) -> list[Cause]:
    if value is None:
        return [required(path, f"must specify one of {', '.join(SIDE_EFFECTS)}")]
    return one_of(path, value, SIDE_EFFECTS)


def _client_causes(path: str, client: Object) -> list[Cause]:
    url, service = client.get("url"), part(client, "service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if service is not None:
        return _service_causes(f"{path}.service", service)
    return _url_causes(f"{path}.url", str(url))


def _url_causes(path: str, url: str) -> list[Cause]:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{FORMAT}")]
    faults = []
    if parts.scheme != "https":
        faults.append((parts.scheme, "'https' is the only allowed URL scheme"))
    if not parts.hostname:
        faults.append((parts.netloc, "host must be specified"))
    if parts.username is not None:
        faults.append((parts.username, "user information is not permitted in the URL"))
    if parts.fragment:
        faults.append((parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        faults.append((parts.query, "query parameters are not permitted in the URL"))
    return [invalid(path, value, fault + FORMAT) for value, fault in faults]


def _service_causes(path: str, service: Object) -> list[Cause]:
    # Upstream reports a missing name at the namespace, and the other way round.
    causes = [
        required(f"{path}.{reported}", f"service {name} is required")
        for name, reported in (("name", "namespace"), ("namespace", "name"))
        if not service.get(name)
    ]
    where = service.get("path")
    if isinstance(where, str) and where and (not where.startswith("/") or "//" in where):
        fault = "must start with a '/'" if not where.startswith("/") else "segment[0] may not be empty"
        causes.append(invalid(f"{path}.path", where, fault))
    port = service.get("port")
    if not isinstance(port, int) or not 1 <= port <= 65535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid(f"{path}.port", port, text))
    return causes


def _version_causes(path: str, versions: list[str]) -> list[Cause]:
    listed = ", ".join(VERSIONS)
    if not versions:
        return [required(path, f"must specify one of {listed}")]
    causes, seen = list[Cause](), set[str]()
    for index, version in enumerate(versions):
        if version in seen:
            causes.append(invalid(f"{path}[{index}]", version, "duplicate version"))
            continue
        seen.add(version)
        causes += [invalid(f"{path}[{index}]", version, fault) for fault in dns1035_faults(version)]
    if not set(versions) & set(VERSIONS):
        causes.append(invalid(path, versions, f"must include at least one of {listed}"))
    return causes


def _configuration(row: Resource, mutating: bool) -> Served:
    return Served(
        **asdict(row),
        strategy=_WebhookStrategy(mutating),
        columns=(NAME, Column("Webhooks", lambda obj: len(items(obj, "webhooks")), type="integer"), AGE),
        versioned_update=True,
    )


VALIDATING = _configuration(kinds.VALIDATINGWEBHOOKCONFIGURATIONS, mutating=False)
MUTATING = _configuration(kinds.MUTATINGWEBHOOKCONFIGURATIONS, mutating=True)

ROWS = (VALIDATING, MUTATING)
