"""The backup profile: the node profile with an API that is restored from a backup right after some writes of pods."""

from typing import TYPE_CHECKING

from tests.simulation.node.profile import NodeProfile

if TYPE_CHECKING:
    from tests.simulation.world.world import World

LAST_S = 10.0
"""Seconds for which writes are lost after the last other fault, those of pods that are left at the end as well."""


class BackupProfile(NodeProfile):
    means = 0.3, 1.0, 3.0

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self.api.backup_share = world.draw("api_backup_share", 0.2, 0.1, 0.02)

    def quiesce(self) -> None:
        super().quiesce()
        self.world.at(LAST_S, None, self._end)

    def _end(self) -> None:
        self.api.backup_share = 0.0
