"""What runs the work of one task, put together: requests, calls, checks, ways back, containers.

The runner decides when something runs; how it is done is here.
"""

from collections.abc import Sequence
from pathlib import Path

from surefoot.graph.agent_ports import OnStep
from surefoot.graph.judging import Judge
from surefoot.graph.ports import ArtifactStore, Clock, Ledger, ToolHost, Workspace
from surefoot.graph.task import Prohibition
from surefoot.graph.values import JsonObject
from surefoot.tools.agent_work import AgentWork
from surefoot.tools.attempt import Attempts
from surefoot.tools.bindings import ValueCache
from surefoot.tools.call_requests import CallRequests, Surroundings, declared_paths
from surefoot.tools.compensating import Compensations
from surefoot.tools.containers import Containers
from surefoot.tools.effect_calls import EffectCalls
from surefoot.tools.groups import GroupEnds
from surefoot.tools.prohibitions import Prohibitions
from surefoot.tools.taking_back import TakingBack
from surefoot.tools.undoing import Undoing
from surefoot.tools.verification import Verifier


class Workshop:
    """The parts that a task's runner works with. Arguments as `LocalRunner`'s.

    Raises:
        ReferenceMissing: a prohibition names an input that does not exist.
    """

    def __init__(
        self,
        *,
        task_id: str,
        host: ToolHost,
        ledger: Ledger,
        store: ArtifactStore,
        workspace: Path,
        task_dir: Path,
        task_folder: Path,
        inputs: JsonObject,
        prohibitions: Sequence[Prohibition],
        clock: Clock,
        snapshots: Workspace,
        on_step: OnStep | None,
        judge: Judge | None,
    ) -> None:
        self._place = (inputs, workspace)
        values = ValueCache(store)
        around = Surroundings(
            task_id=task_id,
            inputs=inputs,
            artifacts_folder=task_folder / "artifacts",
            readable=declared_paths(inputs),
        )
        self.verifier = Verifier(
            host=host,
            store=store,
            values=values,
            task_id=task_id,
            workspace=workspace,
            task_dir=task_dir,
            copies=task_folder / "checked",
            readable=around.readable,
            judge=judge,
        )
        self.requests = CallRequests(
            around,
            host=host,
            store=store,
            values=values,
            prohibitions=Prohibitions(prohibitions, inputs=inputs, workspace=workspace),
        )
        calls = EffectCalls(host=host, ledger=ledger, store=store, values=values, on_step=on_step)
        self.compensations = Compensations(
            task_id=task_id,
            host=host,
            ledger=ledger,
            values=values,
            readable=around.readable,
            prohibitions=lambda: self.requests.prohibitions,
        )
        undoing = Undoing(
            host=host,
            ledger=ledger,
            requests=self.requests,
            calls=calls,
            compensations=self.compensations,
        )
        self.taking_back = TakingBack(
            ledger=ledger,
            requests=self.requests,
            compensations=self.compensations,
            undoing=undoing,
        )
        self.attempts = Attempts(
            requests=self.requests,
            calls=calls,
            verifier=self.verifier,
            undoing=undoing,
            workspace=snapshots,
            clock=clock,
        )
        self.agent_work = AgentWork(
            host=host,
            requests=self.requests,
            calls=calls,
            attempts=self.attempts,
            undoing=undoing,
            workspace=snapshots,
            values=values,
            store=store,
            clock=clock,
        )
        self.containers = Containers(
            requests=self.requests, verifier=self.verifier, store=store, clock=clock
        )
        self.groups = GroupEnds(
            requests=self.requests, verifier=self.verifier, store=store, clock=clock
        )

    def prohibit(self, prohibitions: Sequence[Prohibition]) -> None:
        """Enforce these typed prohibitions from here on, in place of those before.

        Raises:
            ReferenceMissing: one names an input that does not exist.
        """
        inputs, workspace = self._place
        self.requests.prohibitions = Prohibitions(prohibitions, inputs=inputs, workspace=workspace)
