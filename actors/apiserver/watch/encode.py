"""Watch events as bytes: one JSON document a line, or protobuf messages behind their lengths."""

from actors.apiserver.api.encoding.negotiate import PLAIN, Form
from actors.apiserver.api.encoding.render import dump, render_object
from actors.apiserver.api.objects.paths import Obj
from actors.apiserver.api.objects.stored import Stored
from actors.apiserver.api.resource import Resource
from protocols.kube.protobuf import event_frame

INITIAL_END = {"k8s.io/initial-events-end": "true"}


def event_bytes(resource: Resource, kind: str, stored: Stored, form: Form, first: bool = False) -> bytes:
    """One event; `first` matters to tables only: the first carries the columns."""
    shown = resource.face.view(stored)
    if form == PLAIN:
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), shown.json)
    return frame(kind, render_object(resource, shown.obj, form, columns=first), form)


def bookmark_bytes(resource: Resource, rv: int, form: Form, initial_end: bool = False) -> bytes:
    metadata: Obj = {"resourceVersion": str(rv), "creationTimestamp": None}
    if initial_end:
        metadata["annotations"] = INITIAL_END
    body: Obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    if form.view == "Table":
        return frame("BOOKMARK", render_object(resource, body, form, columns=False), form)
    if form.view:
        body.update(kind="PartialObjectMetadata", apiVersion=f"meta.k8s.io/{form.version}")
    return frame("BOOKMARK", dump(body, form), form)


def error_bytes(status: Obj, form: Form = PLAIN) -> bytes:
    return frame("ERROR", dump(status, form), form)


def frame(kind: str, body: bytes, form: Form) -> bytes:
    if form.protobuf:
        return event_frame(kind, body)
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)
