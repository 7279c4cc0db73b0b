"""The stage of a script about device plugins."""

from typing import ClassVar, TypeAlias

from protocols.messages.devices import HEALTHY
from supervisor.conform.cdi import folders_of
from supervisor.conform.kubelet import Kubelet, RegisterCall
from supervisor.conform.peer import PluginPeer
from supervisor.conform.profiles import Profile
from supervisor.conform.program import Launcher
from supervisor.conform.program_stage import ProgramStage
from supervisor.conform.verdict import Failed

OTHER_KIND = "; it has a socket in plugins_registry that is no device plugin's: --kind dra judges DRA drivers"
Device: TypeAlias = tuple[str, str]
"""Resource and id."""


class Stage(ProgramStage[PluginPeer, RegisterCall]):
    """The plugin under test and the played kubelet."""

    SUBJECT: ClassVar[str] = "plugin"
    CALL: ClassVar[str] = "Register"

    def __init__(self, kubelet: Kubelet, launcher: Launcher, timeout: float, profile: Profile | None = None) -> None:
        self.kubelet, self.profile = kubelet, profile
        self.cdi = folders_of(launcher.environment)
        super().__init__(kubelet, launcher, timeout)

    async def plugins(self) -> list[PluginPeer]:
        """Return the connection of each resource, with its first list. Raises NotServing."""
        return await self.peers()

    async def ready(self, peer: PluginPeer) -> list[str]:
        await peer.first_list()
        if peer.lists and peer.lists.ended:
            raise Failed(f"ListAndWatch of {peer.resource} ended: {peer.lists.ended}")
        return peer.ids

    def listed(self) -> dict[Device, str]:
        """Return the health of each device in the newest lists."""
        plugins = self.kubelet.serving.values()
        return {(plugin.resource, device.ID): device.health for plugin in plugins for device in plugin.devices}

    def healthy(self) -> set[Device]:
        return {device for device, health in self.listed().items() if health == HEALTHY}

    def unhealthy(self) -> set[Device]:
        return self.listed().keys() - self.healthy()

    def silence(self, call: str, seconds: float) -> str:
        return super().silence(call, seconds) + (OTHER_KIND if self.kubelet.has_others else "")

    async def end(self) -> None:
        await super().end()
        self.kubelet.remove_sockets()
