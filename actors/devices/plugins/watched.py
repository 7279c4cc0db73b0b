"""Device plugins that do not call Register but lay a socket into plugins_registry: what the watcher of it calls.

The same checks and the same connections as for Register; only the words of a refusal are those of kubelet's watcher.
"""

from collections.abc import Sequence
from pathlib import Path

from actors.devices.errors import RegistrationRefused
from actors.devices.plugins.names import check_resource
from actors.devices.plugins.plugins import Plugins
from protocols.wire.device_plugin import VERSION

TYPE = "DevicePlugin"
"""PluginInfo.type of the plugins this is for."""


class WatchedPlugins:
    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """`name` is the resource, `endpoint` the absolute path of the plugin's socket; raises RegistrationRefused."""
        if VERSION not in versions:
            raise RegistrationRefused(
                f"manager version, {VERSION}, is not among plugin supported versions [{' '.join(versions)}]"
            )
        try:
            check_resource(name)
        except RegistrationRefused as error:
            raise RegistrationRefused(f"invalid name of device plugin socket: {error}") from None
        if not Path(endpoint).is_absolute():
            raise RegistrationRefused(f'the endpoint "{endpoint}" is invalid: it must be an absolute path')

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Connected and asked for its options when this returns; raises RegistrationRefused or PluginUnreachable."""
        self.validate(name, endpoint, versions)
        await self._plugins.connect(name, Path(endpoint))

    async def deregister(self, name: str, endpoint: str) -> None:
        """The plugin's socket is gone: its devices are Unknown, and forgotten after the grace."""
        await self._plugins.disconnect(name, Path(endpoint))
