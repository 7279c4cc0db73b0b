"""Which form of an answer the client asked for in its Accept header."""

import functools
from dataclasses import dataclass

from actors.apiserver.errors import BadRequest, NotAcceptable

JSON = "application/json"
OFFERED = "application/json, application/yaml"
INCLUDE_OBJECT = ("Metadata", "Object", "None")


@dataclass(frozen=True)
class Form:
    """How objects are written. `view` is empty, Table, PartialObjectMetadata or PartialObjectMetadataList."""

    view: str = ""
    version: str = "v1"
    include: str = "Metadata"
    """What a table row carries of its object."""
    yaml: bool = False

    @property
    def media_type(self) -> str:
        return "application/yaml" if self.yaml else JSON


PLAIN = Form()


@functools.lru_cache(maxsize=256)
def negotiate(accept: str, include: str = "") -> Form:
    """The first form in `accept` that we can write. Raises NotAcceptable, BadRequest."""
    if include and include not in INCLUDE_OBJECT:
        raise BadRequest(f'invalid includeObject value "{include}": must be Metadata, Object or None')
    for clause in accept.split(",") if accept.strip() else ["*/*"]:
        form = _form(clause, include or "Metadata")
        if form is not None:
            return form
    raise NotAcceptable(OFFERED)


def _form(clause: str, include: str) -> Form | None:
    media, parameters = media_parameters(clause)
    if media in ("application/yaml", "application/x-yaml", "text/yaml"):
        return Form(yaml=True) if "as" not in parameters else None
    if media not in (JSON, "application/*", "*/*"):
        return None
    view = parameters.get("as", "")
    if not view:
        return Form() if parameters.get("stream", "watch") == "watch" else None
    if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
        return None
    if view not in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
        return None
    return Form(view=view.removesuffix("List"), version=parameters["v"], include=include)


def media_parameters(clause: str) -> tuple[str, dict[str, str]]:
    """`application/json;as=Table;v=v1` -> (`application/json`, {as: Table, v: v1})."""
    media, *rest = clause.split(";")
    pairs = (part.partition("=") for part in rest)
    return media.strip().lower(), {key.strip(): value.strip() for key, _, value in pairs}


@functools.lru_cache(maxsize=64)
def wants_aggregated(accept: str) -> bool:
    """Whether discovery v2 comes before plain JSON in `accept`."""
    for clause in accept.split(","):
        media, parameters = media_parameters(clause)
        if media == JSON and parameters.get("as") == "APIGroupDiscoveryList":
            if parameters.get("v") == "v2":
                return True
        elif media in (JSON, "*/*"):
            return False
    return False
