"""Find container runtimes and kubelets of this machine by their usual sockets, and ask runtimes for their version."""

import socket
from collections.abc import Mapping

PROBE_S = 1.0
"""Deadline of a connection and of a call."""
KUBELET = "kubelet"
SOCKETS: Mapping[str, tuple[str, ...]] = {
    "containerd": ("/run/containerd/containerd.sock",),
    "CRI-O": ("/run/crio/crio.sock", "/var/run/crio/crio.sock"),
    "cri-dockerd": ("/run/cri-dockerd.sock",),
    KUBELET: ("/var/lib/kubelet/pod-resources/kubelet.sock",),
}
"""Paths by name, the usual one first."""


def runtimes(sockets: Mapping[str, tuple[str, ...]] = SOCKETS) -> dict[str, str]:
    """Return the path of each socket that exists, with the version of the runtime or why it does not answer."""
    found = {name: _describe(name, paths) for name, paths in sockets.items()}
    return {name: text for name, text in found.items() if text}


def _describe(name: str, paths: tuple[str, ...]) -> str:
    for path in paths:
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(PROBE_S)
                probe.connect(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return f"{path} ({error.strerror or error})"
        return path if name == KUBELET else f"{path} ({_version(path)})"
    return ""


def _version(path: str) -> str:
    """Return name and version of a runtime, or why it has no CRI v1."""
    import grpc  # only where a runtime was found

    from protocols.wire import cri_pb2 as pb
    from protocols.wire.methods import CLIENT_OPTIONS

    with grpc.insecure_channel(f"unix:{path}", options=CLIENT_OPTIONS) as channel:
        call = channel.unary_unary(
            "/runtime.v1.RuntimeService/Version",
            request_serializer=pb.VersionRequest.SerializeToString,
            response_deserializer=pb.VersionResponse.FromString,
        )
        try:
            answer = call(pb.VersionRequest(version="v1"), timeout=PROBE_S)
        except grpc.RpcError as error:
            return f"no CRI v1: {error.code().name}"
    return f"{answer.runtime_name} {answer.runtime_version}, CRI {answer.runtime_api_version}"
