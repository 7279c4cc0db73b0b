"""Whether what a request writes may be written by its author: nodes stay with themselves, nobody grants more than
they hold. The request itself has passed authorization before."""

import msgspec
from msgspec.structs import replace

from actors.apiserver.admission.nodes import create_fault, update_fault
from actors.apiserver.admission.runtime_classes import Find, apply_class, concerns, names_class
from actors.apiserver.admission.tokens import mount_token, wants_pull_secrets, wants_token
from actors.apiserver.authentication.user import User
from actors.apiserver.authorization.attributes import Attributes
from actors.apiserver.authorization.authorizer import EVERYTHING, Authorizer, attributes_details, full_name
from actors.apiserver.authorization.node_rules import Lookup, node_of
from actors.apiserver.authorization.rbac.cover import uncovered
from actors.apiserver.authorization.rbac.read import read_rules
from actors.apiserver.authorization.rbac.types import GROUP as RBAC
from actors.apiserver.authorization.rbac.types import PolicyRule, quoted
from actors.apiserver.errors.answers import Forbidden, NotFound
from actors.apiserver.objects.paths import Obj, at, items, text
from actors.apiserver.request.target import Target
from actors.apiserver.writes.loop import Mutation

BINDINGS = ("rolebindings", "clusterrolebindings")


class Admission(msgspec.Struct, frozen=True):
    authorizer: Authorizer
    nodes: Lookup
    accounts: Lookup = lambda key: None
    """Service accounts."""
    runtime_class: Find | None = None

    def concerns(self, user: User, target: Target) -> bool:
        """Whether there is anything to find or to add when this user creates such an object: mostly there is not."""
        row = target.resource
        return target.verb != "create" or row.full_name == "pods" or row.group == RBAC or bool(node_of(user))

    async def prepared(self, target: Target, obj: Obj) -> None:
        """What a new pod's RuntimeClass says becomes part of it, before anything looks at it. Raises Forbidden."""
        row = target.resource
        if self.runtime_class is None or (row.group, row.plural, target.subresource) != ("", "pods", ""):
            return
        if isinstance(obj.get("metadata"), dict) and concerns(obj):
            name = names_class(obj)
            fault = apply_class(obj, await self.runtime_class(name) if name else None)
            self._refuse(_attributes("create", target, obj), fault)

    def created(self, user: User, target: Target, obj: Obj) -> None:
        """`obj` is about to be created; a pod gets what its account has for it. Raises Forbidden."""
        if not isinstance(obj.get("metadata"), dict):
            return
        wanted, node = _attributes("create", target, obj), node_of(user)
        if target.verb != "create":  # a PUT or an apply that finds nothing
            self.authorizer.check(user, wanted)
        fault = create_fault(node, wanted, obj, self.nodes) if node else ""
        self._refuse(wanted, fault or self._grant_fault(user, wanted, obj, {}))
        if wanted.full_resource == "pods" and not wanted.group:
            self._of_account(wanted, obj)

    def _of_account(self, wanted: Attributes, pod: Obj) -> None:
        name = text(pod, "spec", "serviceAccountName") or text(pod, "spec", "serviceAccount") or "default"
        if not isinstance(pod.get("spec"), dict):
            return
        account = self.accounts(f"{wanted.namespace}/{name}")
        if wants_token(pod, account):
            mount_token(pod)
        if wants_pull_secrets(pod, account):
            pod["spec"]["imagePullSecrets"] = [dict(secret) for secret in items(account or {}, "imagePullSecrets")]

    def mutation(self, user: User, target: Target, mutate: Mutation) -> Mutation:
        """`mutate`, and a look at what came of it. The result raises Forbidden, too."""
        node = node_of(user)
        if not node and target.resource.group != RBAC:
            return mutate

        def checked(old: Obj) -> Obj | None:
            before = {**old, "metadata": dict(old["metadata"])}
            new = mutate(old)
            if new is not None:
                self._updated(user, node, _attributes("update", target, new), new, before)
            return new

        return checked

    def _updated(self, user: User, node: str, wanted: Attributes, new: Obj, old: Obj) -> None:
        fault = update_fault(node, wanted, new, old) if node else ""
        self._refuse(wanted, fault or self._grant_fault(user, wanted, new, old))

    def _refuse(self, wanted: Attributes, fault: str) -> None:
        if fault:
            raise Forbidden(f'{full_name(wanted)} "{wanted.name}" is forbidden: {fault}', attributes_details(wanted))

    def _grant_fault(self, user: User, wanted: Attributes, new: Obj, old: Obj) -> str:
        """Why these rules, or this binding, would raise somebody above its author."""
        if wanted.group != RBAC:
            return ""
        if wanted.resource in BINDINGS:
            return self._binding_fault(user, wanted, new, old)
        if new.get("rules") == old.get("rules") and new.get("aggregationRule") == old.get("aggregationRule"):
            return ""
        if self.authorizer.allows(user, replace(wanted, verb="escalate")):
            return ""
        if new.get("aggregationRule"):
            granted: tuple[PolicyRule, ...] = EVERYTHING
        else:
            granted = read_rules(new)
        return self._excess(user, wanted.namespace, granted)

    def _binding_fault(self, user: User, wanted: Attributes, new: Obj, old: Obj) -> str:
        if (new.get("subjects"), new.get("roleRef")) == (old.get("subjects"), old.get("roleRef")):
            return ""
        kind, name = text(new, "roleRef", "kind"), text(new, "roleRef", "name")
        namespace = "" if kind == "ClusterRole" else wanted.namespace
        role = Attributes("bind", wanted.path, RBAC, f"{kind.lower()}s", "", wanted.namespace, name)
        if self.authorizer.allows(user, role):
            return ""
        policy = self.authorizer.policy()
        if policy is None or not policy.has_role(kind, name, namespace):
            message = f'{kind.lower()}s.{RBAC} "{name}" not found'
            raise NotFound(message, {"name": name, "group": RBAC, "kind": f"{kind.lower()}s"})
        return self._excess(user, wanted.namespace, policy.role_rules(kind, name, namespace))

    def _excess(self, user: User, namespace: str, granted: tuple[PolicyRule, ...]) -> str:
        missing = uncovered(self.authorizer.rules(user, namespace), granted)
        if not missing:
            return ""
        listed = "\n".join(rule.compact() for rule in missing)
        who = f'user "{user.name}" (groups={quoted(user.groups)})'
        return f"{who} is attempting to grant RBAC permissions not currently held:\n{listed}"


def _attributes(verb: str, target: Target, obj: Obj) -> Attributes:
    row = target.resource
    name = target.name or str(at(obj, "metadata", "name") or "")
    return Attributes(verb, "", row.group, row.plural, target.subresource, target.namespace, name)
