"""Content negotiation, and headers as they are sent."""

import functools

import msgspec
from msgspec.structs import replace

from actors.apiserver.api.errors import BadRequest, NotAcceptable, NotThisView
from protocols.kinds.served.row import Served
from protocols.kube import protobuf

JSON = "application/json"
OFFERED = f"{JSON}, application/yaml, {protobuf.MEDIA_TYPE}"
INCLUDE_OBJECT = ("Metadata", "Object", "None")


class Form(msgspec.Struct, frozen=True):
    """The negotiated output form. `view` is empty, Table or PartialObjectMetadata."""

    view: str = ""
    of_list: bool = False
    """The client asked for a PartialObjectMetadataList."""
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
METADATA = "PartialObjectMetadata"
_WRITTEN = {
    **dict.fromkeys((JSON, "application/*", "*/*"), PLAIN),
    **dict.fromkeys(("application/yaml", "application/x-yaml", "text/yaml"), Form(yaml=True)),
    protobuf.MEDIA_TYPE: Form(protobuf=True),
}
"""The form of a media type without parameters. A table has no protobuf message."""


ACCEPT_LIMIT = 4096
"""Characters of an Accept header; longer ones are rejected."""


def negotiate(accept: str, include: str = "") -> Form:
    """Return the form for an Accept header and the includeObject parameter. Raises NotAcceptable, BadRequest."""
    if len(accept) > ACCEPT_LIMIT:
        raise BadRequest(f"the Accept header has more than {ACCEPT_LIMIT} characters")
    known = not include or include in INCLUDE_OBJECT
    form = _negotiated(accept, include if known else "")
    if form.view == "Table" and not known:
        fault = f"includeObject: Invalid value: \"{include:.64}\": must be 'Metadata', 'Object', 'None', or empty"
        raise BadRequest(f"Unable to convert to Table as requested: {fault}")
    return form


@functools.lru_cache(maxsize=256)
def _negotiated(accept: str, include: str) -> Form:
    """Return the acceptable form that the client prefers. Raises NotAcceptable.

    Protobuf must be converted from the stored JSON, so only clients that accept nothing else get it.
    """
    clauses = sorted(map(media_parameters, accept.split(",") if accept.strip() else ["*/*"]), key=_preference)
    forms = [form for clause in clauses if (form := _form(*clause, include or "Metadata")) is not None]
    chosen = next((form for form in forms if not form.protobuf), forms[0] if forms else None)
    if chosen is None:
        raise NotAcceptable(OFFERED)
    return chosen


def _preference(clause: tuple[str, dict[str, str]]) -> tuple[float, bool, bool]:
    """Return the sort key of a clause: by quality, then ranges last, as upstream's parser sorts them."""
    media, parameters = clause
    try:
        quality = float(parameters.get("q", "1"))
    except ValueError:
        quality = 1.0
    return -quality, media.startswith("*/"), media.endswith("/*")


def check_form(form: Form, row: Served, verb: str) -> Form:
    """Return a form if the resource supports it for a verb, one for equal events of a watch. Raises NotAcceptable.

    - Some kinds have no protobuf messages.
    - A kind that is not stored has no columns for a table.
    - A watch cannot be YAML, where events have no ends.
    """
    if form == PLAIN:
        return form
    watch, spoken = verb == "watch", protobuf.is_known(row.api_version, row.kind)
    unprintable = form.view == "Table" and row.virtual
    if (form.protobuf and not spoken and not form.view) or (form.yaml and watch) or unprintable:
        offered = [JSON, *([] if watch else ["application/yaml"]), *([protobuf.MEDIA_TYPE] if spoken else [])]
        raise NotAcceptable(", ".join(offered))
    if form.view == METADATA and ((verb == "list" and not form.of_list) or (verb == "get" and form.of_list)):
        raise NotThisView(_mismatch(form, row))
    return replace(form, of_list=False) if watch else form


def _mismatch(form: Form, row: Served) -> str:
    package = "unstructured" if row.custom else row.group.partition(".")[0] or "core"
    if form.of_list:
        kind = "Unstructured" if row.custom else row.kind
        return f"you requested {METADATA}List, but the requested object is not a list (*{package}.{kind})"
    listing = "UnstructuredList" if row.custom else row.list_kind
    return f"you requested {METADATA}, but the requested object is a list (*{package}.{listing})"


def _form(media: str, parameters: dict[str, str], include: str) -> Form | None:
    written = _WRITTEN.get(media)
    if written is None:
        return None
    view = parameters.get("as", "")
    if not view:
        return written if written != PLAIN or parameters.get("stream", "watch") == "watch" else None
    if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
        return None
    if view not in (METADATA, f"{METADATA}List") and (view != "Table" or written.protobuf):
        return None
    if view == "Table":
        return replace(written, view=view, version=parameters["v"], include=include)
    return replace(written, view=METADATA, of_list=view != METADATA, version=parameters["v"])


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
