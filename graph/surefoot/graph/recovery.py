"""The recovery choice: what went wrong x effect x evidence x world -> one of four strategies.

Pure, and the only place where a strategy is chosen (design §5). Who asks has looked already: at
the ledger, at the tool's probe, at its way back, at the consistency report. The reason is the
sentence that `history` shows.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from surefoot.graph.tool_ports import EffectKind
from surefoot.graph.values import JsonObject

Strategy = Literal[
    "resume at the step", "rerun the subtask", "roll back to the stable point", "ask a person"
]

Mishap = Literal[
    "cut", "late", "raised", "timeout", "crashed", "not_done", "bad_result", "check_failed"
]
"""What happened to the attempt. `cut`: a crash, a pause or a take-over ended it, it counts nowhere;
`late`: an answer came for a call that had been given up. The others are ends of the attempt itself:
its call raised, ran out of time, lost its process, surely did nothing, returned what cannot be
kept, or did its work and was not accepted."""

LedgerSays = Literal["no row", "intent", "done", "failed", "compensated", "rolled_back"]
ProbeSays = Literal["happened", "not_happened", "cannot_tell", "none"]
WayBack = Literal["none", "possible", "done", "failed"]
"""A compensation, or the subtask's `undo` where one call is all it makes: not there, there and not
tried yet, taken, or blocked."""

World = Literal["holds", "own writes differ", "differs", "state lost"]
"""The consistency report: all is as the state says; only what the attempt may write is not; other
things are not; or the state itself (its checkpoints, its blobs) is not whole."""

_IN_DOUBT: tuple[Mishap, ...] = ("cut", "late", "raised", "timeout", "crashed")
"""After these it is open what became of a call that has an intent and no outcome."""

_GOES_ON: tuple[Mishap, ...] = ("cut", "late")
"""After these the attempt is not over: where it may be resumed it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one call's effect; the texts are for the reason."""

    ledger: LedgerSays = "no row"
    probe: ProbeSays = "none"
    probe_said: str = ""
    asked: str = "its probe"
    """Who was asked what happened: a person's word counts as a probe's."""
    way_back: WayBack = "none"
    way_back_said: str = ""

    @property
    def is_unknown(self) -> bool:
        """Whether it is still open what stands outside."""
        settled = self.probe in ("happened", "not_happened") or self.way_back == "done"
        return self.ledger == "intent" and not settled


@dataclass(frozen=True, slots=True)
class Recovery:
    """The choice and why."""

    strategy: Strategy
    reason: str

    def as_json(self) -> JsonObject:
        """As it travels in an outcome to the history."""
        return {"strategy": self.strategy, "reason": self.reason}


NOTHING_KNOWN = Evidence()

Effect: TypeAlias = EffectKind


def choose(
    mishap: Mishap,
    *,
    effect: Effect,
    evidence: Evidence = NOTHING_KNOWN,
    world: World = "holds",
    resumable: bool = True,
    stable: bool = True,
) -> Recovery:
    """Choose how work goes on after a mishap.

    Args:
        mishap: what happened to the attempt.
        effect: the class of the call it is about.
        evidence: what ledger, probe and way back say of that call.
        world: the consistency report.
        resumable: the plan lets a cut attempt go on where it was.
        stable: there is a whole snapshot to go back to.
    """
    if world == "state lost":
        return _go_back(stable, "the state is not whole: the newest snapshot that is whole holds")
    if world == "differs":
        return Recovery("ask a person", "the world is not what the state says")
    chosen = _by_effect(mishap, effect, evidence, resumable)
    if world == "holds" or chosen.strategy == "ask a person":
        return chosen
    if chosen.strategy == "resume at the step" and effect != "read":
        return chosen  # what lies there was written by the call that answers
    return _go_back(stable, f"what the attempt wrote is put back: {chosen.reason}")


def of_thread(mishap: Mishap, *, resumable: bool) -> Recovery:
    """The same for an agent's thread: every step is saved, its calls are looked at one by one.

    Args:
        mishap: what happened to the attempt.
        resumable: the plan lets a cut go continue.
    """
    if mishap not in _GOES_ON:
        return Recovery("rerun the subtask", "the attempt is over: a new go starts from scratch")
    if not resumable:
        return Recovery("rerun the subtask", _NOT_RESUMED)
    return Recovery("resume at the step", "its thread is saved at every step")


def in_thread(recovery: Recovery) -> Recovery:
    """What a call's recovery means for the thread that makes it, which itself is never rerun."""
    if recovery.strategy != "rerun the subtask":
        return recovery
    return Recovery("resume at the step", f"the call is made again: {recovery.reason}")


def why_unknown(evidence: Evidence) -> str:
    """What probe and way back came to, in words."""
    why = "it has no probe"
    if evidence.probe == "cannot_tell":
        said = f" ({evidence.probe_said})" if evidence.probe_said else ""
        why = f"its probe could not tell{said}"
    match evidence.way_back:
        case "none":
            return f"{why} and no compensation"
        case "possible":
            return f"{why}; its effect can be taken back"
        case "done":
            return f"{why}; its effect was {evidence.way_back_said or 'compensated'}"
        case "failed":
            said = f" ({evidence.way_back_said})" if evidence.way_back_said else ""
            return f"{why}; its compensation failed{said}"


_NOT_RESUMED = "it may not be resumed: what it did is undone, and it starts from scratch"
_ANSWERS = "what it did cannot be taken back: it stands, and answers the next attempt"


def _by_effect(mishap: Mishap, effect: Effect, evidence: Evidence, resumable: bool) -> Recovery:
    goes_on = mishap in _GOES_ON and resumable
    if mishap == "not_done":
        return Recovery("rerun the subtask", "it surely did nothing")
    if effect == "read":
        strategy: Strategy = "resume at the step" if goes_on else "rerun the subtask"
        return Recovery(strategy, "the tool only reads")
    if effect == "idempotent":
        return Recovery("rerun the subtask", "the effect is idempotent")
    match evidence.ledger:
        case "no row" | "failed":
            return Recovery("rerun the subtask", "no effect of it stands in the ledger")
        case "compensated":
            return Recovery("rerun the subtask", _compensated(evidence))
        case "done":
            why = "the ledger has the result of the call"
            return Recovery("resume at the step", why) if goes_on else _over(evidence, mishap)
        case "rolled_back":
            why = "what was taken back has left this effect standing, and it answers"
            return Recovery("resume at the step", why) if goes_on else _over(evidence, mishap)
        case "intent":
            return _unknown(mishap, evidence, resumable)


def _unknown(mishap: Mishap, evidence: Evidence, resumable: bool) -> Recovery:
    """The call was begun and nobody wrote what came of it."""
    if evidence.probe == "not_happened":
        return Recovery("rerun the subtask", f"{evidence.asked} says that it did not happen")
    if evidence.probe == "happened":
        if mishap in _IN_DOUBT and (resumable or mishap not in _GOES_ON):
            return Recovery("resume at the step", f"{evidence.asked} found the effect done")
        return _over(evidence, mishap)
    if evidence.way_back in ("possible", "done"):
        return Recovery("rerun the subtask", why_unknown(evidence))
    return Recovery("ask a person", why_unknown(evidence))


def _over(evidence: Evidence, mishap: Mishap) -> Recovery:
    """The effect is done and the attempt is over: it is taken back, or stands and answers."""
    if evidence.way_back == "failed":
        said = f" ({evidence.way_back_said})" if evidence.way_back_said else ""
        return Recovery("ask a person", f"what it did cannot be undone{said}")
    if evidence.way_back == "none":
        return Recovery("rerun the subtask", _ANSWERS)
    why = _NOT_RESUMED if mishap in _GOES_ON else "what the failed attempt did is undone"
    return Recovery("rerun the subtask", why)


def _compensated(evidence: Evidence) -> str:
    none = "no effect of it stands in the ledger"
    return why_unknown(evidence) if evidence.way_back == "done" else none


def _go_back(stable: bool, why: str) -> Recovery:
    if stable:
        return Recovery("roll back to the stable point", why)
    return Recovery("ask a person", f"{why}, but there is no snapshot to go back to")
