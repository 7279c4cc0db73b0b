"""Messages between actors, one module per owner: each names the owner's streams, its RPC methods and their structs.

Structs are msgspec, encoded as msgpack maps: fields may be added with defaults; unknown fields are ignored by readers.
"""
