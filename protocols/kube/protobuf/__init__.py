"""Kubernetes protobuf: request bodies and answers of Go's typed clients, to and from the JSON form of the objects.

Pure. Every fault is one of errors.py; bytes from outside raise nothing else.
"""

from protocols.kube.protobuf.envelope import MAGIC, MEDIA_TYPE, decode_object, encode_list, encode_object, event_frame
from protocols.kube.protobuf.table import is_known
from protocols.kube.protobuf.types import KindUnknown
from protocols.kube.protobuf.wire import ProtobufInvalid

__all__ = [
    "MAGIC",
    "MEDIA_TYPE",
    "KindUnknown",
    "ProtobufInvalid",
    "decode_object",
    "encode_list",
    "encode_object",
    "event_frame",
    "is_known",
]
