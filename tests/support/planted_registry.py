"""The plugin of conform_plugin.py, found by its socket in plugins_registry/, see planted_plugin.py."""

import os
from collections.abc import Sequence
from typing import Any

import grpc

from protocols.wire import pluginregistration_v1_pb2 as registration
from tests.support import conform_plugin as sample
from tests.support import planted_answers as planted_answers
from tests.support.planting import bug, replace
from tests.support.stubs import deviceplugin_v1beta1_pb2_grpc as service
from tests.support.stubs import pluginregistration_v1_pb2_grpc as registration_service


class Registrar(registration_service.RegistrationServicer):
    def __init__(self, versions: Sequence[str]) -> None:
        self._versions = versions

    def GetInfo(self, request: registration.InfoRequest, context: grpc.ServicerContext) -> registration.PluginInfo:
        return registration.PluginInfo(type="DevicePlugin", name=sample.RESOURCE, supported_versions=self._versions)

    def NotifyRegistrationStatus(
        self, request: registration.RegistrationStatus, context: grpc.ServicerContext
    ) -> registration.RegistrationStatusResponse:
        return registration.RegistrationStatusResponse()


def be_found(*versions: str) -> None:
    """Serve both services at one socket, and call no Register."""
    correct: Any = service.add_DevicePluginServicer_to_server

    def add(plugin: sample.Plugin, server: grpc.Server) -> None:
        correct(plugin, server)
        also: Any = registration_service.add_RegistrationServicer_to_server
        also(Registrar(versions), server)

    registry = sample.DIRECTORY.parent / "plugins_registry"
    registry.mkdir(exist_ok=True)
    replace(service, "add_DevicePluginServicer_to_server", add)
    replace(sample, "SOCKET", registry / f"sample-{os.getpid()}-reg.sock")
    replace(sample, "run", sample.serve_only)


@bug
def is_found_by_the_kubelet() -> None:
    """No bug."""
    be_found("v1beta1")


@bug
def is_found_with_another_version() -> None:
    be_found("v1")
