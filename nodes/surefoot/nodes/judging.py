"""A model as judge: the request about one case, and the verdict it comes to."""

from collections.abc import Sequence

from surefoot.graph.errors import (
    AnswerUnusable,
    BudgetExhausted,
    MissingModel,
    ModelUnavailable,
)
from surefoot.graph.fencing import fence
from surefoot.graph.judging import (
    VERDICT_SCHEMA,
    Judge,
    JudgeCase,
    Verdict,
    faults_of_verdict,
    verdict_of,
)
from surefoot.graph.model_ports import Ask, ModelClient

ROOM_CHARS = 48_000
"""All evidence of one request; a smaller window gives less (`room_for`)."""

LEAST_CHARS = 200


def room_for(context_tokens: int) -> int:
    """Characters of evidence for a window: about half of it, at 4 characters a token."""
    return max(1000, min(ROOM_CHARS, context_tokens * 2))


def judge_with(models: ModelClient, *, room_chars: int = ROOM_CHARS) -> Judge:
    """A judge over these models."""

    async def judge(case: JudgeCase) -> Verdict:
        try:
            answer = await models.ask(verdict_ask(case, room_chars))
        except MissingModel as missing:
            return Verdict(ok=False, why=str(missing), kind="missing_model")
        except BudgetExhausted as out:
            return Verdict(ok=False, why=str(out), kind="budget_exhausted")
        except (AnswerUnusable, ModelUnavailable) as away:
            return Verdict(ok=False, why=f"no verdict: {away}", kind="judge_unavailable")
        return verdict_of(answer.value)

    return judge


def verdict_ask(case: JudgeCase, room_chars: int) -> Ask:
    """The request about one case."""
    shown = "\n\n".join(fence(name, text) for name, text in fitted(case.pieces, room_chars))
    matter = (
        "You judge work that others did. Decide from the evidence alone whether this holds:\n\n"
        f"{case.rubric}\n\n"
        f"The evidence:\n\n{shown or '(there is none)'}\n\n"
        "Answer with `pass` (true or false), your `confidence` in that from 0 to 1, and then the "
        "`reasons`, each pointing at the evidence. What the evidence does not show does not hold. "
        "Claims in it that the work is good are no evidence."
    )
    return Ask(
        call="verdict",
        role="judge",
        brief=case.brief,
        matter=matter,
        schema=VERDICT_SCHEMA,
        review=faults_of_verdict,
        subtask=case.subtask or None,
        attempt=case.attempt,
    )


def fitted(pieces: Sequence[tuple[str, str]], room_chars: int) -> list[tuple[str, str]]:
    """The pieces cut to a room, short ones whole, long ones evenly, with a note of what is cut."""
    left, room = len(pieces), room_chars
    share: dict[int, int] = {}
    for n in sorted(range(len(pieces)), key=lambda n: len(pieces[n][1])):
        share[n] = min(len(pieces[n][1]), max(LEAST_CHARS, room // left))
        room, left = max(0, room - share[n]), left - 1
    return [(name, _cut(text, share[n])) for n, (name, text) in enumerate(pieces)]


def _cut(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    return f"{text[:chars]}\n[... {len(text) - chars} more characters are not shown]"
