"""A group's view of its runner: its nodes speak of `inner`, everybody outside of `outer/inner`.

Orders already carry full ids when they come (the nodes make them so); outcomes, ids and questions
lose the prefix here on their way back.
"""

from collections.abc import Mapping, Sequence

from surefoot.graph.checks import Check
from surefoot.graph.model_ports import Brief
from surefoot.graph.ports import Binding, EffectRow, Runner, WorkOrder
from surefoot.graph.values import ArtifactRef, Json, JsonObject, Outcome, Question, StoredValue


class ScopedRunner:
    """The `Runner` of a group's plan.

    Args:
        runner: does the work, knows full ids only.
        prefix: of the full ids, `outer/`.
        inputs: what `${inputs...}` means in checks of the plan.
    """

    def __init__(self, runner: Runner, *, prefix: str, inputs: JsonObject) -> None:
        self._runner = runner
        self._prefix = prefix
        self._inputs = inputs

    async def submit(self, orders: Sequence[WorkOrder]) -> None:
        """See `Runner.submit`."""
        await self._runner.submit(orders)

    async def wait(self, *, until: float | None = None) -> None:
        """See `Runner.wait`."""
        await self._runner.wait(until=until)

    def wake(self) -> None:
        """See `Runner.wake`."""
        self._runner.wake()

    def finished(self) -> list[Outcome]:
        """See `Runner.finished`."""
        return [self._inward(outcome) for outcome in self._runner.finished()]

    def acknowledge(self, outcomes: Sequence[Outcome]) -> None:
        """See `Runner.acknowledge`."""
        self._runner.acknowledge([self._outward(outcome) for outcome in outcomes])

    def known(self) -> set[tuple[str, int]]:
        """See `Runner.known`."""
        return {(self._local(id), attempt) for id, attempt in self._runner.known()}

    def recall(self) -> list[tuple[str, int]]:
        """See `Runner.recall`."""
        return [(self._local(id), attempt) for id, attempt in self._runner.recall()]

    def load(self) -> tuple[int, int]:
        """See `Runner.load`: of this group alone."""
        return self._runner.load()

    def ease(self, *, groups_only: bool = False) -> None:
        """See `Runner.ease`."""
        self._runner.ease(groups_only=groups_only)

    async def cut(self, *, only_safe: bool = False, subtasks: Sequence[str] | None = None) -> None:
        """See `Runner.cut`."""
        full = None if subtasks is None else [self._prefix + id for id in subtasks]
        await self._runner.cut(only_safe=only_safe, subtasks=full)

    async def shortfalls(
        self, order: WorkOrder, result: StoredValue, artifacts: Sequence[ArtifactRef]
    ) -> list[str]:
        """See `Runner.shortfalls`."""
        return await self._runner.shortfalls(order, result, artifacts)

    async def verify(
        self,
        checks: Sequence[Check],
        bindings: Mapping[str, Binding],
        *,
        result: StoredValue | None = None,
        artifacts: Mapping[str, Sequence[ArtifactRef]] | None = None,
        inputs: JsonObject | None = None,
        brief: Brief | None = None,
        results: Mapping[str, StoredValue] | None = None,
    ) -> list[JsonObject]:
        """See `Runner.verify`."""
        return await self._runner.verify(
            checks,
            bindings,
            result=result,
            artifacts=artifacts,
            inputs=self._inputs if inputs is None else inputs,
            brief=brief,
            results=results,
        )

    async def undo(
        self,
        orders: Sequence[WorkOrder],
        rows: Sequence[EffectRow],
        *,
        said: Mapping[str, Json],
        number: int,
    ) -> list[Question]:
        """See `Runner.undo`: ids are full ones in orders, rows and questions."""
        return await self._runner.undo(orders, rows, said=said, number=number)

    async def close(self) -> None:
        """See `Runner.close`."""
        await self._runner.close()

    def _local(self, id: str) -> str:
        return id.removeprefix(self._prefix)

    def _inward(self, outcome: Outcome) -> Outcome:
        inward = Outcome(**outcome)
        inward["subtask"] = self._local(outcome["subtask"])
        question = outcome.get("question")
        if question:
            inward["question"] = self._about(question)
        if "more_questions" in outcome:
            inward["more_questions"] = [self._about(one) for one in outcome["more_questions"]]
        return inward

    def _about(self, question: Question) -> Question:
        about = question["subtask"]
        return {**question, "subtask": self._local(about) if about else about}

    def _outward(self, outcome: Outcome) -> Outcome:
        outward = Outcome(**outcome)
        outward["subtask"] = self._prefix + outcome["subtask"]
        return outward
