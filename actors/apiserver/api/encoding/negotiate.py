"""Content negotiation, and headers as they are sent."""

import functools

import msgspec

from actors.apiserver.api.errors import BadRequest, NotAcceptable
from protocols.kube import protobuf

JSON = "application/json"
OFFERED = f"{JSON}, application/yaml, {protobuf.MEDIA_TYPE}"
INCLUDE_OBJECT = ("Metadata", "Object", "None")


class Form(msgspec.Struct, frozen=True):
    """The negotiated output form. `view` is empty, Table or PartialObjectMetadata."""

    view: str = ""
    version: str = "v1"
    include: str = "Metadata"
    """The part of the object that a table row contains."""
    yaml: bool = False
    protobuf: bool = False

    @property
    def media_type(self) -> str:
        if self.protobuf:
            return protobuf.MEDIA_TYPE
        return "application/yaml" if self.yaml else JSON

    @property
    def stream_type(self) -> str:
        """The media type of a watch."""
        return f"{protobuf.MEDIA_TYPE};stream=watch" if self.protobuf else self.media_type


PLAIN = Form()


ACCEPT_LIMIT = 4096
"""Characters of an Accept header; longer ones are rejected."""


def negotiate(accept: str, include: str = "") -> Form:
    """Return the form for an Accept header and the includeObject parameter. Raises NotAcceptable, BadRequest."""
    if len(accept) > ACCEPT_LIMIT:
        raise BadRequest(f"the Accept header has more than {ACCEPT_LIMIT} characters")
    if include and include not in INCLUDE_OBJECT:
        raise BadRequest(f'unrecognized includeObject value: "{include:.64}"')
    return _negotiated(accept, include)


@functools.lru_cache(maxsize=256)
def _negotiated(accept: str, include: str) -> Form:
    """Return the first acceptable form. Raises NotAcceptable.

    Protobuf must be converted from the stored JSON, so only clients that accept nothing else get it.
    """
    clauses = accept.split(",") if accept.strip() else ["*/*"]
    for clause in clauses:
        form = _form(clause, include or "Metadata")
        if form is not None:
            return form
    if any(_is_protobuf(clause) for clause in clauses):
        return Form(protobuf=True)
    raise NotAcceptable(OFFERED)


def check_form(form: Form, api_version: str, kind: str, watch: bool) -> Form:
    """Return a form if the kind supports it. Raises NotAcceptable.

    Some kinds have no protobuf messages, and a watch cannot be YAML, since its events have no ends there.
    """
    if form == PLAIN:
        return form
    spoken = protobuf.is_known(api_version, kind)
    if (form.protobuf and not spoken) or (form.yaml and watch):
        offered = [JSON, *([] if watch else ["application/yaml"]), *([protobuf.MEDIA_TYPE] if spoken else [])]
        raise NotAcceptable(", ".join(offered))
    return form


def _is_protobuf(clause: str) -> bool:
    media, parameters = media_parameters(clause)
    return media == protobuf.MEDIA_TYPE and "as" not in parameters


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
    """Split a media type and its parameters: `application/json;as=Table` gives (`application/json`, {as: Table})."""
    media, *rest = clause.split(";")
    pairs = (part.partition("=") for part in rest)
    return media.strip().lower(), {key.strip(): value.strip() for key, _, value in pairs}


def wants_aggregated(accept: str) -> bool:
    """Return True if `accept` prefers aggregated discovery v2 to plain JSON."""
    return len(accept) <= ACCEPT_LIMIT and _wants_aggregated(accept)


@functools.lru_cache(maxsize=64)
def _wants_aggregated(accept: str) -> bool:
    for clause in accept.split(","):
        media, parameters = media_parameters(clause)
        if media == JSON and parameters.get("as") == "APIGroupDiscoveryList":
            if parameters.get("v") == "v2":
                return True
        elif media in (JSON, "*/*"):
            return False
    return False


Headers = tuple[tuple[str, str], ...]


def written(headers: Headers) -> str:
    """Encode headers. Raises ValueError for a line break in one."""
    text = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if text.count("\n") != len(headers) or text.count("\r") != len(headers):
        raise ValueError("a header with a line break")
    return text
