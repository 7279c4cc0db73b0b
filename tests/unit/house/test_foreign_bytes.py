"""Every place that decodes bytes, with who wrote them and what bounds them: a new one without an entry fails here.

JSON whose fields are not declared is read by protocols.kube.jsons, YAML by protocols.kube.yaml_text.
"""

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

from tests.support.product import ROOT, product_modules

JSON = ("loads", "read_json", "read_json_object", "decode_body", "decode_json", "decode_object", "literal_eval")
YAML = ("safe_load", "safe_load_all", "load_all", "full_load", "unsafe_load", "read_yaml", "read_documents")
PROTOBUF = ("FromString", "ParseFromString", "MergeFromString", "Parse", "ParseDict", "decode_protobuf")
NAMES = frozenset((*JSON, *YAML, *PROTOBUF, "unpackb", "Unpacker", "fromstring", "decompress", "decompressobj"))
"""Functions that decode, by their last name."""
WHOLE = ("json.load", "yaml.load", "pickle.load", "marshal.load", "tomllib.load", "plistlib.load")
READERS = ("protocols/kube/jsons.py", "protocols/kube/yaml_text.py")


LAST = NAMES | {name.rpartition(".")[2] for name in WHOLE} | {"decode", "Decoder", "convert"}
"""Last names of what may decode; only these are looked at closely."""
MENTIONED = re.compile(rf"\b(?:{'|'.join(LAST)})\b")
"""Found in the text of each module that decodes; only these are parsed."""


def calls_of(tree: ast.AST) -> list[str]:
    """Return what decodes in a module: calls, and references that are called elsewhere."""
    return [name for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name) and (name := _decoder(node))]


def _decoder(node: ast.Attribute | ast.Name) -> str:
    if isinstance(node.ctx, ast.Store) or (node.attr if isinstance(node, ast.Attribute) else node.id) not in LAST:
        return ""
    text = ast.unparse(node)
    last = text.rpartition(".")[2]
    library = text.startswith("msgspec.") and "(" not in text and last in ("decode", "Decoder", "convert")
    local = isinstance(node, ast.Name) and last == "loads"
    return text if (last in NAMES and not local) or text in WHOLE or library else ""


def sources() -> list[Path]:
    """Return our modules without what protoc made."""
    return [path for path in product_modules() if not path.name.endswith("_pb2.py")]


@functools.cache
def found() -> dict[str, list[str]]:
    """Return what decodes by path. Not at import, which each worker of the tests does."""
    texts = ((str(path.relative_to(ROOT)), path.read_text()) for path in sources())
    parsed = ((path, ast.parse(text)) for path, text in texts if MENTIONED.search(text))
    return {path: calls for path, tree in parsed if (calls := calls_of(tree))}


class Entry(NamedTuple):
    calls: int
    peer: str
    """Who wrote the bytes; OWN for those of our own process, which nobody else can write."""
    bound: str
    """What bounds the bytes, or the cost of reading them."""


OWN = "own"
ROOT_FILE = "our own file, mode 0600 below the root"
RUNTIME = "the container runtime, by messages of the CRI actor"
MESSAGE = "16 MiB of a message; protobuf is linear"
BODY = "3 MiB of a body, also after decompression"
OBJECT = "1.5 MiB of a value"

TABLE: dict[str, Entry] = {
    "actors/adopt/pod_identity.py": Entry(2, RUNTIME, MESSAGE),
    "actors/adopt/published_state.py": Entry(1, ROOT_FILE, "64 MiB, sealed, declared fields"),
    "actors/apiserver/api/encoding/decode.py": Entry(6, "clients", f"{BODY}; 200 levels; long ones in a thread"),
    "actors/apiserver/api/stored.py": Entry(7, "the store, which others may share", OBJECT),
    "actors/apiserver/http/authentication/signing.py": Entry(1, "bearers of tokens", "LONGEST_TOKEN, signed by us"),
    "actors/apiserver/http/connection/requests.py": Entry(3, "clients", BODY),
    "protocols/kinds/openapi/v2.py": Entry(1, OWN, "documents that this process made"),
    "actors/apiserver/http/endpoints/subresources.py": Entry(1, "clients", BODY),
    "actors/apiserver/http/endpoints/writing.py": Entry(1, "clients", BODY),
    "actors/apiserver/http/nodes/dialing.py": Entry(1, "a node", "64 KiB, no deeper than the reader"),
    "actors/apiserver/http/nodes/usage.py": Entry(1, "a node", "4 MiB, declared fields, long ones in a thread"),
    "actors/apiserver/http/telemetry/shutdown_bookmarks.py": Entry(1, ROOT_FILE, "MOST_BYTES, declared fields"),
    "actors/apiserver/reads/reader.py": Entry(1, "clients: continue tokens", "the URL, 64 KiB; declared fields"),
    "actors/apiserver/storage/storage.py": Entry(1, "the store, which others may share", OBJECT),
    "actors/apiserver/writes/admission/policies/evaluation.py": Entry(
        1, "the CEL worker, by expressions of users", "a message of the worker"
    ),
    "actors/apiserver/writes/admission/policies/webhook.py": Entry(
        2, "webhooks", "3 MiB, declared fields, in a thread; patches as bodies"
    ),
    "actors/apiserver/writes/owners.py": Entry(1, "the store: last applied state in an annotation", OBJECT),
    "actors/apiserver/writes/ownership/entries.py": Entry(1, "clients: managedFields", BODY),
    "actors/apiserver/writes/ownership/fields.py": Entry(1, "clients: managedFields", BODY),
    "actors/apiserver/writes/patch.py": Entry(1, "clients", BODY),
    "protocols/kinds/patches/json_patch.py": Entry(1, OWN, "a copy of an object, encoded before"),
    "actors/apiserver/writes/validation.py": Entry(3, "clients", f"{BODY}; numbers are skipped"),
    "actors/controllers/lifecycle/pod_gc.py": Entry(1, OWN, "tolerations encoded before"),
    "actors/controllers/services/endpoints.py": Entry(1, OWN, "ports encoded before"),
    "actors/cri/fault_injection.py": Entry(2, "the container runtime", MESSAGE),
    "actors/cri/runtime_status.py": Entry(1, "the container runtime", MESSAGE),
    "actors/devices/admission/grants.py": Entry(1, "device plugins, by kubelet's checkpoint", "64 MiB of the file"),
    "actors/devices/calls/ring.py": Entry(2, OWN, "records encoded before"),
    "actors/devices/cpu/state_file.py": Entry(1, "kubelet before us", "64 MiB, declared fields, checksum"),
    "actors/devices/dra/claim_checkpoint.py": Entry(2, "kubelet before us", "64 MiB, declared fields, checksum"),
    "actors/devices/dra/health_file.py": Entry(1, "kubelet before us", "64 MiB, declared fields"),
    "actors/devices/ledger/kubelet_checkpoint.py": Entry(2, "kubelet before us", "64 MiB, declared fields, checksum"),
    "actors/devices/ledger/state.py": Entry(1, ROOT_FILE, "64 MiB, declared fields, sealed"),
    "actors/devices/memory/state_file.py": Entry(1, "kubelet before us", "64 MiB, declared fields, checksum"),
    "actors/fleet/profiles/record.py": Entry(1, "an API server", "what its client has read; declared fields"),
    "actors/devices/plugins/plugin.py": Entry(1, "device plugins", MESSAGE),
    "actors/fleet/faults/control.py": Entry(1, "a fleet of the same user", "1 MiB of a line, declared fields"),
    "actors/fleet/simulated/pod.py": Entry(2, "what we encoded of an answer of the API", "as the answer"),
    "actors/frontdoor/pods_api.py": Entry(1, "the API server, by messages of the pod worker", OBJECT),
    "actors/frontdoor/serving/server.py": Entry(1, "clients of pod resources", "64 KiB of a message"),
    "actors/pleg/actor.py": Entry(1, RUNTIME, MESSAGE),
    "actors/pleg/shell/runtime_client.py": Entry(1, RUNTIME, MESSAGE),
    "actors/podworker/clients/runtime.py": Entry(1, RUNTIME, MESSAGE),
    "actors/podworker/pods/containers/images.py": Entry(1, "secrets of users", f"{OBJECT}; in a thread"),
    "actors/podworker/pods/containers/pull_records.py": Entry(1, ROOT_FILE, "2048 images; declared fields"),
    "actors/podworker/pods/manifests.py": Entry(2, "static pod manifests", "10 MiB, in a thread; aliases 1 MiB"),
    "protocols/lifecycle/status/device_health.py": Entry(1, OWN, "entries encoded before"),
    "protocols/lifecycle/pods/admission.py": Entry(1, "annotations of pods", "256 KiB, declared fields"),
    "actors/recorder/streams.py": Entry(2, "the store, by messages of the watch cache", OBJECT),
    "actors/runtime/backends/holders.py": Entry(1, OWN, "a message of our holder process, declared fields"),
    "actors/runtime/backends/shim_connection.py": Entry(3, "our shims", "64 MiB of a file, declared fields"),
    "actors/runtime/images/archive.py": Entry(2, "image archives", "budget.bounds.metadata; in a process of the CLI"),
    "actors/runtime/images/store.py": Entry(1, ROOT_FILE, "declared fields"),
    "actors/runtime/operations/adoption.py": Entry(2, ROOT_FILE, "records of our own"),
    "actors/runtime/operations/cdi_devices.py": Entry(3, "CDI files of drivers", "4 MiB, in a thread; aliases 1 MiB"),
    "actors/runtime/operations/containers.py": Entry(1, ROOT_FILE, "records of our own"),
    "actors/runtime/operations/host_paths.py": Entry(1, ROOT_FILE, "declared fields"),
    "actors/runtime/rpc/dispatch.py": Entry(1, "clients of the embedded runtime", MESSAGE),
    "actors/runtime/rpc/runtime_service.py": Entry(1, OWN, "a field encoded before"),
    "actors/runtime/shim/channel.py": Entry(2, "the runtime, on the shim's socket", "one message; file of our own"),
    "actors/runtime/spec/oci.py": Entry(1, ROOT_FILE, "specs of our own"),
    "actors/runtime/state/directory.py": Entry(1, ROOT_FILE, "64 MiB, declared fields"),
    "actors/runtime/state/journal.py": Entry(1, ROOT_FILE, "declared fields"),
    "protocols/kubeclient/kubeconfig.py": Entry(1, "kubeconfigs of users", "64 MiB, no aliases, 200 levels"),
    "protocols/process/scripts.py": Entry(2, "scripts of users", "1 MiB; aliases 1 MiB"),
    "actors/store/server/grpc_server.py": Entry(3, "clients of etcd's API", MESSAGE),
    "actors/store/server/private_endpoint.py": Entry(1, "the plane's own processes", "16 MiB of a frame"),
    "actors/watchcache/cache/store_state.py": Entry(1, "the store, which others may share", OBJECT),
    "protocols/bus/frames.py": Entry(5, "actors of this root", "declared fields; counted and dropped if wrong"),
    "protocols/cel/worker/evaluator.py": Entry(1, "the process that asks the worker", "a frame, declared fields"),
    "protocols/cel/worker/messages.py": Entry(
        4, "the CEL worker and who asks it", "the frame, declared fields; the worker is killed for others"
    ),
    "protocols/etcd/members.py": Entry(1, "etcd", MESSAGE),
    "protocols/kinds/core/config.py": Entry(1, "clients: registry credentials of secrets", BODY),
    "protocols/kinds/rbac/policy_rule.py": Entry(1, "roles of clients, decoded before", OBJECT),
    "protocols/kube/jsons.py": Entry(4, "callers", "linear; no number costs more than a microsecond"),
    "protocols/kube/objects.py": Entry(1, OWN, "a copy of an object, encoded before"),
    "protocols/kube/protobuf/values.py": Entry(1, "clients: embedded JSON", BODY),
    "protocols/kube/yaml_text.py": Entry(1, "callers", "linear; 200 levels; aliases add what the caller allows"),
    "protocols/kubeclient/client.py": Entry(3, "API servers", "256 MiB of an answer, 16 MiB of an event"),
    "protocols/podresources/blocking.py": Entry(2, "kubelet, or our front door", MESSAGE),
    "protocols/process/files.py": Entry(1, ROOT_FILE, "64 MiB, sealed"),
    "protocols/process/settings.py": Entry(1, ROOT_FILE, "declared fields"),
    "protocols/process/stalls.py": Entry(1, ROOT_FILE, "LARGEST, declared fields"),
    "protocols/recording/frames.py": Entry(3, "files of users: recordings", "16 MiB of a frame, stated before"),
    "protocols/recording/reader.py": Entry(4, "files of users: recordings", "a frame, declared fields"),
    "protocols/streams/channels.py": Entry(1, "clients: sizes of terminals", "one frame, declared fields"),
    "protocols/streams/spdy_frames.py": Entry(2, "clients and nodes: headers", "LARGEST_HEADERS of plain text"),
    "protocols/streams/websocket_channels.py": Entry(1, "the container runtime", "one frame, declared fields"),
    "protocols/trace/recorder.py": Entry(1, OWN, "RETAINED_BYTES of its own ring"),
    "protocols/wire/methods.py": Entry(3, "device plugins, drivers, kubelet, runtimes", MESSAGE),
    "protocols/wire/rendering.py": Entry(1, "programs whose calls are recorded or judged", MESSAGE),
    "supervisor/capture/proxy.py": Entry(1, "drivers that are recorded", MESSAGE),
    "supervisor/capture/recording.py": Entry(1, "plugins, drivers and kubelet that are recorded", MESSAGE),
    "supervisor/chaos/stage.py": Entry(1, "manifests of users", "64 MiB, no aliases, 200 levels"),
    "supervisor/cli/flags.py": Entry(1, OWN, "flags of the command"),
    "supervisor/cli/inspect/tap.py": Entry(2, "actors of this root", "one message"),
    "supervisor/cli/inspect/top.py": Entry(1, RUNTIME, MESSAGE),
    "supervisor/conform/agent/node_pods.py": Entry(1, OWN, "a message encoded before"),
    "supervisor/conform/caller.py": Entry(2, "the judged program", MESSAGE),
    "supervisor/conform/cdi.py": Entry(1, "CDI files of drivers", "64 MiB, no aliases, 200 levels; in a thread"),
    "supervisor/conform/kubelet.py": Entry(1, "the judged program", MESSAGE),
    "supervisor/conform/manifest/documents.py": Entry(
        1, "the user's manifest", "64 MiB, 200 levels, EXPANDED by aliases"
    ),
    "supervisor/conform/manifest/pods.py": Entry(2, RUNTIME, MESSAGE),
    "supervisor/conform/scripts.py": Entry(2, OWN, "rules and sources of the product"),
    "supervisor/dra/sources.py": Entry(1, "files of users, of the command that reads them", "64 MiB"),
    "supervisor/forkserver/wire.py": Entry(4, OWN, "packets of the forkserver, declared fields"),
    "supervisor/machine/facts.py": Entry(1, "the container runtime", "4 MiB of a message"),
    "supervisor/machine/version.py": Entry(1, OWN, "a file of the distribution"),
    "supervisor/pki/certificates.py": Entry(2, ROOT_FILE, "declared fields"),
    "supervisor/root/leftovers.py": Entry(1, "our shims", "64 MiB of a file, one declared field"),
    "supervisor/root/format.py": Entry(1, ROOT_FILE, "LIMIT, declared fields"),
    "supervisor/startup/preflight.py": Entry(1, "API servers", "1 MiB"),
    "supervisor/startup/prepare.py": Entry(1, ROOT_FILE, "declared fields"),
    "supervisor/trace/command.py": Entry(1, "files of users", "16 MiB, declared fields; in the command"),
    "supervisor/testing/api.py": Entry(1, "the API server of a test", "MAX_ANSWER"),
}


def test_every_decode_has_an_entry_with_peer_and_bound() -> None:
    without = {
        path: calls
        for path in sorted(found().keys() | TABLE.keys())
        if len(calls := found().get(path, [])) != TABLE.get(path, Entry(0, "", "")).calls
    }
    assert not without, "say in TABLE who wrote the bytes and what bounds them"


UNDECLARED = ("json.loads", "json.load", "yaml.load", "yaml.safe_load", "yaml.load_all", "yaml.safe_load_all")
MAY = {
    "actors/apiserver/writes/validation.py": "reads no numbers",
    "actors/runtime/shim/channel.py": "the shim imports as little as it can",
    "actors/runtime/spec/oci.py": "our own file",
    "supervisor/dra/sources.py": "the user's file in the user's process; YAML's null is a key there",
    "supervisor/machine/version.py": "our own file",
}


def test_foreign_values_without_declared_fields_are_read_by_the_one_reader() -> None:
    foreign = [path for path in found() if TABLE.get(path, Entry(0, "", "")).peer != OWN]
    loose = {
        path: ast.unparse(node)
        for path in sorted(set(foreign) - set(READERS) - MAY.keys())
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Call) and _is_loose(node)
    }
    assert not loose, "use read_json or read_yaml: one value may take seconds otherwise"


def _is_loose(call: ast.Call) -> bool:
    text = ast.unparse(call.func)
    if text == "msgspec.json.Decoder":
        return not call.args and all(keyword.arg != "float_hook" for keyword in call.keywords)
    if text == "msgspec.json.decode":
        kind = next((ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "type"), "Any")
        return kind in ("Any", "dict", "list", "Object")
    return text in UNDECLARED


def test_scan_finds_what_is_new() -> None:
    """The scan itself: each way to decode is seen, texts and encoders are not."""
    code = "json.loads(x)\nread = pb.Thing.FromString\nmsgspec.json.decode(x)\nyaml.load(x, y)\nzlib.decompress(x)"
    assert len(calls_of(ast.parse(code))) == 5
    assert calls_of(ast.parse("x.decode()\nmsgspec.json.encode(x).decode()\nloads = 3\nprint(loads)")) == []
