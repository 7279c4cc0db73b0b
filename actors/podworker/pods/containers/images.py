"""Images of one pod's containers: pull policy, pull secrets, back-off after failed pulls."""

import asyncio
import base64
import binascii
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

import msgspec

from actors.podworker.model.dependencies import Dependencies, ImageFound, ImagePull
from actors.podworker.model.errors import ContainerConfigInvalid, ImageMissing
from actors.podworker.pods.containers.security import effective
from actors.podworker.pods.environment.references import SECRET, Ref, fetch
from actors.podworker.pods.volumes.payload import IMAGE, kind_of, volumes_of
from protocols.bus import BusError, DeadlineExceeded, Unavailable
from protocols.kube.jsons import read_json
from protocols.kube.meta import Object
from protocols.kube.times import format_duration
from protocols.lifecycle.pods.types import ContainerSpec, PodSpec, format_pod
from protocols.messages.cri import ANSWERED
from protocols.process.rates import backoff_delay
from protocols.wire import cri_pb2

DOCKER_HUB, HUB_NAMES = "docker.io", ("index.docker.io", "registry-1.docker.io")
NEW, OLD = ".dockerconfigjson", ".dockercfg"
MAX_REGISTRY = 1024
"""Characters of a registry's name and path. Longer ones are ignored: to match their patterns would take seconds."""
ALWAYS, NEVER = "Always", "Never"
ERR_NAME, ERR_INSPECT = "InvalidImageName", "ImageInspectError"
NO_SECRET = "FailedToRetrieveImagePullSecret"
ERR_PULL, BACK_OFF, ERR_NEVER = "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"
CRI_FAULTS = {
    "RegistryUnavailable": "the registry is unavailable",
    "SignatureValidationFailed": "the signature validation failed",
}
"""Reasons with which runtimes begin the text of a failed pull, and upstream's words for them."""
PULL_FAULTS = (ERR_PULL, *CRI_FAULTS)
ABSENT = "not present with pull policy of Never"
FOREIGN = "present with pull policy of Never but does not have the proper credentials to access the image"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9]+(?:[.-]+[A-Za-z0-9]+)*(?::[0-9]+)?"
_TAG, _DIGEST = r"(?::[\w][\w.-]{0,127})?", r"(?:@[A-Za-z][A-Za-z0-9+.-]*:[0-9A-Fa-f]+)?"
_NAME = re.compile(f"(?:{_HOST}/)?{_PART}(?:/{_PART})*{_TAG}{_DIGEST}")
FIRST_S, MOST_S = 10.0, 300.0


def pull_refs(spec: PodSpec) -> tuple[Ref, ...]:
    """Return the secrets with which the pod's images are pulled."""
    given = (spec.raw.get("spec") or {}).get("imagePullSecrets") or ()
    return tuple(Ref(SECRET, str(reference["name"])) for reference in given if reference.get("name"))


def credentials(image: str, secrets: Iterable[Mapping[str, bytes]]) -> list["cri_pb2.AuthConfig"]:
    """Return the credentials for the image's registry: the most specific first, then in the order of the secrets.

    A secret may have 40,000 registries with a pattern each, which takes seconds: call it in a thread.
    """
    repository = _repository(image)
    matches = [
        (len(registry), auth)
        for secret in secrets
        for registry, auth in _entries(secret)
        if _covers(registry, repository)
    ]
    return [auth for _, auth in sorted(matches, key=lambda entry: -entry[0])]


def _entries(secret: Mapping[str, bytes]) -> Iterator[tuple[str, "cri_pb2.AuthConfig"]]:
    """Yield registries and credentials. Malformed entries are skipped: the pull may succeed without them."""
    new = _decoded(secret.get(NEW, b"{}")).get("auths")
    for registry, entry in {**_decoded(secret.get(OLD, b"{}")), **(new if isinstance(new, dict) else {})}.items():
        if isinstance(entry, dict) and len(registry) <= MAX_REGISTRY and (auth := _auth(entry)) is not None:
            yield _registry(registry), auth


def _decoded(text: bytes) -> Object:
    try:
        decoded = read_json(text)
    except msgspec.DecodeError:
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _auth(entry: Object) -> "cri_pb2.AuthConfig | None":
    """Return the credentials of an entry. `auth` goes before user name and password; it need not be padded."""
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    auth = "".join(str(entry.get("auth") or "").split())
    try:
        joined = base64.b64decode(auth + "=" * (-len(auth) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    if joined:
        username, _, password = joined.partition(":")
    token = str(entry.get("identitytoken") or "")
    if not (username or token):
        return None
    return cri_pb2.AuthConfig(username=username, password=password, identity_token=token)


def _registry(server: str) -> str:
    """Normalize the registry: `https://index.docker.io/v1/` is `docker.io`."""
    host, _, path = server.removeprefix("https://").removeprefix("http://").partition("/")
    host = DOCKER_HUB if host in HUB_NAMES else host
    path = f"{path}/".removeprefix("v1/").removeprefix("v2/").rstrip("/")
    return f"{host}/{path}".rstrip("/")


def _repository(image: str) -> str:
    name = image.partition("@")[0]
    head, slash, rest = name.partition("/")
    if not slash or not ("." in head or ":" in head or head == "localhost"):
        head, rest = DOCKER_HUB, name if slash else f"library/{name}"
    return f"{DOCKER_HUB if head in HUB_NAMES else head}/{rest}"


def _covers(registry: str, repository: str) -> bool:
    """Match host by host label (`*.example.com`), port, and path by prefix."""
    host, _, path = registry.partition("/")
    own_host, _, own_path = repository.partition("/")
    name, _, port = host.partition(":")
    own_name, _, own_port = own_host.partition(":")
    parts, own_parts = name.split("."), own_name.split(".")
    same = len(parts) == len(own_parts) and all(map(fnmatchcase, own_parts, parts))
    return same and port == own_port and own_path.startswith(path)


class _Failed(msgspec.Struct, frozen=True):
    times: int
    until: float
    why: str


def is_name(image: str) -> bool:
    """Return True for a well-formed image name or id."""
    return bool(_NAME.fullmatch(image))


def pull_policy(container: ContainerSpec) -> str:
    """Return the pull policy with the API's default: Always for tag latest or no tag, else IfNotPresent."""
    given = container.raw.get("imagePullPolicy")
    if given:
        return str(given)
    name = container.image.rsplit("/", 1)[-1]
    tagged = "@" in name or (":" in name and not name.endswith(":latest"))
    return "IfNotPresent" if tagged else ALWAYS


class Images:
    """Ensures that images are present. Back-off is per image: 10 s, doubling to 5 minutes.

    `clock` returns monotonic seconds.
    """

    def __init__(self, deps: Dependencies, clock: Callable[[], float] = time.monotonic) -> None:
        self._deps = deps
        self._clock = clock
        self._failed: dict[str, _Failed] = {}

    async def ensure(self, spec: PodSpec, container: ContainerSpec, sandbox: "cri_pb2.PodSandboxConfig") -> ImageFound:
        """Return the image, pulled if the policy requires it.

        Raises ImageMissing; ContainerConfigInvalid when the image's user is not allowed or its secrets cannot be read;
        BusError when the runtime does not answer.
        """
        image = await self._present(spec, container, ImagePull(container.image, sandbox))
        check_user(spec, container, image)
        return image

    async def volumes(
        self, spec: PodSpec, container: ContainerSpec, sandbox: "cri_pb2.PodSandboxConfig"
    ) -> dict[str, str]:
        """Return the images of the container's volumes by the volume's name, pulled as their policies require.

        Raises ImageMissing, as upstream, so that the container waits with the reason of its volume's image.
        """
        named = {str(mount.get("name") or "") for mount in container.raw.get("volumeMounts") or ()}
        sources = {str(v.get("name") or ""): v[IMAGE] for v in volumes_of(spec) if kind_of(v) == IMAGE}
        images = {}
        for name in sorted(named & sources.keys()):
            source = sources[name]
            asked = msgspec.structs.replace(
                container,
                image=str(source.get("reference") or ""),
                raw={"imagePullPolicy": source.get("pullPolicy")},
            )
            images[name] = (await self._present(spec, asked, ImagePull(asked.image, sandbox, volume=True))).id
        return images

    async def _present(self, spec: PodSpec, container: ContainerSpec, pull: ImagePull) -> ImageFound:
        policy = pull_policy(container)
        present = await self._inspect(spec, container, pull.volume)
        if present is not None and await self._is_usable(spec, container, present):
            self._failed.pop(container.image, None)
            message = f'Container image "{container.image}" already present on machine and can be accessed by the pod'
            self._event(spec, "Pulled", message, container)
        elif policy == NEVER:
            message = f'Container image "{container.image}" is {ABSENT if present is None else FOREIGN}'
            self._event(spec, ERR_NEVER, message, container, "Warning")
            raise ImageMissing(ERR_NEVER, message)
        else:
            present = await self._pull(spec, container, pull)
        return present

    async def _is_usable(self, spec: PodSpec, container: ContainerSpec, present: ImageFound) -> bool:
        """Return True if the present image needs no pull: the pod has the credentials of an earlier one."""
        image, records = container.image, self._deps.pulls
        if self._deps.node_info.embedded or pull_policy(container) == ALWAYS:
            return self._deps.node_info.embedded
        if not records.is_restricted(image, present.id):
            return True
        return records.may_use(image, present.id, await self._credentials(spec, container))

    async def _inspect(self, spec: PodSpec, container: ContainerSpec, volume: bool) -> ImageFound | None:
        image = container.image
        if not is_name(image):
            message = f"Failed to apply default image tag {image!r}: couldn't parse image name"
            self._event(spec, "InspectFailed", message, container, "Warning")
            raise ImageMissing(ERR_NAME, message)
        try:
            return await self._deps.runtime.image(image, volume)
        except BusError as error:
            if is_silent(error):
                raise
            message = f'Failed to inspect image "{image}": {error}'
            self._event(spec, "InspectFailed", message, container, "Warning")
            raise ImageMissing(ERR_INSPECT, message) from None

    async def _pull(self, spec: PodSpec, container: ContainerSpec, pull: ImagePull) -> ImageFound:
        image, failed = container.image, self._failed.get(container.image)
        if failed is not None and self._clock() < failed.until:
            message = f'Back-off pulling image "{image}"'
            self._event(spec, "BackOff", message, container)
            raise ImageMissing(BACK_OFF, f"{message}: {failed.why}")
        known = await self._credentials(spec, container)
        self._event(spec, "Pulling", f'Pulling image "{image}"', container)
        began = self._clock()
        try:
            pulled = await self._fetch(pull, known)
        except BusError as error:
            if is_silent(error):
                raise
            times = failed.times + 1 if failed else 1
            until = self._clock() + backoff_delay(times, FIRST_S, MOST_S)
            reason, why = pull_fault(image, str(error))
            self._failed[image] = _Failed(times, until, f"{reason}: {why}")
            self._event(spec, "Failed", f'Failed to pull image "{image}": {error}', container, "Warning")
            raise ImageMissing(reason, why) from None
        self._failed.pop(image, None)
        seconds = format_duration(self._clock() - began)
        message = f'Successfully pulled image "{image}" in {seconds} ({seconds} including waiting).'
        self._event(spec, "Pulled", f"{message} Image size: {pulled.size} bytes.", container)
        return pulled

    async def _fetch(self, pull: ImagePull, known: list["cri_pb2.AuthConfig"]) -> ImageFound:
        """Pull, and record who may use the image: while the pull may succeed yet, no pod without credentials."""
        records, image = self._deps.pulls, pull.image
        if known:
            await records.begin(image)
        try:
            reference, accepted = await self._first_accepted(pull, known)
        except BusError as error:
            if known and not is_silent(error):
                await records.failed(image)
            raise
        found = await self._deps.runtime.image(image, pull.volume) or ImageFound(reference)
        await records.succeeded(image, found.id, accepted)
        return found

    async def _first_accepted(
        self, pull: ImagePull, known: list["cri_pb2.AuthConfig"]
    ) -> tuple[str, "cri_pb2.AuthConfig | None"]:
        """Pull with the first credentials that the registry accepts; without any if there are none."""
        for auth in known[:-1]:
            try:
                return await self._deps.runtime.pull_image(pull, auth), auth
            except BusError as error:
                if is_silent(error):
                    raise
        last = known[-1] if known else None
        return await self._deps.runtime.pull_image(pull, last), last

    async def _credentials(self, spec: PodSpec, container: ContainerSpec) -> list["cri_pb2.AuthConfig"]:
        """Return matching credentials. Raises ReferenceUnreadable when the pod's secrets cannot be read."""
        refs = () if self._deps.node_info.embedded else pull_refs(spec)
        contents = await fetch(self._deps.objects, spec.namespace, refs)
        if missing := ", ".join(ref.name for ref in refs if contents[ref] is None):
            text = f"Unable to retrieve some image pull secrets ({missing})"
            self._event(spec, NO_SECRET, f"{text}; attempting to pull the image may not succeed.", container, "Warning")
        secrets = [secret for ref in refs if (secret := contents[ref]) is not None]
        return await asyncio.to_thread(credentials, container.image, secrets)

    def _event(self, spec: PodSpec, reason: str, message: str, container: ContainerSpec, kind: str = "Normal") -> None:
        self._deps.recorder.pod(spec, kind, reason, message, container)


def is_silent(error: BusError) -> bool:
    """Return True if the runtime did not answer. It may answer that a deadline has passed, as that of a registry."""
    return isinstance(error, Unavailable) or (isinstance(error, DeadlineExceeded) and ANSWERED not in error.details)


def pull_fault(image: str, text: str) -> tuple[str, str]:
    """Return the reason and message of a container whose image could not be pulled, from the runtime's text."""
    for reason, what in CRI_FAULTS.items():
        if text.startswith(reason):
            return reason, f"image pull failed for {image} because {what}{text.removeprefix(reason)}"
    return ERR_PULL, text


def check_user(spec: PodSpec, container: ContainerSpec, image: ImageFound) -> None:
    """Enforce runAsNonRoot for the requested user, or else the image's. Raises ContainerConfigInvalid."""
    merged = effective(spec, container)
    if merged.get("runAsNonRoot") and (fault := _root_fault(merged.get("runAsUser"), image)):
        raise ContainerConfigInvalid(f'{fault} (pod: "{format_pod(spec)}", container: {container.name})')


def _root_fault(user: object, image: ImageFound) -> str:
    """Return why the container may run as root, in upstream's words; empty if it does not."""
    if user is not None:
        return "container's runAsUser breaks non-root policy" if user == 0 else ""
    if image.username:
        why = f"image has non-numeric user ({image.username}), cannot verify user is non-root"
        return f"container has runAsNonRoot and {why}"
    return "" if image.uid else "container has runAsNonRoot and image will run as root"
