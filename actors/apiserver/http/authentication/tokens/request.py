"""A TokenRequest, read and checked: for how long, for whom, bound to what. Pure."""

import msgspec

from actors.apiserver.api.causes import Cause, invalid, invalid_object, required, unsupported
from actors.apiserver.api.objects import Obj, at, text
from actors.apiserver.http.authentication.tokens.claims import BOUND, ISSUER

SHORTEST, USUAL, LONGEST = 600, 3600, 2**32
GROUP = "authentication.k8s.io"


class Asked(msgspec.Struct, frozen=True):
    audiences: tuple[str, ...]
    seconds: int
    kind: str = ""
    """Of the object to bind to; empty = none."""
    name: str = ""
    uid: str = ""


def read_request(body: Obj) -> Asked:
    """Raises Invalid."""
    spec = body.setdefault("spec", {})
    causes = [*_time_causes(spec), *_audience_causes(spec), *_bound_causes(spec)]
    if causes:
        raise invalid_object("TokenRequest", GROUP, text(body, "metadata", "name"), causes)
    spec["audiences"] = spec.get("audiences") or [ISSUER]
    spec["expirationSeconds"] = USUAL if spec.get("expirationSeconds") is None else spec["expirationSeconds"]
    bound = spec.get("boundObjectRef") or {}
    return Asked(
        tuple(spec["audiences"]),
        spec["expirationSeconds"],
        text(bound, "kind"),
        text(bound, "name"),
        text(bound, "uid"),
    )


def _time_causes(spec: Obj) -> list[Cause]:
    path, seconds = "spec.expirationSeconds", spec.get("expirationSeconds")
    if seconds is None:
        return []
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        return [invalid(path, seconds, "must be an integer")]
    if seconds < SHORTEST:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    return [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")] if seconds > LONGEST else []


def _audience_causes(spec: Obj) -> list[Cause]:
    value = spec.get("audiences")
    good = value is None or (isinstance(value, list) and all(isinstance(each, str) and each for each in value))
    return [] if good else [invalid("spec.audiences", value, "must be a list of names")]


def _bound_causes(spec: Obj) -> list[Cause]:
    path, bound = "spec.boundObjectRef", spec.get("boundObjectRef")
    if bound is None:
        return []
    if not isinstance(bound, dict):
        return [invalid(path, bound, "must be an object")]
    if text(bound, "kind") not in BOUND or bound.get("apiVersion", "v1") != "v1":
        shown = f"{at(bound, 'apiVersion')}, Kind={at(bound, 'kind')}"
        return [unsupported(f"{path}.kind", shown, tuple(BOUND))]
    return [] if text(bound, "name") else [required(f"{path}.name")]
