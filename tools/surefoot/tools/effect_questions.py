"""What people are asked about effects: the words, the choices, and what an answer means.

Answers arrive normalised (`order.said`); what may be answered is in `surefoot.graph.questions`.
"""

from collections.abc import Sequence
from typing import Literal

from surefoot.graph.plain import compact_json
from surefoot.graph.ports import EffectRow, ToolReply, WorkOrder
from surefoot.graph.recovery import Evidence, why_unknown
from surefoot.graph.values import Json, JsonObject, Question
from surefoot.tools.outcomes import digest_of, question, said
from surefoot.tools.unknown_effects import CallRequest

SHOWN_ARGS = 300
"""Characters of the arguments that a person is shown."""

SHOWN_CALLS = 3

Word = Literal["do", "reuse", "fail"]


# --- unknown_effect --------------------------------------------------------------------------


def ask_unknown(
    request: CallRequest, evidence: Evidence, attempt: int, after: ToolReply | None
) -> Question:
    """Ask whether a call took effect.

    Args:
        request: the call.
        evidence: what was found out so far.
        attempt: the attempt that made the call: an answer is about no later one.
        after: what the call ended with; None: its attempt was cut.
    """
    call, why = request.call, why_unknown(evidence)
    how = f"{after.status}: {after.message}" if after else "its attempt was cut"
    text = (
        f"{call.tool}({shown_args(call.args)}) of subtask {call.subtask!r} may or may not have"
        f" taken effect ({how}); {why}. Look outside what happened, or let"
        f" `surefoot resume {request.task_id}` look again."
    )
    return question(
        request.order,
        "unknown_effect",
        text,
        about=_of_call(request, attempt),
        choices=("done", "not_done", "fail"),
        facts=_facts(request),
    )


def what_became(request: CallRequest, attempt: int) -> ToolReply | Literal["fail"] | None:
    """What a person said of an unknown effect: `ok` with its result, `not_done`, or give it up."""
    answer = said(request.order, "unknown_effect", _of_call(request, attempt))
    match answer.get("choice"):
        case "done":
            return ToolReply(status="ok", value=answer.get("result"))
        case "not_done":
            return ToolReply(status="not_done")
        case "fail":
            return "fail"
        case _:
            return None


# --- approve ---------------------------------------------------------------------------------


def ask_approval(request: CallRequest) -> Question:
    """Ask whether a call may be made."""
    call = request.call
    text = f"May {call.tool}({shown_args(call.args)}) be called for subtask {call.subtask!r}?"
    return question(
        request.order,
        "approve",
        text,
        about=_of_call(request),
        choices=("yes", "no"),
        facts=_facts(request),
    )


def is_approved(request: CallRequest) -> bool | None:
    """What a person said to the call; None: nobody has."""
    choice = said(request.order, "approve", _of_call(request)).get("choice")
    return choice == "yes" if choice else None


# --- other_effect ----------------------------------------------------------------------------


def ask_other(request: CallRequest, left: Sequence[EffectRow]) -> Question:
    """Ask what to do with a call that means something else than what was left standing."""
    call = request.call
    done = "; ".join(f"{row.tool}({shown_args(row.args)})" for row in left[:SHOWN_CALLS])
    more = f" and {len(left) - SHOWN_CALLS} more" if len(left) > SHOWN_CALLS else ""
    text = (
        f"Work of subtask {call.subtask!r} was taken back or has failed, but what it did outside"
        f" stands and cannot be undone: {done}{more}. Now it wants"
        f" {call.tool}({shown_args(call.args)})."
        " `do` makes this one as well, `reuse` takes the newest result for it, `fail` gives it up."
    )
    return question(
        request.order,
        "other_effect",
        text,
        about=_of_call(request),
        choices=("do", "reuse", "fail"),
        facts={**_facts(request), "standing": [row.key for row in left]},
    )


def what_about_other(request: CallRequest) -> Word | None:
    """What a person said to it."""
    choice = said(request.order, "other_effect", _of_call(request)).get("choice")
    return choice if choice in ("do", "reuse", "fail") else None


# --- undo_failed -----------------------------------------------------------------------------


def ask_undo(order: WorkOrder, *, what: str, why: str, about: str, facts: JsonObject) -> Question:
    """Ask a person to undo what could not be undone.

    Args:
        order: the attempt that failed or starts from scratch.
        what: the call, in words.
        why: what stands in the way.
        about: see `undo_of`.
        facts: what the answer is applied to.
    """
    text = (
        f"{what} of subtask {order.subtask!r} could not be undone: {why}. Undo it outside"
        " (`undone`), or mend the cause (`retry`)."
    )
    return question(
        order,
        "undo_failed",
        text,
        about=about,
        choices=("undone", "retry"),
        facts=facts,
    )


def undo_of(key: str, scope: str, attempt: int) -> str:
    """What a question about one effect's way back is about."""
    return digest_of("undo", key, scope, attempt)


def what_about_undo(order: WorkOrder, about: str) -> Literal["undone", "retry"] | None:
    """What a person said to it: undone by hand, or to be tried again."""
    choice = said(order, "undo_failed", about).get("choice")
    return choice if choice in ("undone", "retry") else None


def shown_args(args: Json) -> str:
    """Arguments as a person is shown them."""
    text = compact_json(args)
    return text if len(text) <= SHOWN_ARGS else f"{text[:SHOWN_ARGS]}... ({len(text)} characters)"


def _of_call(request: CallRequest, attempt: int = 0) -> str:
    return digest_of(request.key.key, request.key.scope, attempt)


def _facts(request: CallRequest) -> JsonObject:
    key, call = request.key, request.call
    return {"tool": call.tool, "args": call.args, "key": key.key, "scope": key.scope}
