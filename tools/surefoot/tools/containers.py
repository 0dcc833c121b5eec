"""The two ends of a foreach: its list before the children, its result after them.

Neither takes a slot nor calls a tool. Children's results are put together as text, so that a
list of ten thousand is never parsed only to be written again.
"""

import asyncio
from collections.abc import Sequence

from surefoot.graph.errors import PermanentError, ReferenceMissing
from surefoot.graph.plain import compact_json
from surefoot.graph.ports import ArtifactStore, Binding, Clock, WorkOrder
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.values import INLINE_BYTES, ArtifactRef, Json, Outcome, StoredValue
from surefoot.tools.attempt import judge
from surefoot.tools.bindings import newest
from surefoot.tools.call_requests import CallRequests
from surefoot.tools.evidence import Evidence
from surefoot.tools.kept_values import KeptResult, keep_text, keep_value, too_large
from surefoot.tools.outcomes import (
    AttemptFailed,
    PersonNeeded,
    accepted,
    not_accepted,
    stopped,
    undecided,
)
from surefoot.tools.stopping import Cut, Stop
from surefoot.tools.verification import Verifier

INLINE_AT_ONCE = 1000
"""After this many children others get a turn on the loop."""


class Containers:
    """Expands and gathers the foreach subtasks of one task."""

    def __init__(
        self,
        *,
        requests: CallRequests,
        verifier: Verifier,
        store: ArtifactStore,
        clock: Clock,
    ) -> None:
        self._requests = requests
        self._verifier = verifier
        self._store = store
        self._clock = clock

    async def run(self, order: WorkOrder, stop: Stop) -> Outcome:
        """The outcome of an `expand` or `gather` order."""
        started = self._clock()
        work = self._expand if order.action == "expand" else self._gather
        try:
            outcome = await work(order, started, stop)
        except Cut:
            outcome = stopped(order, started, self._clock())
        except AttemptFailed as failure:
            outcome = not_accepted(order, started, self._clock(), failure)
        except PersonNeeded as needed:
            outcome = undecided(order, started, self._clock(), needed)
        except PermanentError as damaged:
            failure = AttemptFailed("inconsistent_state", str(damaged), retryable=False)
            outcome = not_accepted(order, started, self._clock(), failure)
        outcome["calls"] = 0
        return outcome

    async def _expand(self, order: WorkOrder, started: float, stop: Stop) -> Outcome:
        """The list that `for_each` means; `n` is its length."""
        scope = self._requests.scope(order)
        try:
            items = await stop.guard(scope.resolve(order.work.for_each))
        except ReferenceMissing as missing:
            raise AttemptFailed("bad_reference", str(missing), retryable=False) from None
        if items is None and scope.nulled:
            why = f"for_each is null because it was skipped: {', '.join(sorted(scope.nulled))}"
            raise AttemptFailed("bad_arguments", why, retryable=False, null_reference=True)
        if not is_array(items):
            why = f"for_each must be a list, but it is {_kind(items)}"
            raise AttemptFailed("not_a_list", why, retryable=False)
        kept = await keep_value(self._store, items)
        outcome = accepted(order, started, self._clock(), KeptResult(stored=kept))
        outcome.pop("artifacts", None)  # the list belongs to the subtask that made it
        outcome["n"] = len(items)
        return outcome

    async def _gather(self, order: WorkOrder, started: float, stop: Stop) -> Outcome:
        """The results of the children in item order, null for skipped ones, checked as a whole."""
        binding = order.bindings.get(order.local) or Binding(result=None)
        children = binding.children
        kept = KeptResult(stored=await stop.guard(self._put_together(children)))
        skipped = frozenset(n for n, child in enumerate(children) if child.result is None)
        alive = [child for child in children if child.result is not None]
        for name in order.work.artifact_names():
            if any(newest(child.artifacts, name) is None for child in alive):
                raise AttemptFailed("missing_output", f"not every child put {name}")
        checks = []
        if order.work.success:
            evidence = Evidence(
                scope=self._requests.scope(order),
                result=kept.stored,
                artifacts=lambda name: _of_children(order.local, alive, name),
                names=tuple(sorted({ref["name"] for one in alive for ref in one.artifacts})),
                skipping=skipped,
                subtask=order.subtask,
                attempt=order.attempt,
            )
            checks = await judge(self._verifier, order, evidence, stop, kept)
        outcome = accepted(order, started, self._clock(), kept)
        if checks:
            outcome["checks"] = checks
        return outcome

    async def _put_together(self, children: Sequence[Binding]) -> StoredValue:
        texts: list[bytes] = []
        size = 2
        for n, child in enumerate(children):
            text = await self._text(child.result)
            size += len(text) + 1
            failure = too_large(size)
            if failure is not None:
                raise AttemptFailed(failure["kind"], failure["message"], retryable=False)
            texts.append(text)
            if n % INLINE_AT_ONCE == INLINE_AT_ONCE - 1:
                await asyncio.sleep(0)
        content = b"[" + b",".join(texts) + b"]"
        if len(content) > INLINE_BYTES or any(_is_blob(child.result) for child in children):
            return await keep_text(self._store, content)
        return {"value": [(child.result or {}).get("value") for child in children]}

    async def _text(self, result: StoredValue | None) -> bytes:
        if result is None:
            return b"null"
        sha256 = result.get("sha256")
        if sha256 is None:
            return compact_json(result.get("value")).encode()
        return await self._store.get_bytes(sha256)


def _is_blob(result: StoredValue | None) -> bool:
    return result is not None and "sha256" in result


def _of_children(id: str, alive: Sequence[Binding], name: str) -> list[ArtifactRef] | None:
    """One version per child that was not skipped; None when a child has none of that name."""
    producer, _, bare = name.rpartition("/")
    if producer not in ("", id):
        return None
    refs = [ref for child in alive if (ref := newest(child.artifacts, bare)) is not None]
    return refs if len(refs) == len(alive) else None


def _kind(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "text"
    return "a mapping" if is_object(value) else "a number"
