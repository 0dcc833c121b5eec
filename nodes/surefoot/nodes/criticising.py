"""A model's criticism of a failure: what the runner does for the action `reflect`.

Evidence comes first: what programs saw stands in the request, and the model may only turn it into
criticism and propose one of the choices that policy leaves. It runs beside other work and takes no
slot. An unusable answer or a model that is away is no failure: the policy then chooses itself.
"""

import time
from collections.abc import Callable, Sequence

from surefoot.graph.errors import AnswerUnusable, BudgetExhausted, MissingModel, ModelUnavailable
from surefoot.graph.fencing import fence
from surefoot.graph.model_ports import Ask, Brief, ModelClient
from surefoot.graph.ports import Clock, StopSign, SubtaskWork, WorkOrder
from surefoot.graph.reflecting import REFLECTION_SCHEMA, criticism_in
from surefoot.graph.values import JsonObject, Outcome

AWAY = (AnswerUnusable, ModelUnavailable, MissingModel, BudgetExhausted)
"""What leaves the choice to the policy: nobody said anything that can be used."""

MEANING: dict[str, str] = {
    "retry": "the same work once more, told your criticism",
    "degrade": "the simpler work that the plan keeps ready",
    "skip": "go on without it",
    "replan": "make the rest of the plan anew",
    "rollback": "go back to the last good state",
    "ask": "ask a person",
}


def criticise_with(models: ModelClient, *, clock: Clock = time.time) -> SubtaskWork:
    """The work of a reflection over these models."""

    async def work(order: WorkOrder, stop: StopSign) -> Outcome:
        del stop  # it is cancelled when it must stop
        started = clock()
        if order.brief is None:
            raise AssertionError("a reflection is asked with a brief")
        outcome = Outcome(
            subtask=order.subtask,
            action=order.action,
            attempt=order.attempt,
            ok=True,
            started=started,
            ended=started,
        )
        ask = reflection_ask(
            what=_what(order),
            evidence=order.criticism,
            choices=order.choices,
            brief=order.brief,
            subtask=order.subtask,
            attempt=order.attempt,
        )
        try:
            outcome["reflection"] = (await models.ask(ask)).value
        except AWAY as away:
            outcome["marks"] = [str(away)]
        outcome["calls"] = 0  # counted where models are paid for
        outcome["ended"] = clock()
        return outcome

    return work


def reflection_ask(
    *,
    what: str,
    evidence: str,
    choices: Sequence[str],
    brief: Brief,
    subtask: str | None = None,
    attempt: int = 0,
) -> Ask:
    """The question about one failure.

    Args:
        what: what was to be done.
        evidence: what programs saw of it.
        choices: what policy leaves.
        brief: of the task.
        subtask: that failed, None for a milestone.
        attempt: its number.
    """
    means = "\n".join(f"- {choice}: {MEANING[choice]}" for choice in choices)
    matter = (
        "Something did not hold. Programs decided that; it is not yours to judge.\n\n"
        f"What was to be done:\n{fence('the work', what)}\n\n"
        f"What was found:\n{fence('evidence', evidence)}\n\n"
        "Say in `criticism` what went wrong and what the next try must do differently, concretely "
        "and from this evidence alone. Then propose in `choice` one of these and nothing else:\n"
        f"{means}"
    )
    return Ask(
        call="reflection",
        role="judge",
        brief=brief,
        matter=matter,
        schema=REFLECTION_SCHEMA,
        review=_among(choices),
        rounds=2,
        optional=True,
        subtask=subtask,
        attempt=attempt,
    )


def _among(choices: Sequence[str]) -> Callable[[JsonObject], Sequence[str]]:
    def review(answer: JsonObject) -> Sequence[str]:
        choice, criticism = criticism_in(answer)
        faults = [] if choice in choices else [f"choice must be one of: {', '.join(choices)}"]
        return faults if criticism else [*faults, "criticism is empty"]

    return review


def _what(order: WorkOrder) -> str:
    work = order.work
    named = [order.subtask, order.unit.description, work.instructions]
    named += [f"it calls {work.tool}"] if work.tool else []
    outputs = work.artifact_names()
    named += [f"it must produce: {', '.join(outputs)}"] if outputs else []
    return "\n".join(part for part in named if part)
