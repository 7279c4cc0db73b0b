"""OpenAPI v2: no schemas, only an answer.

kubectl asks for a kind it does not find in v3; from an empty document it goes on to say what it misses.
"""

from actors.apiserver.api.objects import Obj

V2: Obj = {"swagger": "2.0", "info": {"title": "nodeplane", "version": "unversioned"}, "paths": {}}
V2_PROTOBUF = b"\x0a\x032.0" + b"\x12\x18\x0a\x09nodeplane\x12\x0bunversioned" + b"\x42\x00"
"""V2 as the message gnostic's openapi.v2.Document: swagger = 1, info = 2 (title = 1, version = 2), paths = 8."""
V2_MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
