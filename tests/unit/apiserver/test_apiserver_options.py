"""Options, forms, selectors, tokens and targets: what a request says, read without a server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.api.encoding.negotiate import Form, check_form, negotiate, wants_aggregated
from actors.apiserver.api.errors import BadRequest, Invalid, MethodNotAllowed, NotAcceptable, NotFound, NotThisView
from actors.apiserver.api.request.query import integer, list_options, write_options
from actors.apiserver.api.request.selection import selection
from actors.apiserver.api.request.target import parse_target
from actors.apiserver.api.stored import Stored
from actors.apiserver.reads.reader import decode_token, encode_token
from actors.apiserver.table import TABLE

PODS = TABLE.of("pods")


@pytest.mark.parametrize(
    ("query", "fault", "text"),
    [
        ({"resourceVersionMatch": "Exact"}, Invalid, "forbidden unless resourceVersion is provided"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, Invalid, 'forbidden for resourceVersion "0"'),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "1", "continue": "x"}, Invalid, "when continue"),
        ({"resourceVersionMatch": "Close", "resourceVersion": "1"}, Invalid, "Unsupported value"),
        ({"resourceVersion": "5", "continue": "x"}, BadRequest, "not allowed when using continue"),
        ({"sendInitialEvents": "false"}, Invalid, "forbidden for list"),
        ({"watch": "1", "sendInitialEvents": "true"}, Invalid, "NotOlderThan"),
        ({"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "Exact"}, Invalid, "Unsupported value"),
        ({"watch": "1", "resourceVersionMatch": "NotOlderThan"}, Invalid, "forbidden for watch"),
        ({"resourceVersion": "1e3"}, BadRequest, 'strconv.ParseUint: parsing "1e3": invalid syntax'),
        ({"resourceVersion": "9" * 5000}, BadRequest, "value out of range"),
        ({"timeoutSeconds": "1.5"}, BadRequest, 'strconv.ParseInt: parsing "1.5": invalid syntax'),
        ({"timeoutSeconds": ""}, BadRequest, 'strconv.ParseInt: parsing "": invalid syntax'),
        ({"limit": ""}, BadRequest, 'strconv.ParseInt: parsing "": invalid syntax'),
    ],
)
def test_option_faults(query: dict[str, str], fault: type[Exception], text: str) -> None:
    with pytest.raises(fault, match=text):
        list_options(query)


def test_option_values() -> None:
    options = list_options({"watch": "", "resourceVersion": "0", "limit": "-3", "allowWatchBookmarks": "true"})
    assert (options.watch, options.version, options.limit, options.bookmarks) == (True, 0, 0, True)
    assert list_options({"watch": "false"}).watch is False
    assert write_options({}, [], "kubectl/v1 (linux)").agent == "kubectl"
    with pytest.raises(Invalid, match="dryRun"):
        write_options({}, ["Some"], "")


@given(st.dictionaries(st.sampled_from(["watch", "limit", "resourceVersion", "resourceVersionMatch", "continue",
       "sendInitialEvents", "timeoutSeconds", "allowWatchBookmarks"]), st.text(max_size=12)))  # fmt: skip
def test_no_query_breaks_the_reader(query: dict[str, str]) -> None:
    try:
        list_options(query)
    except (BadRequest, Invalid):
        return


def test_forms() -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    assert (negotiate(table).view, negotiate(table, "Object").include) == ("Table", "Object")
    assert negotiate("application/json", "Half") == negotiate("application/json")
    with pytest.raises(BadRequest, match='Table as requested: includeObject: Invalid value: "Half": must be'):
        negotiate(table, "Half")
    assert negotiate("application/json, " + table).view == ""
    assert negotiate("application/vnd.kubernetes.protobuf,application/json").view == ""
    assert not negotiate("application/vnd.kubernetes.protobuf, */*").protobuf
    assert negotiate("application/vnd.kubernetes.protobuf").protobuf
    assert negotiate("").view == ""
    metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    assert negotiate(metadata).view == "PartialObjectMetadata"
    assert negotiate("application/yaml").yaml
    assert negotiate("application/yaml;as=Table;v=v1;g=meta.k8s.io") == Form(view="Table", yaml=True)
    assert negotiate(metadata.replace("json", "vnd.kubernetes.protobuf")).protobuf
    with pytest.raises(NotAcceptable):
        negotiate("text/html")
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert wants_aggregated(f"{aggregated},application/json")
    assert not wants_aggregated(f"application/json,{aggregated}")


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("application/json;q=0.5,application/yaml", Form(yaml=True)),
        ("application/json;q=0,application/yaml", Form(yaml=True)),
        ("*/*,application/yaml", Form(yaml=True)),
        ("application/json;q=nope,application/yaml", Form()),
        ("application/vnd.kubernetes.protobuf,application/json;q=0.1", Form()),
        ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,text/yaml", Form(yaml=True)),
    ],
)
def test_negotiate_several_types_takes_the_preferred(accept: str, form: Form) -> None:
    assert negotiate(accept) == form


def test_check_form_metadata_of_one_for_a_list_is_not_acceptable() -> None:
    one, many = (
        negotiate(f"application/json;as=PartialObjectMetadata{end};g=meta.k8s.io;v=v1") for end in ("", "List")
    )
    with pytest.raises(NotThisView, match=r"the requested object is a list \(\*core\.PodList\)"):
        check_form(one, PODS, "list")
    with pytest.raises(NotThisView, match=r"the requested object is not a list \(\*resource\.ResourceSlice\)"):
        check_form(many, TABLE.of("resourceslices"), "get")
    assert check_form(one, PODS, "watch") == check_form(one, PODS, "get") == one
    assert check_form(many, PODS, "list") == many
    metadata = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
    others = [negotiate(metadata.format(end), "None") for end in ("", "List")]
    assert {check_form(other, PODS, "watch") for other in others} == {one}, "such watches share the encoding of events"


@given(st.integers(1, 2**62), st.text(min_size=1, max_size=40).filter(lambda key: not key.startswith("/")))
def test_tokens_come_back(rv: int, start: str) -> None:
    if {".", ".."} & set(start.split("/")):
        with pytest.raises(BadRequest):
            decode_token(encode_token(rv, start))
        return
    token = decode_token(encode_token(rv, start))
    assert (token.rv, token.start) == (rv, start)


@given(st.text(max_size=60))
def test_no_text_breaks_the_token_reader(text: str) -> None:
    with pytest.raises(BadRequest, match="invalid continue token"):
        decode_token(text)


def test_field_selectors() -> None:
    raw = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n"},"spec":{"nodeName":"n1"}}'
    pod = Stored("n/a", 1, raw)
    for text, wanted in (
        ("spec.nodeName=n1", True),
        ("spec.nodeName!=n1", False),
        ("metadata.name==a,spec.nodeName=n1", True),
        ("status.phase=", True),
        ("spec.hostNetwork=false", True),
        ("status.podIPs=10.0.0.1", False),
    ):
        assert selection(PODS, "", text).matches(pod) is wanted
    assert selection(PODS, "", "spec.nodeName=n1") is selection(PODS, "", "spec.nodeName=n1")


@pytest.mark.parametrize(
    ("plural", "text"),
    [
        ("pods", "field label not supported: a"),
        ("nodes", "field label not supported: a"),
        ("resourceslices", "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: a"),
        ("jobs", 'field label "a" not supported for batchv1.Job'),
        ("replicasets", '"a" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ],
)
def test_unknown_field_is_named_as_upstream_names_it(plural: str, text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        selection(TABLE.of(plural), "", "a=b")
    assert refused.value.status["message"] == text


def test_namespace_of_cluster_scoped_objects_can_be_selected_where_upstream_knows_no_other_fields() -> None:
    role = Stored("a", 1, b'{"kind":"ClusterRole","apiVersion":"v1","metadata":{"name":"a"}}')
    row = TABLE.of("clusterroles")
    assert [selection(row, "", f"metadata.namespace={name}").matches(role) for name in ("", "ns")] == [True, False]
    with pytest.raises(BadRequest):
        selection(TABLE.of("nodes"), "", "metadata.namespace=ns")


def test_targets() -> None:
    target = parse_target(TABLE, "GET", "/api/v1/namespaces/ns/pods/a/status")
    assert target is not None
    assert (target.verb, target.key, target.subresource) == ("get", "ns/a", "status")
    own = parse_target(TABLE, "PUT", "/api/v1/namespaces/ns/finalize")
    assert own is not None
    assert (own.resource.plural, own.key, own.subresource) == ("namespaces", "ns", "finalize")
    everywhere = parse_target(TABLE, "GET", "/apis/resource.k8s.io/v1/resourceclaims")
    assert everywhere is not None
    assert (everywhere.verb, everywhere.key) == ("list", "")
    assert parse_target(TABLE, "GET", "/version") is None
    for method, path, fault in (
        ("GET", "/api/v1/namespaces/ns/pods/a/colour", NotFound),
        ("GET", "/api/v1/pods/a", NotFound),
        ("GET", "/api/v1/namespaces/ns/pods/a%2Fb", BadRequest),
        ("GET", "/api/v1/namespaces/ns/pods/..", BadRequest),
        ("GET", "/api/v2/pods", NotFound),
        ("DELETE", "/api/v1/namespaces/ns/pods/a/binding", MethodNotAllowed),
        ("TRACE", "/api/v1/pods", MethodNotAllowed),
    ):
        with pytest.raises(fault):
            parse_target(TABLE, method, path)


def test_numbers_of_thousands_of_zeros_are_read() -> None:
    zeros = "0" * 6000
    options = list_options({"limit": f"{zeros}7", "resourceVersion": f"{zeros}12", "timeoutSeconds": zeros})
    assert (options.limit, options.version, options.timeout) == (7, 12, 0)
    with pytest.raises(BadRequest, match="out of range"):
        list_options({"limit": "9" * 6000})


@pytest.mark.parametrize(
    ("text", "value"), [("-0", 0), ("+5", 5), ("-007", -7), (str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63))]
)
def test_integer(text: str, value: int) -> None:
    assert integer(text) == value


@pytest.mark.parametrize("text", [str(2**63), str(-(2**63) - 1)])
def test_integer_out_of_range(text: str) -> None:
    with pytest.raises(BadRequest, match="out of range"):
        integer(text)
