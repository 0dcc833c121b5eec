"""The tools of one attempt of an agent: every call that its model asks for, made at most once.

What a model can mend (a wrong name, arguments, a prohibition, a tool's error) comes back as words.
What it cannot (nobody knows whether an effect happened; we are stopping) is raised.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence

from surefoot.graph.agent_ports import FINISH, CallAnswer, Earlier, Finished, MadeCall
from surefoot.graph.attempts import DEFAULTS, effect_of
from surefoot.graph.decision_record import READ_DECISIONS, read_decisions
from surefoot.graph.fencing import fence
from surefoot.graph.keys import call_digest
from surefoot.graph.model_ports import ToolUse
from surefoot.graph.plain import NotJson, TooLarge, clean_json, compact_json
from surefoot.graph.ports import ArtifactStore, ToolSpec, WorkOrder
from surefoot.graph.reading import READ_MORE, READ_MORE_SCHEMA, cut_text, read_more
from surefoot.graph.recovery import of_thread
from surefoot.graph.values import Json, JsonObject, StoredValue
from surefoot.tools.agent_words import (
    Matter,
    as_result_text,
    failure_words,
    refusal_words,
    result_words,
    schemas_of,
)
from surefoot.tools.bindings import Scope, ValueCache
from surefoot.tools.call_ends import CallEnd
from surefoot.tools.call_requests import AskedCall, CallRequests
from surefoot.tools.effect_calls import EffectCalls
from surefoot.tools.kept_values import KeptResult, keep_value, too_large
from surefoot.tools.outcomes import AttemptFailed, PersonNeeded
from surefoot.tools.stopping import Stop

OWN = (FINISH, READ_MORE, READ_DECISIONS)
"""Functions of our own: an agent always has them, whatever its tools."""


class OrderCalls:
    """`AgentCalls` for one order. `made` and `recovery` are told in its outcome."""

    def __init__(
        self,
        order: WorkOrder,
        stop: Stop,
        *,
        matter: Matter,
        scope: Scope,
        specs: Sequence[ToolSpec],
        writes: tuple[str, ...] | None,
        requests: CallRequests,
        calls: EffectCalls,
        values: ValueCache,
        store: ArtifactStore,
        count: Callable[[], None],
    ) -> None:
        self.order, self.stop, self.scope = order, stop, scope
        self.made = 0
        self.recovery: JsonObject | None = _of_go(order)
        self._long = matter.long
        self._matter = matter.text
        self._specs = {spec.name: spec for spec in specs if spec.name not in OWN}
        self._schemas = [*schemas_of(order.work, [*self._specs.values()]), READ_MORE_SCHEMA]
        self.writes = writes
        self._requests, self._calls = requests, calls
        self._values, self._store = values, store
        self._count = count
        self._recovering = order.recovering and order.go != order.attempt

    @property
    def may_write(self) -> bool:
        """Whether a tool of it does more than read."""
        return any(spec.effect != "read" for spec in self._specs.values())

    @property
    def schemas(self) -> Sequence[JsonObject]:
        """See `AgentCalls.schemas`."""
        return self._schemas

    @property
    def matter(self) -> str:
        """See `AgentCalls.matter`."""
        return self._matter

    async def make(self, use: ToolUse, earlier: Earlier, *, seconds_left: float) -> CallAnswer:
        """See `AgentCalls.make`.

        Raises:
            BudgetExhausted: no step is left for the call; it was not made.
            AttemptFailed: nobody knows whether an effect happened, and nobody may be asked.
            PersonNeeded: a person must approve the call, or look what became of it.
            Cut: we are stopping.
        """
        args, fault = self._usable(use)
        if args is None:
            return _refused(use.name, {}, "bad_arguments", fault)
        if use.name == FINISH:
            return await self._finish(args, use.args or {})
        if use.name == READ_MORE:
            return await self._read_more(args, earlier)
        if use.name == READ_DECISIONS:
            return self._read_decisions(args)
        return await self._call(self._specs[use.name], args, earlier, seconds_left)

    def _usable(self, use: ToolUse) -> tuple[JsonObject | None, str]:
        if use.name not in self._specs and use.name not in OWN:
            names = ", ".join([*self._specs, FINISH])
            return None, f"there is no tool {use.name!r} here; there are: {names}"
        if use.args is None:
            return None, use.fault or "its arguments are no JSON object"
        try:
            return clean_json(use.args)[0], ""
        except (NotJson, TooLarge) as wrong:
            return None, f"its arguments cannot be used: {wrong}"

    # --- tools -------------------------------------------------------------------------------

    async def _call(
        self, spec: ToolSpec, args: JsonObject, earlier: Earlier, seconds_left: float
    ) -> CallAnswer:
        asked = self._asked(spec, args, earlier, seconds_left)
        try:
            request = await self._requests.asked(self.order, asked, self.stop)
        except AttemptFailed as refused:
            why = refused.failure
            return _refused(spec.name, args, why["kind"], why["message"])
        end = await self._calls.make(request)
        if self._recovering and end.recovery is not None:
            self.recovery = end.recovery
        self._recovering = False
        self.made += end.calls
        if end.question is not None:
            raise PersonNeeded(end.question)
        if end.failure is not None:
            return self._failed(spec.name, args, end)
        if end.kept is None:
            raise AssertionError("a call ends with a result, a failure or a question")
        return await self._succeeded(asked, end.kept, end.calls)

    def _asked(
        self, spec: ToolSpec, args: JsonObject, earlier: Earlier, seconds_left: float
    ) -> AskedCall:
        call = call_digest(spec.name, args)
        limit = spec.timeout_s or DEFAULTS[effect_of(spec, self.order.work)][0]
        return AskedCall(
            tool=spec.name,
            args=args,
            step=earlier.step,
            ordinal=1 + sum(one["call"] == call and one["took"] for one in earlier.made),
            timeout_s=min(limit, seconds_left),
            writes=self.writes,
            recovering=self._recovering,
            count=self._count,
            artifacts=earlier.artifacts,
            made=tuple(one["call"] for one in earlier.made if one["took"]),
        )

    def _failed(self, tool: str, args: JsonObject, end: CallEnd) -> CallAnswer:
        failure = end.failure
        if failure is None or failure["kind"] == "unknown_effect":
            why = failure["message"] if failure else ""
            raise AttemptFailed("unknown_effect", why, retryable=False)
        text = failure_words(tool, failure["kind"], failure["message"])
        # What took effect, but whose result cannot be kept, did take effect.
        took = failure["kind"] in ("not_json", "result_too_large")
        made = _made(tool, args, text, took=took)
        return CallAnswer(text=text, made=made, ok=False, calls=end.calls)

    async def _succeeded(self, asked: AskedCall, kept: KeptResult, calls: int) -> CallAnswer:
        value = await self._values.load(kept.stored)
        name = f"{asked.tool}-{asked.step}"
        names = [ref["name"] for ref in kept.artifacts]
        text = result_words(name, value, names, kept.marks)
        cut = cut_text(name, as_result_text(value))[1]
        return CallAnswer(
            text=text,
            made=_made(asked.tool, asked.args, as_result_text(value), took=True),
            calls=calls,
            artifacts=kept.artifacts,
            long={name: kept.stored} if cut else {},
        )

    # --- our own functions -------------------------------------------------------------------

    async def _finish(self, args: JsonObject, as_given: JsonObject) -> CallAnswer:
        if "result" not in args or len(args) > 1:
            return _refused(FINISH, args, "bad_arguments", "give exactly one argument: `result`")
        value, marks = clean_json(as_given["result"])
        failure = too_large(len(compact_json(value).encode()))
        if failure is not None:
            return _refused(FINISH, {}, failure["kind"], failure["message"])
        finished = Finished(result=await keep_value(self._store, value), marks=marks)
        made = _made(FINISH, args, "", took=True)
        return CallAnswer(text="The subtask has ended.", made=made, finished=finished)

    async def _read_more(self, args: JsonObject, earlier: Earlier) -> CallAnswer:
        name = str(args.get("name") or "")
        part = read_more(await self._sources(name, earlier.long), args)
        if "error" in part:
            return _refused(READ_MORE, args, "bad_arguments", str(part["error"]))
        text = str(part["text"])
        following = part["next"]
        goes_on = "that is the end" if following is None else f"go on with offset {following}"
        note = f"from character {part['offset']} of {part['total']}; {goes_on}"
        made = _made(READ_MORE, args, text, took=False)
        return CallAnswer(text=f"{fence(name, text)}\n[{note}]", made=made)

    async def _sources(self, name: str, stored: Mapping[str, StoredValue]) -> dict[str, str]:
        """The long texts by name; only the one asked for is read."""
        known: dict[str, str] = {**dict.fromkeys(stored, ""), **self._long}
        if name in stored:
            known[name] = as_result_text(await self._values.load(stored[name]))
        return known

    def _read_decisions(self, args: JsonObject) -> CallAnswer:
        brief = self.order.brief
        page = read_decisions(brief.decisions if brief else (), args)
        text = compact_json(page)
        return CallAnswer(text=text, made=_made(READ_DECISIONS, args, text, took=False))


def _of_go(order: WorkOrder) -> JsonObject | None:
    """How the go of a cut attempt is recovered, before any of its calls says more."""
    if not order.recovering or order.answered:
        return None
    return of_thread("cut", resumable=order.go != order.attempt).as_json()


def _refused(tool: str, args: JsonObject, kind: str, why: str) -> CallAnswer:
    text = refusal_words(tool, kind, why)
    return CallAnswer(text=text, made=_made(tool, args, text, took=False), ok=False)


def _made(tool: str, args: Json, result: str, *, took: bool) -> MadeCall:
    fingerprint = hashlib.sha256(result.encode(errors="replace")).hexdigest()
    return MadeCall(tool=tool, call=call_digest(tool, args), result=fingerprint, took=took)
