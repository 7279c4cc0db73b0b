"""Where the API server sends a request for a log or a connection, and what it refuses by itself."""

import pytest
from multidict import MultiDict

from actors.apiserver.api.errors import ApiError, BadRequest, Invalid, NotFound, ServiceUnavailable
from actors.apiserver.http.nodes.location import Location, check_log_options, log_location, stream_location

NODE = {
    "status": {
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "InternalDNS", "address": "localhost"},
            {"type": "Hostname", "address": "n1"},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }
}


def pod(*containers: str, phase: str = "Running", node: str = "n1") -> dict[str, object]:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"nodeName": node, "containers": [{"name": name} for name in containers or ("a",)]},
        "status": {"phase": phase},
    }


def test_a_log_goes_to_the_pods_node_and_says_whose_it_is() -> None:
    query = MultiDict({"follow": "", "tailLines": "0", "pretty": "true", "previous": "0", "timestamps": "False"})
    wanted = Location("n1", "localhost", 10250, "/containerLogs/ns/p/a", (("follow", "true"), ("tailLines", "0")))
    assert log_location(pod(), NODE, query) == wanted
    assert log_location(pod(node=""), NODE, MultiDict()) is None
    insecure = log_location(pod(), NODE, MultiDict({"insecureSkipTLSVerifyBackend": "true"}))
    assert insecure == Location("n1", "localhost", 10250, "/containerLogs/ns/p/a", (), insecure=True)


def test_a_command_goes_word_by_word() -> None:
    query = MultiDict([("command", "sh"), ("command", "-c"), ("command", "a=1&b"), ("stdin", "yes"), ("tty", "false")])
    found = stream_location("exec", pod("a", "b"), NODE, MultiDict([*query.items(), ("container", "b")]))
    assert found.path == "/exec/ns/p/b"
    assert found.query == (("input", "1"), ("command", "sh"), ("command", "-c"), ("command", "a=1&b"))


def test_a_forward_has_no_container() -> None:
    assert stream_location("portForward", pod("a", "b"), NODE, MultiDict({"ports": "80"})).path == "/portForward/ns/p"


@pytest.mark.parametrize(
    ("call", "query", "kind", "says"),
    [
        ("log", {"container": "x"}, BadRequest, "container x is not valid for pod p"),
        ("log", {"tailLines": "-1"}, Invalid, "tailLines"),
        ("log", {"limitBytes": "0"}, Invalid, "limitBytes"),
        ("log", {"sinceSeconds": "x"}, BadRequest, "strconv.ParseInt"),
        ("log", {"limitBytes": "9" * 5000}, BadRequest, "value out of range"),
        ("log", {"sinceSeconds": "5", "sinceTime": "2026-01-01T00:00:00Z"}, Invalid, "sinceTime"),
        ("log", {"stream": "stdout"}, Invalid, 'stream: Unsupported value: "stdout"'),
        ("log", {"stream": "Stdout", "tailLines": "1"}, Invalid, "cannot be specified together"),
        ("exec", {"stdout": "true"}, BadRequest, "command"),
        ("exec", {"command": "ls"}, BadRequest, "at least 1 of stdin, stdout, stderr"),
    ],
)
def test_refusals(call: str, query: dict[str, str], kind: type[ApiError], says: str) -> None:
    with pytest.raises(kind, match=says):
        _located(call, MultiDict(query))


def _located(call: str, query: "MultiDict[str]") -> Location | None:
    if call == "log":
        check_log_options(query)
        return log_location(pod(), NODE, query)
    return stream_location(call, pod(), NODE, query)


def test_what_is_not_there() -> None:
    attach = MultiDict({"stdout": "true"})
    with pytest.raises(BadRequest, match=r"choose one of: \[a b\]"):
        stream_location("attach", pod("a", "b"), NODE, attach)
    with pytest.raises(BadRequest, match="does not have a host assigned"):
        stream_location("attach", pod(node=""), NODE, attach)
    with pytest.raises(BadRequest, match="current phase is Failed"):
        stream_location("attach", pod(phase="Failed"), NODE, attach)
    with pytest.raises(NotFound, match='nodes "n1" not found'):
        stream_location("attach", pod(), None, attach)
    with pytest.raises(ServiceUnavailable, match="serves no logs") as lasting:
        stream_location("attach", pod(), {"status": {}}, attach)
    assert not lasting.value.retry_after
