"""What a store's refusals become."""

import pytest

from protocols.etcd.errors import AnswerTooLarge, EtcdError, InvalidRequest, NoSpace, TooLarge, etcd_error
from protocols.wire.methods import rpc_error


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        ("INVALID_ARGUMENT", "etcdserver: request is too large", TooLarge),
        ("RESOURCE_EXHAUSTED", "grpc: received message larger than max (2098520 vs. 2097152)", TooLarge),
        ("RESOURCE_EXHAUSTED", "received message larger than max (70000000 vs. 67108864)", AnswerTooLarge),
        ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded", NoSpace),
        ("INVALID_ARGUMENT", "etcdserver: key is not provided", InvalidRequest),
    ],
    ids=["told by etcd", "told by its gRPC", "an answer too large for us", "full", "wrong form"],
)
def test_kinds(code: str, text: str, kind: type[EtcdError]) -> None:
    error = etcd_error(rpc_error(code, text))
    assert type(error) is kind
    assert str(error) == ("etcdserver: request is too large" if kind is TooLarge else text)
