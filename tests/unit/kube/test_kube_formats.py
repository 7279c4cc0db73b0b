"""Formats of strings, and what Go takes for the target of a request."""

import contextlib
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.kube.formats import duration_nanos, fits, is_known
from protocols.kube.request_uri import uri_fault


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f1f77bcf86cd79943901g"),
        ("byte", "aGk=", ""),
        ("cidr", "010.0.0.0/8", "10.0.0.0/33"),
        ("cidr", "fd00::/8", "10.0.0.0"),
        ("creditcard", "4111 1111 1111 1111", "411111111111111"),
        ("date", "0000-02-29", "2023-2-01"),
        ("date-time", "2021-01-01t23:59:59.5+99:99", "2021-01-01T00:00:00"),
        ("duration", "1h30m", "h"),
        ("duration", "5 seconds", "5 lightyears"),
        ("email", "a@b", "a b"),
        ("hexcolor", "#fFf", "#ffff"),
        ("hostname", "a.example.com", "a_b.com"),
        ("hostname", "über.example", "a.b1"),
        ("ipv4", "010.0.0.1", "::1"),
        ("ipv4", "::ffff:1.2.3.4", "1.2.3"),
        ("ipv6", "::1", "fe80::1%eth0"),
        ("isbn", "978-0321751041", "978-032175104X"),
        ("isbn10", "0321751043", "978-0321751041"),
        ("isbn13", "978 0321751041", "0321751043"),
        ("k8s-short-name", "a-b", "A"),
        ("k8s-long-name", "a.b", "a..b"),
        ("mac", "01:23:45:67:89:ab", "01:23:45:67:89-ab"),
        ("mac", "0123.4567.89ab", "0123.4567"),
        ("rgbcolor", "rgb( 0,255 , 9)", "rgb(256,0,0)"),
        ("ssn", "123-45-6789", "123456789"),
        ("uri", "http://[::1]:80/x", "http://[::1"),
        ("uuid", "123e4567e89b12d3a456426614174000", "{123e4567-e89b-12d3-a456-426614174000}"),
        ("uuid3", "123e4567-e89b-32d3-a456-426614174000", "123e4567-e89b-42d3-a456-426614174000"),
        ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000"),
        ("uuid5", "123e4567-e89b-52d3-b456-426614174000", "123e4567-e89b-42d3-b456-426614174000"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    assert fits(name, good)
    assert not fits(name, bad)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("1h30m", 5400 * 10**9),
        ("-1.5s", -15 * 10**8),
        ("+.5ms", 500_000),
        ("2 days and 3 minutes", (2 * 86400 + 180) * 10**9),
        ("1wk", 604800 * 10**9),
        ("7 hr 1 nope", 7 * 3600 * 10**9),
        ("12 Microseconds", 12_000),
    ],
)
def test_durations(text: str, nanos: int) -> None:
    assert duration_nanos(text) == nanos


@given(st.text(st.sampled_from("0123456789. hmsdnuµw+-"), max_size=12))
def test_any_text_is_a_duration_or_none(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(duration_nanos(text), int)


def test_names_of_formats() -> None:
    assert fits("nobody-knows", "anything")
    assert all(is_known(*each) for each in (("date-time", "string"), ("password", ""), ("int32", "integer")))
    assert not any(is_known(*each) for each in (("int32", "string"), ("uri", "object"), ("nope", "string")))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("*", ""),
        ("mailto:a@b", ""),
        ("/a%zz", 'invalid URL escape "%zz"'),
        ("/a%2", 'invalid URL escape "%2"'),
        ("http://u:p@h:8/p", ""),
        ("http://u p@h/", 'net/url: invalid userinfo'),
        ("http://h:x/", 'invalid port ":x" after host'),
        ("http://a b/", 'invalid character " " in host name'),
        ("http://%41/", 'invalid URL escape "%41"'),
        ("http://%C3%A4/", ""),
        ("http://[::1/", "missing ']' in host"),
        ("http://[::1]x/", 'invalid port "x" after host'),
        ("http://[fe80::1%25en0]:8/", ""),
        ("http://[1.2.3.4]/", "invalid IP-literal"),
        (":a", "missing protocol scheme"),
        ("1a:b", "invalid URI for request"),
        ("a b", "invalid URI for request"),
        ("/a\tb", "net/url: invalid control character in URL"),
    ],
)  # fmt: skip
def test_targets(text: str, fault: str) -> None:
    told = uri_fault(text)
    assert told.endswith(fault) if fault else told == ""


@given(st.text(max_size=30))
def test_a_quoted_path_is_a_target(text: str) -> None:
    assert uri_fault("/" + quote(text, errors="replace")) == ""
    assert uri_fault(f"https://example.com/{quote(text, errors='replace')}?x#y") == ""


@given(st.text(max_size=30))
def test_a_fault_is_one_line(text: str) -> None:
    assert "\n" not in uri_fault(text)
