"""The strict serializer of checkpoints, exact for integers of any size."""

from dataclasses import replace
from typing import Any, cast

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import EXT_CONSTRUCTOR_POS_ARGS, JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot  # pyright: ignore[reportPrivateUsage] - the saver's own wrapper has no public name
from langgraph.types import Overwrite


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer in strict mode, whatever the environment says.

    msgpack holds integers of 64 bits. A longer one travels as the call `int("<hex>", 16)`, which
    strict mode here allows; a stock serializer in strict mode shows its hex text instead.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=[("builtins", "int")])

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """As the stock serializer; big integers only cost something where there are any."""
        try:
            return super().dumps_typed(obj)
        except ormsgpack.MsgpackEncodeError:
            return super().dumps_typed(_without_big_integers(obj))


def _without_big_integers(value: Any) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        call = ("builtins", "int", (f"{value:x}", 16))
        return ormsgpack.Ext(EXT_CONSTRUCTOR_POS_ARGS, ormsgpack.packb(call))
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {key: _without_big_integers(item) for key, item in pairs}
    if isinstance(value, _DeltaSnapshot):
        return _DeltaSnapshot(_without_big_integers(value.value))
    if isinstance(value, Overwrite):
        return replace(value, value=_without_big_integers(value.value))
    if isinstance(value, list | tuple):
        return [_without_big_integers(item) for item in cast("list[Any]", value)]
    return value
