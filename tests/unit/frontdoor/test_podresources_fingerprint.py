"""Fingerprints of pods agree with what schedulers compute."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from actors.frontdoor.feeds.pod_feed import fingerprint, pod_hash

PODS = (("ns1", "n1"), ("ns1", "n2"), ("ns2", "n1"), ("ns3", "n1"), ("ns3", "n2"))


@pytest.mark.parametrize(
    ("data", "seed", "hashed"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
        (b"abc", 2**64 - 1, 0x28306E589CC02176),
    ],
)
def test_known_hashes(data: bytes, seed: int, hashed: int) -> None:
    assert xxh64_intdigest(data, seed) == hashed


def test_known_fingerprints() -> None:
    assert fingerprint([]) == "pfp0v001ef46db3751d8e999"
    assert fingerprint(pod_hash(*pod) for pod in PODS) == "pfp0v001b92008c14168b3a6"


@given(st.permutations(PODS))
def test_the_order_of_pods_does_not_count(pods: list[tuple[str, str]]) -> None:
    assert fingerprint(pod_hash(*pod) for pod in pods) == "pfp0v001b92008c14168b3a6"
