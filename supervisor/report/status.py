"""The status of a plane, as `nodeplane status` requests it."""

from collections.abc import Iterable

from protocols.messages.supervisor import ActorStatus, PlaneStatus
from protocols.process.settings import Settings
from supervisor.tree.policy import Child
from supervisor.tree.states import SERVING


def actor_status(child: Child, now: float) -> ActorStatus:
    """Return the status of a child; pid and uptime are 0 while it has no process."""
    running = child.has_process and child.pid != 0
    return ActorStatus(
        instance=child.spec.instance,
        group=child.spec.group,
        pid=child.pid,
        state=str(child.state),
        uptime_s=round(now - child.started_at, 3) if running else 0.0,
        restarts=child.restarts,
        last_reason=child.reason,
        beat=child.beat,
    )


def endpoints(settings: Settings, metrics: str) -> dict[str, str]:
    """Return the addresses of a plane in the order of their display."""
    layout = settings.layout
    if settings.adopt:
        return {
            "kubelet": settings.adopt.pod_resources,
            "cri": settings.runtime_endpoint,
            "watch": settings.adopt.socket,
            "metrics": metrics,
        }
    return {
        "api": settings.api_url,
        "kubeconfig": str(layout.kubeconfig),
        "kubelet": str(layout.kubelet),
        "cri": settings.runtime_endpoint,
        "metrics": metrics,
    }


def merge(planes: Iterable[PlaneStatus]) -> PlaneStatus:
    """Merge the groups of a plane that have supervisors of their own. `planes` must not be empty."""
    first, *rest = planes
    everyone = (first, *rest)
    shown: dict[str, str] = {}
    for plane in everyone:
        for name, value in plane.endpoints.items():
            if not shown.get(name, "").startswith("http"):
                shown[name] = value
    return PlaneStatus(
        supervisor=", ".join(plane.supervisor for plane in everyone),
        pid=first.pid,
        uptime_s=max(plane.uptime_s for plane in everyone),
        actors=tuple(actor for plane in everyone for actor in plane.actors),
        endpoints=shown,
    )


def all_serving(children: Iterable[Child]) -> bool:
    """Return True if every child does its work, so that the plane is ready."""
    return all(child.state in SERVING for child in children)
