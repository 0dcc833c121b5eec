"""The garbage collector during start-up: it has nothing to find there and looks at everything."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_at_rest() -> Generator[None]:
    """Import without collecting; what was imported is not looked through again afterwards.

    Importing LangGraph makes hundreds of thousands of objects that all stay: a sixth of its time
    went into looking for garbage among them. A host app's own setting is left as it was.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
