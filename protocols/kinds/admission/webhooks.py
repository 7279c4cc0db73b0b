"""ValidatingWebhookConfiguration and MutatingWebhookConfiguration: defaults, validation, columns."""

from urllib.parse import urlsplit

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.admission.rules import MATCH, conditions, default_match, failure_policy, reinvocation_policy
from protocols.kinds.check.causes import Cause, invalid, required
from protocols.kinds.check.table import (
    Causes,
    Ordered,
    between,
    causes_of,
    each,
    needed,
    one_of,
    present,
    texts,
    together,
)
from protocols.kinds.dra.selectors import Budget
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import Column, Served
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.table import Resource
from protocols.kube.meta import Object
from protocols.kube.names import dns1035_faults, subdomain_faults
from protocols.kube.objects import at, items

SIDE_EFFECTS, VERSIONS = ("None", "NoneOnDryRun"), ("v1", "v1beta1")
HOOKS = 128
"""Webhooks of one configuration."""
FORMAT = "; desired format: https://host[/path]"


def _name_faults(name: str) -> list[str]:
    if faults := subdomain_faults(name):
        return [",".join(faults)]
    return ["should be a domain with at least three segments separated by dots"] if name.count(".") < 2 else []


def _client(path: str, client: Object, causes: Causes) -> None:
    if (client.get("url") is None) == (client.get("service") is None):
        causes.append(required(path, "exactly one of url or service is required"))
    else:
        CLIENT(path, client, causes)


def _url(path: str, url: str, causes: Causes) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
        if url != url.strip():
            raise ValueError(f"parse {url!r}: it begins or ends with a space")
    except ValueError as error:
        causes.append(required(path, f"url must be a valid URL: {error}{FORMAT}"))
        return
    rules = (
        (parts.scheme != "https", parts.scheme, "'https' is the only allowed URL scheme"),
        (not parts.hostname, parts.netloc, "host must be specified"),
        (parts.username is not None, parts.username, "user information is not permitted in the URL"),
        (bool(parts.fragment), parts.fragment, "fragments are not permitted in the URL"),
        (bool(parts.query), parts.query, "query parameters are not permitted in the URL"),
    )
    causes.extend(invalid(path, value, text + FORMAT) for is_wrong, value, text in rules if is_wrong)


def _service(path: str, service: Object, causes: Causes) -> None:
    # Upstream reports a missing name at the namespace, and the other way round.
    for name, reported in (("name", "namespace"), ("namespace", "name")):
        if not service.get(name):
            causes.append(required(f"{path}.{reported}", f"service {name} is required"))
    SERVICE(path, service, causes)


def _path_faults(path: str) -> list[str]:
    if not path.startswith("/"):
        return ["must start with a '/'"]
    faults = []
    for index, segment in enumerate(path[1:].removesuffix("/").split("/") if path != "/" else ()):
        wrong = subdomain_faults(segment) if segment else ["may not be empty"]
        faults += [f"segment[{index}]{':' if segment else ''} {fault}" for fault in wrong]
    return faults


SERVICE = Ordered(
    "port=0",
    path=texts(_path_faults),
    port=between(1, 65535, "port is not valid: must be between 1 and 65535, inclusive"),
)
CLIENT = Ordered(url=_url, service=_service)


def _versions(path: str, versions: list[str], causes: Causes) -> None:
    seen = set[str]()
    for index, version in enumerate(versions):
        faults = ["duplicate version"] if version in seen else dns1035_faults(version)
        causes.extend(invalid(f"{path}[{index}]", version, fault) for fault in faults)
        seen.add(version)
    if not seen & set(VERSIONS):
        causes.append(invalid(path, versions, f"must include at least one of {', '.join(VERSIONS)}"))


HOOK = Ordered(
    "name sideEffects timeoutSeconds=0 clientConfig={} admissionReviewVersions",
    name=needed(texts(_name_faults)),
    failurePolicy=failure_policy,
    sideEffects=present(one_of(*SIDE_EFFECTS, empty=True), f"must specify one of {', '.join(SIDE_EFFECTS)}"),
    timeoutSeconds=between(1, 30, "the timeout value must be between 1 and 30 seconds"),
    reinvocationPolicy=reinvocation_policy,
    clientConfig=_client,
    admissionReviewVersions=needed(_versions, f"must specify one of {', '.join(VERSIONS)}"),
)


class _WebhookStrategy(Strategy):
    has_generation = True

    def default(self, obj: Object) -> None:
        for hook in items(obj, "webhooks"):
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("timeoutSeconds", 10)
            default_match(hook)
            if (service := at(hook, "clientConfig", "service")) is not None:
                service.setdefault("port", 443)

    def bumps_generation(self, new: Object, old: Object) -> bool:
        return bool(new.get("webhooks") != old.get("webhooks"))

    def validate_create(self, obj: Object) -> list[Cause]:
        from protocols.cel.policies import PolicyScope

        hook = together(HOOK, MATCH, Ordered(matchConditions=conditions(PolicyScope(), Budget())))
        hooks = each(hook, limit=HOOKS, key=lambda value: value.get("name"), at=".name")
        return causes_of(Ordered(webhooks=hooks), "", obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self.validate_create(new) if self.bumps_generation(new, old) else []


class _MutatingWebhookStrategy(_WebhookStrategy):
    def default(self, obj: Object) -> None:
        super().default(obj)
        for hook in items(obj, "webhooks"):
            hook.setdefault("reinvocationPolicy", "Never")


def _configuration(row: Resource, strategy: Strategy) -> Served:
    return Served(
        **asdict(row),
        strategy=strategy,
        columns=(NAME, Column("Webhooks", lambda obj: len(items(obj, "webhooks")), type="integer"), AGE),
        versioned_update=True,
    )


VALIDATING = _configuration(kinds.VALIDATINGWEBHOOKCONFIGURATIONS, _WebhookStrategy())
MUTATING = _configuration(kinds.MUTATINGWEBHOOKCONFIGURATIONS, _MutatingWebhookStrategy())

ROWS = (VALIDATING, MUTATING)
