"""Flags to settings: every wrong one is named in one line before anything starts."""

from pathlib import Path

import pytest

from actors.apiserver.table import TABLE, served
from protocols.errors import SettingsInvalid
from protocols.process.settings import PodResourcesSettings
from supervisor.base.errors import UsageError
from supervisor.base.options import FLAGS, PlaneOptions, layout_of
from supervisor.base.settings import settings_of
from supervisor.cli import reference
from supervisor.cli.flags import Parser, add_plane_flags, plane_options
from supervisor.cli.reference import with_tables


def parse(*words: str, **environment: str) -> PlaneOptions:
    parser = Parser(prog="np")
    add_plane_flags(parser)
    return plane_options(parser.parse_args(words), environment)


def test_settings_without_flags_have_defaults() -> None:
    settings = settings_of(PlaneOptions(root="/r", node_name="n1"), 7000)
    assert settings.api_url == "https://127.0.0.1:7000"
    assert settings.store_endpoints == ("unix:/r/run/store.sock",)
    assert settings.store_embedded
    assert settings.runtime_endpoint == "unix:///r/runtime/runtime.sock"
    assert settings.kubelet_dir == "/r/kubelet"
    assert settings.metrics_port == 10255


def test_verbose_is_log_level_debug() -> None:
    assert parse("-v", NODEPLANE_LOG_LEVEL="error").log_level == "debug"
    assert parse("-v", "--log-level=warning").log_level == "warning", "the last one counts"


def test_misspelt_variable_is_named_and_one_of_somebody_else_is_not() -> None:
    others = {
        "NODEPLANE_POD_RESOURCES": "x",
        "NODEPLANE_SERVICE_PORT": "1",
        "NODEPLANE_METRICS_URL": "x",
        "PLEG_MOD": "x",
    }
    assert parse(**others) == PlaneOptions()
    with pytest.raises(UsageError, match=r"NODEPLANE_PLEG_MOD stands for no flag; did you mean NODEPLANE_PLEG_MODE\?"):
        parse(NODEPLANE_PLEG_MOD="generic")


def test_settings_bind_address_and_names_are_kept() -> None:
    given = ("--root=/r", "--node-name=n1", "--bind-address")
    settings = settings_of(parse(*given, "10.0.0.1", "--api-names=api.example.com,10.9.9.9"), 7000)
    assert (settings.bind_address, settings.api_url) == ("10.0.0.1", "https://10.0.0.1:7000")
    assert settings.api_names == ("10.0.0.1", "api.example.com", "10.9.9.9")
    assert settings.advertise_address == "10.0.0.1"
    everywhere = settings_of(parse(*given, "0.0.0.0", "--advertise-address=192.0.2.7"), 7000)
    assert (everywhere.api_url, everywhere.api_names) == ("https://127.0.0.1:7000", ("192.0.2.7",))
    own = settings_of(parse(*given, "0.0.0.0"), 7000).advertise_address
    assert own != "0.0.0.0", "the machine's own one"
    assert settings_of(parse(*given, "::"), 7000).api_url == "https://[::1]:7000"
    assert settings_of(parse(*given, "fd00::1"), 7000).api_url == "https://[fd00::1]:7000"


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--service-cluster-ip-range=10.96.0.0/30", "has 4 addresses; use 8 or more"),
        ("--service-cluster-ip-range=10.96.0.1/24", "has host bits set; write it like 10.96.0.0/16"),
        ("--service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24", "an IPv4 and an IPv6 one"),
        ("--disable-admission-plugins=NodeRestriction", "cannot be disabled; use ServiceAccount"),
        ("--advertise-address=0.0.0.0", "no address of one machine"),
    ],
)
def test_settings_of_services_and_admission_invalid_are_refused(flag: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        settings_of(parse("--root=/r", "--node-name=n1", flag), 7000)


def test_settings_api_names_reserved_are_refused() -> None:
    with pytest.raises(UsageError, match="a name that nodes serve by"):
        settings_of(parse("--root=/r", "--node-name=n1", "--api-names=n2.nodes.nodeplane.internal"), 7000)


def test_settings_external_store_and_runtime_are_used() -> None:
    options = parse("--root=/r", "--node-name=n1", "--store=etcd://a:2379,b:2379", "--runtime=unix:///run/c.sock")
    settings = settings_of(options, 1)
    assert settings.store_endpoints == ("a:2379", "b:2379")
    assert not settings.store_embedded
    assert settings.runtime_endpoint == "unix:///run/c.sock"
    assert not settings.runtime_embedded


def test_options_environment_fills_missing_flags() -> None:
    options = parse("--port", "1", NODEPLANE_PORT="2", NODEPLANE_ROOT="/e", NODEPLANE_STORE="etcd://h:1")
    assert (options.port, options.root, options.store) == (1, "/e", ("etcd://h:1",))


def test_settings_pod_resources_flags_are_kept() -> None:
    flags = ("--pod-resources-qps=0", "--pod-resources-socket-mode=660", "--pod-resources-socket-group=root")
    made = settings_of(parse("--root=/r", "--node-name=n", *flags, "--pod-resources-health-address=[::]:9"), 1)
    assert made.pod_resources == PodResourcesSettings(
        qps=0, socket_mode=0o660, socket_group="0", health_address="[::]:9"
    )


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("", ""),
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://h/", "https://h/v1/traces"),
        ("http://h/otlp/v1/traces", "http://h/otlp/v1/traces"),
    ],
)
def test_settings_otlp_without_a_path_gets_the_standard_one(given: str, url: str) -> None:
    assert settings_of(parse("--root=/r", "--node-name=n", f"--otlp={given}"), 1).otlp == url


def test_settings_feature_gates_are_read() -> None:
    options = parse("--root=/r", "--node-name=n", "--feature-gates", "EventedPLEG=false,DRADeviceTaints=true")
    assert settings_of(options, 1).feature_gates == {"EventedPLEG": False, "DRADeviceTaints": True}


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--feature-gates=Nope=true", "no feature gate is called 'Nope'"),
        ("--feature-gates=EventedPLEG=maybe", "true or false"),
        ("--store=postgres://x", "is no store"),
        ("--store=etcd://nohost", "no HOST:PORT"),
        ("--store=nothing=etcd://h:1", "no resource is called"),
        ("--bind-address=localhost", "no IP address"),
        ("--api-names=a_b", "no DNS name or IP address"),
        ("--runtime=docker", "is no runtime"),
        ("--node-name=UPPER", "no DNS name"),
        ("--metrics-port=70000", "is no port"),
        ("--otlp=localhost:4318", "is no URL of a receiver"),
        ("--otlp=http://h:99999", "is no URL of a receiver"),
        ("--otlp=http://[::1", "is no URL of a receiver"),
        ("--otlp=grpc://h:4317", "is no URL of a receiver"),
        ("--store-sync=off", "none of full, normal"),
        ("--container-log-max-size=big", "is no size"),
        ("--container-log-max-size=0", "is no size"),
        ("--container-log-max-files=1", "too few"),
        ("--max-pods=0", "too few"),
        ("--allowed-unsafe-sysctls=kernel.sem,vm.swappiness", "'vm.swappiness' is no sysctl of a namespace"),
        ("--runtime-config=resource.k8s.io/v1=false", "is not NAME=true or NAME=false"),
        ("--runtime-config=resource.k8s.io/v1alpha3=off", "is not NAME=true or NAME=false"),
        ("--scheduler-seed=-1", "too few"),
        ("--log-level=loud", "none of debug"),
        ("--metrics-address=nowhere", "--metrics-address 'nowhere' is no IP address"),
        ("--pod-resources-qps=-1", "too few"),
        ("--pod-resources-socket-mode=rw", "is no mode"),
        ("--pod-resources-socket-group=no-such-group", "no group of this machine"),
        ("--pod-resources-health-address=9356", "is no IP:PORT"),
        ("--pod-resources-health-address=localhost:9356", "is no IP address"),
    ],
)
def test_settings_bad_value_names_flag(flag: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        settings_of(parse("--root=/r", flag), 1)
    assert "\n" not in str(caught.value)


def test_options_environment_no_number_is_refused() -> None:
    with pytest.raises(UsageError, match="NODEPLANE_PORT='x' is no number"):
        parse(NODEPLANE_PORT="x")


def test_parser_unknown_flag_exits_2_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse("--prot", "1")
    assert caught.value.code == 2
    assert capsys.readouterr().err == "np: unrecognized arguments: --prot 1; see np --help\n"


def test_layout_root_too_long_is_refused() -> None:
    with pytest.raises(SettingsInvalid, match="use a shorter --root"):
        layout_of(PlaneOptions(root="/" + "x" * 100))


def test_layout_relative_root_becomes_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/tmp")
    assert layout_of(PlaneOptions(root="np")).root == Path("/tmp/np")


def test_reference_page_has_the_flags_as_declared() -> None:
    page = reference.PAGE.read_text()
    assert with_tables(page) == page, "write it with `make docs`"
    assert all(f"| `{flag.option} " in page for flag in FLAGS.values())


def test_help_states_no_default_by_hand() -> None:
    assert [flag.option for flag in FLAGS.values() if "default" in flag.help or "{}" in flag.help] == []


def test_settings_runtime_config_last_mention_counts() -> None:
    text = "resource.k8s.io/v1alpha3=false,resource.k8s.io/v1beta1=false,resource.k8s.io/v1beta1=true"
    settings = settings_of(parse("--root=/r", f"--runtime-config={text}", "--scheduler-seed=7"), 1)
    assert settings.disabled_versions == ("resource.k8s.io/v1alpha3",)
    assert settings.scheduler_seed == 7


def test_api_without_alpha_serves_the_other_versions_of_its_kinds() -> None:
    rows = served(("resource.k8s.io/v1alpha3",))
    assert {row.version for row in rows if row.group == "resource.k8s.io"} == {"v1", "v1beta1", "v1beta2"}
    assert not any(row.plural == "resourceslicepatches" for row in rows)
    assert [row.version for row in rows if row.plural == "devicetaintrules"] == ["v1beta2"]
    assert served(()) == TABLE.built_in
