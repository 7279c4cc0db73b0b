"""`nodeplane devices --slices ... --patches ...`: files in, the patched view out."""

import json
from pathlib import Path

import msgspec
import pytest
import yaml

from protocols.dra.versions import flat_requests, wrapped_devices
from protocols.kube.meta import Object
from protocols.process.layout import layout
from protocols.process.settings import save_settings
from supervisor.base.errors import UsageError
from supervisor.base.options import PlaneOptions
from supervisor.base.settings import settings_of
from supervisor.cli.main import main
from supervisor.console.feed.api import Api
from supervisor.console.model.world import World
from supervisor.dra.sources import read_objects

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "patching"
SLICES, PATCHES, CLAIM = (str(EXAMPLES / name) for name in ("slices.yaml", "patches.yaml", "claim.yaml"))


def words(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines()]


def devices(capsys: pytest.CaptureFixture[str], *flags: str, code: int = 0) -> str:
    assert main(["devices", *flags]) == code
    told = capsys.readouterr()
    return told.out or told.err


def test_each_value_says_where_it_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    found = words(devices(capsys, "--slices", SLICES, "--patches", PATCHES, "--patched"))
    assert found[0] == ["DEVICE", "NODE", "KIND", "NAME", "VALUE", "FROM", "PUBLISHED"]
    assert ["attribute", "gpu.example.com/numa", "(removed)", "patch", "firmware", "1"] in found
    assert ["capacity", "gpu.example.com/memory", "40Gi", "patch", "firmware", "80Gi"] in found
    assert found[-4][2:] == ["attribute", "example.com/pool", '"gold"', "patch", "gold", "-"]


def test_the_published_view_knows_no_patches(capsys: pytest.CaptureFixture[str]) -> None:
    found = devices(capsys, "--slices", SLICES, "--patches", PATCHES, "--published")
    assert "patch" not in found
    assert found.count("80Gi") == 3


def test_one_device_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    found = words(devices(capsys, "--slices", SLICES, "--patches", PATCHES, "--explain", "gpu-1"))
    assert found[0][0] == "gpu.example.com/node-1/gpu-1"
    assert ["attribute", "gpu.example.com/model", '"B"', "patch", "firmware", '"A"', "repair"] in found
    full = ["--explain", "gpu.example.com/node-2/gpu-0"]
    told = devices(capsys, "--slices", SLICES, "--patches", PATCHES, *full)
    assert "firmware  10        does not apply  selector #0 is false" in told
    assert "no device is called 'x'" in devices(capsys, "--slices", SLICES, "--explain", "x", code=2)


def test_gates_count_here_too(capsys: pytest.CaptureFixture[str]) -> None:
    off = "DRAAdminControlledDeviceAttributes=false"
    found = devices(capsys, "--slices", SLICES, "--patches", PATCHES, "--feature-gates", off)
    assert "patch repair" in found
    assert "patch firmware" not in found


def test_explanation_names_the_gates_that_are_off(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--slices", SLICES, "--patches", PATCHES, "--explain", "gpu.example.com/node-1/gpu-1"]
    attributes, taints = "DRAAdminControlledDeviceAttributes", "DRADeviceTaints"
    told = devices(capsys, *flags, "--feature-gates", f"{attributes}=false,{taints}=false")
    assert told.splitlines()[-2:] == [
        f"  feature gate {attributes} is off: patches change no attributes and no capacity",
        f"  feature gate {taints} is off: patches and rules add no taints",
    ]
    assert "feature gate" not in devices(capsys, *flags)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("node", ["", "nodes/n2"])
async def test_console_explains_a_device_with_the_gates_of_the_plane(
    enabled: bool, node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live(client: object, *, driver: str) -> list[Object]:
        return read_objects([SLICES, PATCHES])

    monkeypatch.setattr("supervisor.console.feed.api.list_objects", live)
    monkeypatch.setattr(Api, "_started", lambda self: None)
    where = layout(str(tmp_path))
    where.settings.parent.mkdir()
    gates = f"DRAAdminControlledDeviceAttributes={str(enabled).lower()}"
    options = msgspec.convert({"root": str(tmp_path), "node_name": "n1", "feature_gates": gates}, PlaneOptions)
    save_settings(where.settings, settings_of(options, port=6443))
    told = await Api(layout(str(tmp_path / node)), World()).explain("gpu.example.com/node-1/gpu-1")
    assert ('"B"' in told) is enabled


def test_what_a_claim_would_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    told = devices(capsys, "--slices", SLICES, "--patches", PATCHES, "--claim", CLAIM)
    assert told.splitlines() == [
        "default/gold-gpu on node-1: cannot allocate all claims",
        "default/gold-gpu on node-2: gpu = gpu.example.com/node-2/gpu-0",
    ]
    assert "cannot allocate" in devices(capsys, "--slices", SLICES, "--claim", CLAIM, code=1)
    found = json.loads(devices(capsys, "--slices", SLICES, "--patches", PATCHES, "--claim", CLAIM, "-o", "json"))
    assert [each["allocation"] is None for each in found] == [True, False]


@pytest.mark.parametrize(("admin", "fits"), [(False, False), (True, True)])
def test_claim_of_a_live_plane_gets_no_device_that_is_held(
    admin: bool, fits: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = {"driver": "gpu.example.com", "pool": "node-2", "device": "gpu-0", "adminAccess": admin}
    holder = {"kind": "ResourceClaim", "status": {"allocation": {"devices": {"results": [result]}}}}
    asked: list[bool] = []

    def live(path: Path, *, claims: bool) -> list[Object]:
        asked.append(claims)
        return [*read_objects([SLICES, PATCHES]), holder]

    monkeypatch.setattr("supervisor.cli.inspect.dra_devices.read_api", live)
    told = devices(capsys, "--patched", "--claim", CLAIM, "--kubeconfig", "any", code=0 if fits else 1)
    assert ("on node-2: gpu = gpu.example.com/node-2/gpu-0" in told) == fits
    devices(capsys, "--patched", "--kubeconfig", "any")
    assert asked == [True, False], "claims are listed only where they count"


SHARED = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, allowMultipleAllocations: true, capacity: {memory: {value: 16Gi}, slots: {value: "4"}}}
  - {name: gpu-1, capacity: {memory: {value: 16Gi}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: a, namespace: default}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status:
  reservedFor: [{resource: pods, name: p, uid: u}, {resource: pods, name: q, uid: v}]
  allocation:
    devices:
      results:
      - {request: r, driver: gpu.example.com, pool: node-1, device: gpu-0, consumedCapacity: {memory: 6Gi, slots: "1"},
         shareID: 0f9c2a10-7d1e-4c55-8a43-0c6b0f2f4e1d}
"""
WANTED = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: wanted}
spec:
  devices:
    requests:
    - {name: r, exactly: {deviceClassName: gpu, capacity: {requests: {memory: 4Gi, slots: "1"}}}}
"""


def test_shares_show_who_consumes_how_much(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "shared").write_text(SHARED)
    (tmp_path / "wanted").write_text(WANTED)
    monkeypatch.setattr(
        "supervisor.cli.inspect.dra_devices.read_api", lambda path, claims: read_objects([str(tmp_path / "shared")])
    )
    head, *found = words(devices(capsys, "--shares", "--kubeconfig", "any"))
    assert head == ["DEVICE", "NODE", "CAPACITY", "USED", "TOTAL", "CLAIM", "SHARE", "CONSUMES", "PODS"]
    device = ["gpu.example.com/node-1/gpu-0", "node-1"]
    share = ["default/a", "r", "0f9c2a10", "memory", "6Gi,", "slots", "1", "default/p,", "default/q"]
    assert found == [
        [*device, "gpu.example.com/memory", "6Gi", "16Gi", *share],
        ["gpu.example.com/slots", "1", "4"],
    ]
    assert words(devices(capsys, "--shares", "--slices", str(tmp_path / "shared"))) == [head, *found]
    told = devices(capsys, "--claim", str(tmp_path / "wanted"), "--kubeconfig", "any")
    assert told.splitlines() == [
        "default/wanted on node-1: r = gpu.example.com/node-1/gpu-0 (4Gi of gpu.example.com/memory, 10Gi of 16Gi used;"
        " 1 of gpu.example.com/slots, 2 of 4 used)"
    ]
    ((shared,), (placed,)) = (
        json.loads(devices(capsys, *flags, "--kubeconfig", "any", "-o", "json"))
        for flags in (("--shares",), ("--claim", str(tmp_path / "wanted")))
    )
    assert shared["shares"][0]["consumes"] == {"gpu.example.com/memory": "6Gi", "gpu.example.com/slots": "1"}
    assert placed["uses"][shared["device"]][0] == {"name": "gpu.example.com/memory", "used": "10Gi", "total": "16Gi"}
    assert "no driver has published" in devices(capsys, "--shares", "--slices", SLICES)


def test_without_consumable_capacity_devices_are_given_whole(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "shared").write_text(SHARED)
    (tmp_path / "wanted").write_text(WANTED)
    plain = WANTED.replace(', capacity: {requests: {memory: 4Gi, slots: "1"}}', "").replace("wanted", "plain")
    (tmp_path / "plain").write_text(plain)
    slices = tmp_path / "slices"
    slices.write_text(SHARED.partition("kind: ResourceClaim")[0].rpartition("---")[0])
    off = ("--slices", str(slices), "--feature-gates", "DRAConsumableCapacity=false")
    assert "no driver has published" in devices(capsys, "--shares", *off)
    told = devices(capsys, "--claim", str(tmp_path / "wanted"), *off, code=1)
    assert "has capacity requests, but the DRAConsumableCapacity feature is disabled" in told
    found = devices(capsys, "--claim", str(tmp_path / "plain"), *off)
    assert found == "default/plain on node-1: r = gpu.example.com/node-1/gpu-0\n"


FAULTY = """
kind: ResourceSlicePatch
apiVersion: resource.k8s.io/v1alpha3
metadata: {name: bad}
spec:
  devices:
    filter: {selectors: [{cel: {expression: 'device.attributes["example.com"].nope == 1'}}]}
    attributes: {example.com/x: {int: 1}}
"""


def test_faulty_selectors_are_reported_once_for_all_devices(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(FAULTY)
    assert main(["devices", "--slices", SLICES, "--patches", str(tmp_path / "bad.yaml")]) == 0
    assert capsys.readouterr().err == (
        "patch bad: CELRuntimeError: selector #0: runtime error: no such key: nope: "
        "device gpu.example.com/node-1/gpu-0 (and 2 more devices)\n"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is no YAML"),
        ("- a", "is no object"),
        ("kind: Pod", "Pod is not read here"),
        ("kind: ResourceSlice\napiVersion: resource.k8s.io/v1alpha2", "v1alpha2 is not read from files"),
        ("kind: ResourceSlice\nmetadata: []", "is no map"),
    ],
)
def test_bad_files(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    assert says in devices(capsys, "--slices", str(tmp_path / "bad.yaml"), code=2)
    assert "cannot read" in devices(capsys, "--slices", str(tmp_path / "none.yaml"), code=2)


YAMLISH = """
kind: ResourceSlicePatch
apiVersion: resource.k8s.io/v1alpha3
metadata: {name: bad, creationTimestamp: 2026-01-01T00:00:00Z}
spec:
  devices:
    attributes: {gpu.example.com/numa: {"null": {}}}
    taints: [{key: k, effect: None, timeAdded: 2026-01-01T00:00:00Z}]
"""


def test_times_without_quotes_are_texts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(YAMLISH)
    found = devices(capsys, "--slices", SLICES, "--patches", str(tmp_path / "one.yaml"))
    assert found.count("2026-01-01T00:00:00Z") == found.count("(removed)") == 3


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"null"', "null", "is no YAML: line 7: a key must be text"),
        ('{"null": {}}', '{int: 1, "null": {}}', "exactly one value must be specified"),
        ("gpu.example.com/numa", "numa", "ResourceSlicePatch bad: spec.devices.attributes[numa]: "),
        ("effect: None", "effect: 7", "ResourceSlicePatch bad: "),
        ("effect: None", "effect: Never", 'spec.devices.taints[0].effect: Unsupported value: "Never"'),
        (", effect: None", "", "spec.devices.taints[0].effect: Required value"),
    ],
)
def test_a_patch_that_an_api_refuses_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, old: str, new: str, why: str
) -> None:
    assert old in YAMLISH
    (tmp_path / "one.yaml").write_text(YAMLISH.replace(old, new))
    assert why in devices(capsys, "--slices", SLICES, "--patches", str(tmp_path / "one.yaml"), code=2)


@pytest.mark.parametrize(
    "spec",
    [
        "{driver: 7}",
        "{driver: d, nodeName: [n], pool: {name: p}}",
        "{driver: d, pool: {name: p}, devices: [{name: x, taints: [{key: k, value: {}, effect: [NoSchedule]}]}]}",
    ],
)
def test_a_slice_that_cannot_be_read_is_left_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, spec: str
) -> None:
    (tmp_path / "odd.yaml").write_text(f"kind: ResourceSlice\napiVersion: resource.k8s.io/v1\nspec: {spec}")
    assert main(["devices", "--slices", SLICES, "--slices", str(tmp_path / "odd.yaml")]) == 0
    told = capsys.readouterr()
    assert "cannot be read" in told.err
    assert "gpu-0" in told.out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: Pod", "--claim takes ResourceClaim and ResourceClaimTemplate, not Pod"),
        ("kind: ResourceClaim\nspec: {devices: {requests: [null, 7]}}", "ResourceClaim unnamed-0: json: cannot unm"),
        ("kind: ResourceClaimTemplate\nspec: {spec: [a]}", "ResourceClaimTemplate unnamed-0: json: cannot unmarshal"),
    ],
)
def test_claim_with_a_wrong_type_names_the_field(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "claim.yaml").write_text(text)
    assert says in devices(capsys, "--slices", SLICES, "--claim", str(tmp_path / "claim.yaml"), code=2)


def test_older_versions_say_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Class, slices and claim as v1beta1 has them."""
    slices = [wrapped_devices(obj) for obj in yaml.safe_load_all(Path(SLICES).read_text())]
    claim = flat_requests(yaml.safe_load(Path(CLAIM).read_text()))
    assert "basic" in slices[1]["spec"]["devices"][0]
    assert "exactly" not in claim["spec"]["devices"]["requests"][0]
    old = [{**obj, "apiVersion": "resource.k8s.io/v1beta1"} for obj in (*slices, claim)]
    files = [str(tmp_path / name) for name in ("slices.yaml", "claim.yaml")]
    Path(files[0]).write_text(yaml.safe_dump_all(old[:-1]))
    Path(files[1]).write_text(yaml.safe_dump(old[-1]))
    for flags in (("--patched",), ()):
        new, known = (
            devices(capsys, "--slices", slices, "--patches", PATCHES, *(flags or ("--claim", claim)))
            for slices, claim in (files, (SLICES, CLAIM))
        )
        assert new == known


def test_list_with_something_that_is_no_object_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text("kind: List\napiVersion: v1\nitems: [7]\n")
    with pytest.raises(UsageError, match="no object: '7'"):
        read_objects([str(path)])


def test_unquoted_date_is_a_string_as_kubectl_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "slice.yaml"
    path.write_text("kind: Other\nvalue: 2026-11-30\n")
    assert read_objects([str(path)])[0]["value"] == "2026-11-30"


def test_published_view_names_the_node_of_each_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
    spec = {
        "driver": "gpu.example.com",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "perDeviceNodeSelection": True,
        "devices": [
            {"name": "a", "nodeName": "node-a"},
            {"name": "b", "allNodes": True},
            {"name": "c", "nodeSelector": selector},
        ],
    }
    path = tmp_path / "slices.json"
    path.write_text(
        json.dumps(
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
        )
    )
    found = words(devices(capsys, "--slices", str(path), "--published"))
    assert [row[1] for row in found[1:]] == ["node-a", "*", "(selector)"]
