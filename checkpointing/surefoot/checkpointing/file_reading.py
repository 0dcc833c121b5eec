"""Reading one file of a workspace whole: the content that belongs to the metadata told with it.

A file that changes while it is read is read again, a few times. Links and pipes that take a file's
place meanwhile are not opened. Of a sparse file only the blocks that hold data are read.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

from surefoot.checkpointing.file_scan import WorkspaceUnavailable, stamp

T = TypeVar("T")

BLOCK_BYTES = 8 * 1024 * 1024
"""A sparse file is stored in blocks of this size; so large a file at most is held in memory."""

CHUNK_BYTES = 1024 * 1024
READS = 5
"""How often a file that changes under our eyes is read."""


class Changed(Exception):
    """The file changed while it was read, or something else is there now."""


def steadily(path: str, read: Callable[[], T]) -> T:
    """Read until a file held still.

    Raises:
        FileNotFoundError, PermissionError: it is gone, or may not be read.
        WorkspaceUnavailable: it never held still, or cannot be read for another reason.
    """
    try:
        for _ in range(READS):
            with contextlib.suppress(Changed):
                return read()
    except (FileNotFoundError, PermissionError):
        raise
    except OSError as exc:
        raise WorkspaceUnavailable(f"{path} cannot be read: {exc.strerror or exc}") from exc
    raise WorkspaceUnavailable(f"{path} keeps changing while it is read; who else writes it?")


@contextlib.contextmanager
def opened(path: str) -> Generator[tuple[int, os.stat_result]]:
    """A descriptor of a regular file, and its metadata.

    Raises:
        Changed: it is no regular file (any more), or changed while it was open.
    """
    try:
        # O_NONBLOCK: a pipe that has taken the file's place must not hold us up.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENXIO, errno.ENOTDIR):
            raise Changed from exc
        raise
    try:
        before = os.fstat(file)
        if not stat.S_ISREG(before.st_mode):
            raise Changed
        yield file, before
        if stamp(os.fstat(file)) != stamp(before):
            raise Changed
    finally:
        os.close(file)


def read_all(file: int, size: int) -> bytes:
    """So many bytes of a file.

    Raises:
        Changed: there are fewer.
    """
    parts: list[bytes] = []
    left = size
    while left:
        part = os.read(file, min(left, CHUNK_BYTES))
        if not part:
            raise Changed
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def sha256_of(file: int) -> str:
    """The digest of a file's whole content, read in chunks."""
    digest = hashlib.sha256()
    os.lseek(file, 0, os.SEEK_SET)
    while chunk := os.read(file, CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def is_sparse(file: int, found: os.stat_result) -> bool:
    """Whether a file has a hole of the size of a block or more."""
    if found.st_blocks * 512 + BLOCK_BYTES > found.st_size:
        return False  # without asking: nearly every file
    try:
        return os.lseek(file, 0, os.SEEK_HOLE) < found.st_size
    except OSError:
        return False  # the file system knows of no holes


def blocks(file: int, size: int) -> Iterator[tuple[int, bytes]]:
    """(number, content) of the blocks that hold anything but zeros.

    Raises:
        Changed: the file became shorter.
    """
    at = 0
    while at < size:
        try:
            data = os.lseek(file, at, os.SEEK_DATA)
        except OSError as exc:
            if exc.errno == errno.ENXIO:
                return  # nothing but a hole up to the end
            raise
        number = data // BLOCK_BYTES
        begin = number * BLOCK_BYTES
        os.lseek(file, begin, os.SEEK_SET)
        content = read_all(file, min(BLOCK_BYTES, size - begin))
        if content.count(0) != len(content):
            yield number, content
        at = begin + BLOCK_BYTES
