"""Paths and operations of one resource."""

from actors.apiserver.api.objects import Obj
from actors.apiserver.api.resource import Resource
from actors.apiserver.http.discovery.components import reference

PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
WRITE = ("dryRun", "fieldManager", "fieldValidation")
LIST = ("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion")
WATCH = ("resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch")
DELETE = ("dryRun", "gracePeriodSeconds", "propagationPolicy")
PARAMETERS = {
    "get": ("resourceVersion",),
    "list": LIST + WATCH,
    "create": WRITE,
    "update": WRITE,
    "patch": (*WRITE, "force"),
    "delete": DELETE,
    "deletecollection": DELETE + LIST,
}
METHODS = {"get": "get", "list": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
METHODS["deletecollection"] = "delete"
ACTIONS = {"create": "post", "update": "put"}
TYPES = {"limit": "integer", "timeoutSeconds": "integer", "gracePeriodSeconds": "integer"}
TYPES |= dict.fromkeys(("allowWatchBookmarks", "sendInitialEvents", "watch", "force"), "boolean")


def root_of(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def paths(row: Resource, names: dict[str, str]) -> dict[str, Obj]:
    """`names`: component names by kind."""
    base = f"/{root_of(row.group, row.version)}/"
    inside = f"{base}namespaces/{{namespace}}/{row.plural}" if row.namespaced else f"{base}{row.plural}"
    found = {
        inside: _path(row, [v for v in ("list", "create", "deletecollection") if v in row.verbs], names),
        f"{inside}/{{name}}": _path(row, [v for v in ("get", "update", "patch", "delete") if v in row.verbs], names),
    }
    if row.namespaced:
        found[f"{base}{row.plural}"] = _path(row, ["list"], names)
    for sub in row.subresources:
        gvk = {"group": sub.group, "version": sub.version or row.version, "kind": sub.kind}
        found[f"{inside}/{{name}}/{sub.name}"] = _operations(gvk, sub.verbs, names)
    if row.custom is not None:
        for operations in found.values():
            _without_strategic(operations)
    return {path: {**operations, **_variables(path)} for path, operations in found.items()}


def _without_strategic(operations: Obj) -> None:
    """Drop the strategic merge patch: only server-side apply knows how lists of custom kinds merge."""
    if "patch" in operations:
        operations["patch"]["requestBody"]["content"].pop("application/strategic-merge-patch+json")


def _path(row: Resource, verbs: list[str], names: dict[str, str]) -> Obj:
    return _operations({"group": row.group, "version": row.version, "kind": row.kind}, verbs, names)


def _variables(path: str) -> Obj:
    words = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    return {"parameters": [{**_parameter(word, "path"), "required": True} for word in words]} if words else {}


def _parameter(name: str, place: str = "query") -> Obj:
    return {"name": name, "in": place, "schema": {"type": TYPES.get(name, "string")}}


def _operations(gvk: Obj, verbs: list[str] | tuple[str, ...], names: dict[str, str]) -> Obj:
    return {METHODS[verb]: _operation(gvk, verb, names) for verb in verbs if verb in METHODS}


def _operation(gvk: Obj, verb: str, names: dict[str, str]) -> Obj:
    name = names.get(gvk["kind"], "")
    whole: Obj = {"schema": reference(name) if name else {"type": "object"}}
    anything: Obj = {"schema": {"type": "object"}}
    made: Obj = {
        "x-kubernetes-action": ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": gvk,
        "parameters": [_parameter(name) for name in PARAMETERS[verb]],
        "responses": {"200": {"description": "OK", "content": {"application/json": _answer(verb, whole)}}},
    }
    if verb in ("create", "update"):
        made["requestBody"] = {"required": True, "content": {"application/json": whole}}
    if verb == "patch":
        made["requestBody"] = {"required": True, "content": dict.fromkeys(PATCH_TYPES, anything)}
    return made


def _answer(verb: str, whole: Obj) -> Obj:
    plain: Obj = {"schema": {"type": "object"}}
    return whole if verb in ("get", "create", "update", "patch") else plain
