"""Which models play which role in a task: from the task file, the command line, the environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from surefoot.graph.model_ports import Role
from surefoot.graph.task import Models, Price
from surefoot.graph.values import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRoles:
    """The ladder of each role (tried in order), the window and the prices."""

    ladders: Mapping[Role, tuple[str, ...]]
    context_tokens: int = 128_000
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])

    @classmethod
    def of(cls, task: JsonObject, configured: str | None = None) -> "ModelRoles":
        """Read a task file's `model`.

        Args:
            task: the task file as a mapping.
            configured: the environment's model, for roles that the file leaves open.
        """
        stated = task.get("model")
        if isinstance(stated, str):
            models = Models(planner=stated, executor=stated, judge=stated)
        else:
            models = Models.model_validate(stated or {})
        roles: tuple[Role, ...] = ("planner", "executor", "judge")
        fallback = (configured,) if configured else _any_of(models)
        ladders: dict[Role, tuple[str, ...]] = {
            role: _ladder(getattr(models, role)) or fallback for role in roles
        }
        return cls(ladders=ladders, context_tokens=models.context_tokens, prices=models.prices)


def _ladder(stated: str | list[str] | None) -> tuple[str, ...]:
    if stated is None:
        return ()
    return (stated,) if isinstance(stated, str) else tuple(stated)


def _any_of(models: Models) -> tuple[str, ...]:
    """A role that nobody named plays the first model there is."""
    return _ladder(models.executor) or _ladder(models.planner) or _ladder(models.judge)
