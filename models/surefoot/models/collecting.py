"""Putting the pieces of a streamed answer together, in linear time.

Not with LangChain's `+` on chunks: that parses the arguments of a tool call anew at every piece.
"""

from typing import Any

from langchain_core.messages import AIMessageChunk

from surefoot.graph.plain import clean_text
from surefoot.models.calls import CalledTool, CallFailed, Received


class Pieces:
    """What has come of an answer so far."""

    def __init__(self) -> None:
        self.begun = False
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._finish = ""
        self._usage: tuple[int, int] | None = None

    def add(self, chunk: AIMessageChunk) -> None:
        """One piece of a stream."""
        self.begun = True
        content: Any = chunk.content
        self._text.append(content if isinstance(content, str) else str(chunk.text))
        self._refusal.append(str(chunk.additional_kwargs.get("refusal") or ""))
        self._finish = str(chunk.response_metadata.get("finish_reason") or "") or self._finish
        if chunk.usage_metadata is not None:
            self._usage = (
                chunk.usage_metadata["input_tokens"],
                chunk.usage_metadata["output_tokens"],
            )
        for piece in chunk.tool_call_chunks:
            index = piece.get("index")
            call = self._calls.setdefault(index if index is not None else 0, _Call())
            call.id = call.id or piece.get("id") or ""
            call.name = call.name or piece.get("name") or ""
            call.arguments.append(piece.get("args") or "")

    def received(self) -> Received:
        """The whole answer.

        Raises:
            CallFailed: the server never said that it was done: half an answer is none.
        """
        if not self._finish:
            raise CallFailed("broken", "no_end", "the answer ended without an end mark")
        prompt, answer = self._usage or (None, None)
        return Received(
            text="".join(self._text),
            tools=tuple(
                CalledTool(id=c.id, name=clean_text(c.name), arguments="".join(c.arguments))
                for _, c in sorted(self._calls.items())
            ),
            finish=self._finish,
            refusal="".join(self._refusal),
            prompt_tokens=prompt,
            answer_tokens=answer,
        )


class _Call:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []
