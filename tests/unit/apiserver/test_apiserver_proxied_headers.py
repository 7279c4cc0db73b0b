"""The headers that a proxy of nodes, pods and services passes on."""

from multidict import CIMultiDict

from actors.apiserver.http.nodes.proxy import passed


def test_headers_of_one_hop_and_credentials_are_not_passed() -> None:
    sent = CIMultiDict(
        [("Connection", "close, X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "5"), ("Authorization", "x"), ("X-Own", "2")]
    )
    assert dict(passed(sent)) == {"X-Own": "2"}
