"""Validate the spec of a job. Messages equal upstream's."""

import re
from typing import Any

from protocols.kinds.batch.job_policies import failure_policy, success_causes
from protocols.kinds.check.causes import invalid, required, too_long, unsupported
from protocols.kinds.check.table import Causes, Struct, causes_of
from protocols.kinds.pods.warnings import pod_warnings
from protocols.kinds.workloads.rules import numbers
from protocols.kinds.workloads.templates import template_causes
from protocols.kube.meta import Object
from protocols.kube.names import subdomain_faults

INDEXED, NON_INDEXED = "Indexed", "NonIndexed"
UNTRACKED = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)
RESTARTS = ("OnFailure", "Never")
MOST_INDEXES, MOST_BESIDE_MANY, LONGEST_MANAGER = 100_000, 10_000, 63
NUMBERS = Struct(
    fields=numbers(
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    )
)


def job_spec_causes(path: str, spec: Object) -> Causes:
    """Validate a job's spec, or that of a cron job's template, which has no selector yet."""
    causes = causes_of(NUMBERS, path, spec)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        causes.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if (manager := spec.get("managedBy")) is not None:
        causes += _manager_causes(f"{path}.managedBy", manager)
    causes += _mode_causes(path, spec) + _policy_causes(path, spec)
    template: Any = spec.get("template") or {}
    causes += template_causes(f"{path}.template", template)
    return causes + _restart_causes(f"{path}.template.spec.restartPolicy", spec, template.get("spec") or {})


def job_warnings(path: str, spec: Object) -> list[str]:
    """Return warnings about the spec of a job and its template."""
    many = (spec.get("completions") or 0) > MOST_INDEXES and (spec.get("parallelism") or 0) > MOST_BESIDE_MANY
    too_many = many and spec.get("completionMode") == INDEXED
    return [f"{path}: {UNTRACKED}"] * too_many + pod_warnings(spec.get("template") or {}, f"{path}.template")


HTTP_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", re.ASCII)
HTTP_PATH_TEXT = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"


def _manager_causes(path: str, manager: str) -> Causes:
    host, _, rest = manager.partition("/")
    if not manager:
        causes = [required(path)]
    elif not host or not rest:
        causes = [invalid(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    else:
        causes = [invalid(path, host, fault) for fault in subdomain_faults(host)]
        causes += [] if HTTP_PATH.fullmatch(rest) else [invalid(path, rest, HTTP_PATH_TEXT)]
    return [*causes, too_long(path, LONGEST_MANAGER)] if len(manager.encode()) > LONGEST_MANAGER else causes


def _mode_causes(path: str, spec: Object) -> Causes:
    mode = spec.get("completionMode")
    if mode == INDEXED:
        return _indexed_causes(path, spec)
    if mode not in (None, NON_INDEXED):
        return [unsupported(f"{path}.completionMode", mode, (NON_INDEXED, INDEXED))]
    given = [name for name in ("backoffLimitPerIndex", "maxFailedIndexes") if spec.get(name) is not None]
    return [invalid(f"{path}.{name}", spec[name], "requires indexed completion mode") for name in given]


def _indexed_causes(path: str, spec: Object) -> Causes:
    completions, parallelism, failed = (spec.get(f) for f in ("completions", "parallelism", "maxFailedIndexes"))
    causes: Causes = []
    if completions is None:
        causes.append(required(f"{path}.completions", f"when completion mode is {INDEXED}"))
    if (parallelism or 0) > MOST_INDEXES:
        text = f"must be less than or equal to {MOST_INDEXES} when completion mode is {INDEXED}"
        causes.append(invalid(f"{path}.parallelism", parallelism, text))
    if completions is not None and failed is not None and failed > completions:
        causes.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if (failed or 0) > MOST_INDEXES:
        causes.append(invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {MOST_INDEXES}"))
    many = (completions or 0) > MOST_INDEXES and spec.get("backoffLimitPerIndex") is not None
    return [*causes, *_many_causes(path, parallelism, failed)] if many else causes


def _many_causes(path: str, parallelism: int | None, failed: int | None) -> Causes:
    """Check bounds of a job with so many indexes that its status would grow too long."""
    text = (
        f"must be less than or equal to {MOST_BESIDE_MANY} when completions are above {MOST_INDEXES} and used with "
        "backoff limit per index"
    )
    causes: Causes = []
    if failed is None:
        missing = f"must be specified when completions is above {MOST_INDEXES}"
        causes.append(required(f"{path}.maxFailedIndexes", missing))
    given = (("parallelism", parallelism), ("maxFailedIndexes", failed))
    return causes + [invalid(f"{path}.{name}", n, text) for name, n in given if n is not None and n > MOST_BESIDE_MANY]


def _policy_causes(path: str, spec: Object) -> Causes:
    failure, success = spec.get("podFailurePolicy"), spec.get("successPolicy")
    causes: Causes = []
    if failure is not None:
        failure_policy(spec)(f"{path}.podFailurePolicy", failure, causes)
    if success is not None and spec.get("completionMode") != INDEXED:
        causes.append(invalid(f"{path}.successPolicy", success, "requires indexed completion mode"))
    elif success is not None:
        causes += success_causes(f"{path}.successPolicy", success, spec.get("completions") or 0)
    replacement = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if failure is not None else ("Failed", "TerminatingOrFailed")
    if replacement is not None and replacement not in allowed:
        causes.append(unsupported(f"{path}.podReplacementPolicy", replacement, allowed))
    return causes


def _restart_causes(path: str, spec: Object, pod: Object) -> Causes:
    policy = pod.get("restartPolicy") or ""
    if policy in ("", "Always"):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in RESTARTS:
        return [unsupported(path, policy, RESTARTS)]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        return [invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []
