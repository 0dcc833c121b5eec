"""The task graph's door: what an app outside builds and compiles (contract §5).

Its nodes and ways are in `assembly`.
"""

from collections.abc import Sequence

from langchain_core.tools import BaseTool

from surefoot.graph.assembly import OneContext, TaskGraph, assemble
from surefoot.graph.goes import Goes
from surefoot.graph.hosting import HostedContexts
from surefoot.nodes.context import TaskContext

__all__ = ["TaskGraph", "build_task_graph"]


def build_task_graph(
    *, tools: Sequence[BaseTool] = (), context: TaskContext | None = None
) -> TaskGraph:
    """Build the uncompiled task graph; compile it with any checkpointer.

    Args:
        tools: tools passed as objects (closures, notebooks), beside the task file's modules.
        context: of the one task to run; without it the graph opens the database that the
            environment names on first use, and the thread id is the task id.
    """
    if context is not None:
        return assemble(OneContext(context))
    hosted = HostedContexts(tools)
    graph = assemble(hosted)
    graph.callbacks = (Goes(hosted.go_ended),)
    return graph
