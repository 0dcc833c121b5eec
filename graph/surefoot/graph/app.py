"""The graph for LangGraph Studio and `langgraph dev`, compiled without a checkpointer of its own."""

from surefoot.graph.build import build_task_graph

graph = build_task_graph().compile(name="surefoot")
