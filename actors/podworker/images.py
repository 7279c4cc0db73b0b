"""Image pull policy: what must be there before a container is created."""

from actors.podworker.errors import ImageMissing
from actors.podworker.ports import World
from actors.podworker.types import ContainerSpec, PodSpec
from protocols.bus import BusError, DeadlineExceeded, Unavailable

ALWAYS, NEVER = "Always", "Never"


def pull_policy(container: ContainerSpec) -> str:
    """As the API defaults it: Always for tag latest or no tag, else IfNotPresent."""
    given = container.raw.get("imagePullPolicy")
    if given:
        return str(given)
    name = container.image.rsplit("/", 1)[-1]
    tagged = "@" in name or (":" in name and not name.endswith(":latest"))
    return "IfNotPresent" if tagged else ALWAYS


async def ensure_image(world: World, spec: PodSpec, container: ContainerSpec) -> str:
    """The runtime's name of the image. Raises ImageMissing; BusError when the runtime could not be asked."""
    policy = pull_policy(container)
    present = await world.runtime.image_ref(container.image)
    if present and (policy != ALWAYS or world.site.embedded):
        message = f'Container image "{container.image}" already present on machine'
        world.recorder.pod(spec, "Normal", "Pulled", message, container)
        return present
    if policy == NEVER:
        message = f'Container image "{container.image}" is not present with pull policy of Never'
        world.recorder.pod(spec, "Warning", "ErrImageNeverPull", message, container)
        raise ImageMissing("ErrImageNeverPull", message)
    return await _pull(world, spec, container)


async def _pull(world: World, spec: PodSpec, container: ContainerSpec) -> str:
    world.recorder.pod(spec, "Normal", "Pulling", f'Pulling image "{container.image}"', container)
    try:
        reference = await world.runtime.pull_image(container.image)
    except (Unavailable, DeadlineExceeded):
        raise
    except BusError as error:
        message = f'Failed to pull image "{container.image}": {error}'
        raise ImageMissing("ErrImagePull", message) from None
    world.recorder.pod(spec, "Normal", "Pulled", f'Successfully pulled image "{container.image}"', container)
    return reference
