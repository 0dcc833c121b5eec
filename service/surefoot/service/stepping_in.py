"""How Python code steps in while a task exists: the part of `Surefoot` that changes its course.

Every method returns when its command is applied: by the worker that holds the task, or by us.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.graph.given import NOT_GIVEN, NotGiven
from surefoot.graph.values import Json, JsonObject
from surefoot.service.shown_status import Status

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from surefoot.graph.session import Engine


class SteppingIn(ABC):
    """The commands by which people step in; `Surefoot` is one."""

    @abstractmethod
    async def engine(self, *, warm_up: bool = True) -> "Engine":
        """The engine of this process."""

    @abstractmethod
    async def status(self, id: str | None = None) -> Status:
        """The status document of a task."""

    async def skip(self, id: str, subtask: str, *, tools: "Sequence[BaseTool]" = ()) -> JsonObject:
        """Leave a subtask out, whatever its plan says; what runs of it is stopped.

        Args:
            id: of the task. One that nobody runs is paused afterwards: `resume` goes on.
            subtask: an id of the plan, of a child (`review/7`), or inside a group (`group/x`).
            tools: the tool objects that the task was made with.

        Returns:
            `{"applied": "skip", "subtask", "reopened"}`: what is to be done (again) because of it.

        Raises:
            UsageError: there is no such task or subtask, or its state forbids it.
        """
        from surefoot.graph.stepping_in import skip

        return await skip(await self.engine(), id, subtask, objects=tools)

    async def retry(self, id: str, subtask: str, *, tools: "Sequence[BaseTool]" = ()) -> JsonObject:
        """Have a subtask tried again that failed, was skipped, or waits; as `skip`."""
        from surefoot.graph.stepping_in import retry

        return await retry(await self.engine(), id, subtask, objects=tools)

    async def edit(
        self,
        id: str,
        subtask: str,
        *,
        result: "Json | NotGiven" = NOT_GIVEN,
        artifacts: Mapping[str, bytes | str] | None = None,
        args: Mapping[str, Json] | None = None,
        tools: "Sequence[BaseTool]" = (),
    ) -> JsonObject:
        """Give a subtask another result, other artifacts or other arguments; as `skip`.

        Args:
            id: of the task.
            subtask: as for `skip`; it must not be running.
            result: any JSON value; it must pass the subtask's `success`.
            artifacts: new versions by name.
            args: instead of the plan's, for a tool; a completed subtask is done again with them.
            tools: the tool objects that the task was made with.
        """
        from surefoot.graph.edits import Edit
        from surefoot.graph.stepping_in import edit

        contents = {
            name: content.encode() if isinstance(content, str) else content
            for name, content in (artifacts or {}).items()
        }
        given = Edit(result=result, artifacts=contents, args=None if args is None else dict(args))
        return await edit(await self.engine(), id, subtask, given, objects=tools)

    async def rollback(
        self, id: str, milestone: str, *, tools: "Sequence[BaseTool]" = ()
    ) -> JsonObject:
        """Go back to a passed milestone, or to `start`: state, workspace, artifacts and effects.

        Args:
            id: of a task that nobody runs; a completed one may go back as well. It is paused
                afterwards: `resume` does the rest again.
            milestone: that has passed, or `start`.
            tools: the tool objects that the task was made with.

        Returns:
            `{"applied": "rollback", "milestone", "reopened"}`: what is to be done again.

        Raises:
            UsageError: there is no such task, it runs or is cancelled, or there is no way back to
                that milestone.
        """
        from surefoot.graph.stepping_in import rollback

        return await rollback(await self.engine(), id, milestone, objects=tools)

    async def replan(
        self,
        id: str,
        *,
        require: str | None = None,
        plan: "Path | str | Mapping[str, Any] | None" = None,
        tools: "Sequence[BaseTool]" = (),
    ) -> Status:
        """Have the rest of a task's plan made anew; what is finished stands. Returns its status.

        Args:
            id: of the task. One that nobody runs is paused afterwards: `resume` goes on.
            require: what is required besides the goal; a planning model makes the plan.
            plan: instead, the new remainder or plan: a file or mapping (a plan, or a task file).
            tools: the tool objects that the task was made with.

        Raises:
            UsageError: there is no such task, it is over, or the plan has faults (all is as it
                was then).
        """
        from surefoot.graph.stepping_in import replan
        from surefoot.service.sources import given_plan

        given = None if plan is None else given_plan(plan)
        engine = await self.engine()
        await replan(engine, id, require=require, plan=given, objects=tools)
        return await self.status(id)

    async def answer(
        self, id: str, question: str, value: Json, *, tools: "Sequence[BaseTool]" = ()
    ) -> Status:
        """Answer a question by its id; returns the status once the answer is applied.

        Args:
            id: of the task. One that nobody runs is paused afterwards, or waits for the answers
                that are missing: `resume` goes on.
            question: its id, as `questions` lists it.
            value: one of its choices or a synonym, `"WORD: REASON"`, or a mapping with `choice`
                and what belongs to it (`reason`, `result`, `hint`, `milestone`, `require`).
            tools: the tool objects that the task was made with.

        Raises:
            UsageError: there is no such task or question, the value does not fit, another answer
                was given before, or the task is over; nothing was changed.
        """
        from surefoot.graph.stepping_in import answer

        await answer(await self.engine(), id, question, value, objects=tools)
        return await self.status(id)
