"""Short ways to say a call and what was found in it."""

from typing import Any

from gateway.models import Context, Kind
from gateway.policy.calls.argument_roles import RoleSource
from gateway.policy.calls.call_arguments import Declaration
from gateway.policy.calls.call_effects import Call, CallEffects, UncertaintyKind, touch
from gateway.wire.roles import Role


def read(
    tool: str,
    arguments: dict[str, Any],
    kind: Kind = Kind.TOOL,
    cwd: str | None = "/ws",
    *roles: Declaration,
) -> CallEffects:
    """Return what a call touches that runs in /ws."""
    context = Context(cwd=cwd)
    return touch(Call(tool=tool, kind=kind, arguments=arguments, context=context, roles=roles))


def roles_of(effects: CallEffects) -> dict[str, Role]:
    """Return the role at each place."""
    return {leaf.place: leaf.role for leaf in effects.leaves}


def kinds_of_doubts(effects: CallEffects) -> set[UncertaintyKind]:
    """Return what the doubts are about."""
    return {uncertainty.kind for uncertainty in effects.uncertainties}


def operator(**roles: str) -> Declaration:
    """Return what an operator declares."""
    return Declaration(by=RoleSource.OPERATOR, roles={k: Role(v) for k, v in roles.items()})


def author(*, trusted: bool = False, **roles: str) -> Declaration:
    """Return what a tool's author declares."""
    said = {name: Role(role) for name, role in roles.items()}
    return Declaration(by=RoleSource.AUTHOR, roles=said, trusted=trusted)
