"""IP families and cluster IPs of services, as upstream's allocator settles them before it allocates. Pure.

`families` are those of the plane's service ranges, the primary one first.
"""

from collections.abc import Collection
from typing import Any

from protocols.kinds.check.causes import Cause, forbidden, invalid, required
from protocols.kinds.check.table import needed, unique
from protocols.kinds.check.values import address, strict_ip_faults, subdomain
from protocols.kube.meta import Object

HEADLESS, EXTERNAL = "None", "ExternalName"
SINGLE, PREFER, REQUIRE = "SingleStack", "PreferDualStack", "RequireDualStack"
POLICIES = (PREFER, REQUIRE, SINGLE)
OTHER = {"IPv4": "IPv6", "IPv6": "IPv4"}
IPS, FAMILIES, POLICY = "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"
ONCE = "may not change once set"
_STACKED = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"


def cluster_ips(spec: Object) -> list[str]:
    """Return spec.clusterIPs; empty until they are allocated."""
    return list(spec.get("clusterIPs") or ())


def _is_headless(spec: Object) -> bool:
    return cluster_ips(spec) == [HEADLESS]


def settle(spec: Object, before: Object | None, families: tuple[str, ...]) -> list[Cause]:
    """Set ipFamilies and ipFamilyPolicy. Return what contradicts them; the spec is then incomplete."""
    if spec.get("type") == EXTERNAL or (before is not None and _keeps_preference(spec, before)):
        return []
    _default_policy(spec, before)
    if spec["ipFamilyPolicy"] not in POLICIES or any(name not in OTHER for name in spec.get("ipFamilies") or ()):
        return []  # reported by the rules of the fields
    held = cluster_ips(before or {})
    if causes := address_causes(spec, held) or _stack_causes(spec, before) or _infer(spec, families):
        return causes
    if _is_headless(spec) and not spec.get("selector"):
        chosen = spec["ipFamilies"] = list(spec.get("ipFamilies") or families[:1])
        if len(chosen) < 2 and spec["ipFamilyPolicy"] != SINGLE:
            chosen.append(OTHER[chosen[0]])
        return []
    return _complete(spec, families)


def _keeps_preference(spec: Object, before: Object) -> bool:
    """Return True for a PreferDualStack service whose families and addresses an update leaves as they are."""
    same = all(spec.get(field) == before.get(field) for field in ("clusterIPs", "ipFamilies"))
    return same and spec.get("ipFamilyPolicy") == before.get("ipFamilyPolicy") == PREFER


def _default_policy(spec: Object, before: Object | None) -> None:
    if not spec.get("ipFamilyPolicy"):
        bare = _is_headless(spec) and not spec.get("selector")
        spec["ipFamilyPolicy"] = (before or {}).get("ipFamilyPolicy") or (REQUIRE if bare else SINGLE)


def address_causes(spec: Object, held: Collection[str] = ()) -> list[Cause]:
    """Check clusterIP, clusterIPs and ipFamilies against each other; addresses that are `held` stay valid."""
    causes, ips, first = list[Cause](), cluster_ips(spec), spec.get("clusterIP") or ""
    if first and not ips:
        causes.append(required(IPS))
    elif first and ips[0] != first:
        causes.append(invalid(IPS, ips, "first value must match `clusterIP`"))
    elif ips and not first:
        causes.append(invalid(IPS, ips, "must be empty when `clusterIP` is not specified"))
    given = spec.get("ipFamilies") or []
    unique(FAMILIES, given, causes)
    if wrong := _malformed(ips, held):
        return causes + wrong
    parsed = [ip for text in ips if (ip := address(text)) is not None]
    if len(ips) > 2:
        causes.append(invalid(IPS, ips, "may only hold up to 2 values"))
    if len(parsed) > 1 and len({known.version for known in parsed}) != len(parsed):
        causes.append(invalid(IPS, ips, "may specify no more than one IP for each IP family"))
    if not causes:
        for n, (name, ip) in enumerate(zip(given, parsed, strict=False)):
            if name in OTHER and name != f"IPv{ip.version}":
                text = f"expected an {name} value as indicated by `ipFamilies[{n}]`"
                causes.append(invalid(f"{IPS}[{n}]", ips[n], text))
    return causes


def _malformed(ips: list[str], held: Collection[str]) -> list[Cause]:
    if ips[:1] == [HEADLESS]:
        return [invalid(IPS, ips, "'None' must be the first and only value")] if len(ips) > 1 else []
    new = ((n, text) for n, text in enumerate(ips) if text not in held)
    return [invalid(f"{IPS}[{n}]", text, fault) for n, text in new for fault in strict_ip_faults(text)]


def _stack_causes(spec: Object, before: Object | None) -> list[Cause]:
    """Check the policy against the number of addresses and families; a downgrade releases the second ones."""
    policy, causes = spec["ipFamilyPolicy"], list[Cause]()
    for field, noun, lost in (
        ("clusterIPs", "cluster IPs", "cluster IP"),
        ("ipFamilies", "IP families", "IP family"),
    ):
        now, then = spec.get(field) or [], (before or {}).get(field) or []
        if policy == SINGLE and before is not None and now == then and len(now) > 1:
            spec[field] = now = now[:1]
        if policy != SINGLE and now and len(now) < len(then):
            causes.append(invalid(POLICY, policy, f"must be 'SingleStack' to release the secondary {lost}"))
        if policy == SINGLE and len(now) == 2:
            causes.append(invalid(POLICY, policy, _STACKED.format(noun)))
    return causes


def _infer(spec: Object, families: tuple[str, ...]) -> list[Cause]:
    """Complete ipFamilies by those of the cluster IPs."""
    inferred, ips, causes = list(spec.get("ipFamilies") or ()), cluster_ips(spec), list[Cause]()
    for number, text in enumerate(ips):
        parsed = address(text)
        if parsed is None or number < len(inferred):
            continue
        name = f"IPv{parsed.version}"
        if name in families:
            inferred.append(name)
        else:
            causes.append(invalid(f"{IPS}[{number}]", ips, f"{name} is not configured on this cluster"))
    if inferred:
        spec["ipFamilies"] = inferred
    return causes


def _complete(spec: Object, families: tuple[str, ...]) -> list[Cause]:
    policy, chosen = spec["ipFamilyPolicy"], list(spec.get("ipFamilies") or ())
    causes = list[Cause]()
    if policy == REQUIRE and len(families) < 2:
        causes.append(invalid(POLICY, policy, "this cluster is not configured for dual-stack services"))
    for number, name in enumerate(chosen):
        if name not in families:
            causes.append(invalid(f"{FAMILIES}[{number}]", name, "not configured on this cluster"))
    if not causes:
        chosen = chosen or list(families[:1])
        if policy != SINGLE and len(chosen) == 1 and len(families) == 2:
            chosen.append(OTHER[chosen[0]])
        spec["ipFamilies"] = chosen
    return causes


def change_causes(spec: Object, before: Object) -> list[Cause]:
    """Check that addresses and families change only by gaining or losing the second one."""
    if EXTERNAL in (spec.get("type"), before.get("type")):
        return []
    causes = list[Cause]()
    if not (_is_headless(spec) and _is_headless(before)):
        causes = _list_causes(spec, before, "clusterIPs", "clusterIP")
    if not (_bare(spec) and _bare(before)):
        causes += _list_causes(spec, before, "ipFamilies", "ipFamily")
    return causes


def _bare(spec: Object) -> bool:
    return _is_headless(spec) and not spec.get("selector")


def _list_causes(spec: Object, before: Object, field: str, noun: str) -> list[Cause]:
    now, then, path = spec.get(field) or [], before.get(field) or [], f"spec.{field}"
    if len(now) == len(then):
        return [invalid(f"{path}[{n}]", now, ONCE) for n, value in enumerate(then) if value != now[n]]
    causes = list[Cause]()
    if not now:
        causes.append(invalid(f"{path}[0]", now, f"primary {noun} can not be unset"))
    if now and then and now[0] != then[0]:
        causes.append(invalid(f"{path}[0]", now, ONCE))
    if len(now) == 1 < len(then) and spec.get("ipFamilyPolicy") != SINGLE:
        text = f"must be set to 'SingleStack' when releasing the secondary {noun}"
        causes.append(invalid(POLICY, spec.get("ipFamilyPolicy"), text))
    return causes


def external_causes(spec: Object) -> list[Cause]:
    """Check a service of type ExternalName: it has a name, which may end with a dot, and no addresses."""
    text, given = "may not be set for ExternalName services", dict[str, Any]()
    given = {"clusterIPs": cluster_ips(spec) or spec.get("clusterIP")}
    given |= {field: spec.get(field) for field in ("ipFamilies", "ipFamilyPolicy")}
    causes = [forbidden(f"spec.{field}", text) for field, value in given.items() if value]
    _name("spec.externalName", (spec.get("externalName") or "").removesuffix("."), causes)
    return causes


_name = needed(subdomain)
