"""The graph for LangGraph Studio and `langgraph dev`, which bring their own checkpointer."""

from surefoot.graph.build import build_task_graph

graph = build_task_graph().compile(name="surefoot")
