"""Writing below a workspace so that a kill leaves the old or the new whole, and never a half.

Everything here blocks: call it in a thread. Links are replaced, never written through.
"""

import contextlib
import errno
import itertools
import os
import shutil
import stat
from collections.abc import Generator, Sequence

from surefoot.checkpointing.file_scan import WorkspaceUnavailable
from surefoot.checkpointing.manifests import Entry, from_text, to_text

OWNER = stat.S_IRWXU


class FileWriter:
    """Puts files, folders and links below one root.

    Args:
        root: the folder.
        mark: what the names of half-written files begin with; those of a process that was killed
            begin with its own.
    """

    def __init__(self, root: str, mark: str) -> None:
        self._root = root
        self._mark = mark
        self._numbers = itertools.count()
        self._touched: set[str] = set()

    def place(self, path: str) -> str:
        """Where a relative path is."""
        return f"{self._root}/{path}"

    def draft(self, path: str) -> str:
        """A new place beside a path, on the same file system."""
        return f"{os.path.dirname(self.place(path))}/{self._mark}{next(self._numbers)}"

    def begin(self, path: str, size: int) -> str:
        """Make an empty file of a size beside a path; returns its place.

        Raises:
            WorkspaceUnavailable: it cannot be written; so for all that follow.
        """
        draft = self.draft(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with _told(path):
            file = os.open(draft, flags, stat.S_IRUSR | stat.S_IWUSR)
            try:
                os.ftruncate(file, size)
            finally:
                os.close(file)
        return draft

    def write_at(self, draft: str, path: str, offset: int, content: bytes) -> None:
        """Write a part of a file that was begun."""
        with _told(path):
            file = os.open(draft, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                _write_at(file, offset, content)
            finally:
                os.close(file)

    def write(self, path: str, entry: Entry, content: bytes) -> None:
        """Write a file at once, in place of what is there."""
        draft = self.begin(path, 0)
        try:
            self.write_at(draft, path, 0, content)
            self.put(draft, path, entry)
        finally:
            self.drop(draft)

    def drop(self, draft: str) -> None:
        """Remove what was begun at a draft's place; it may have taken its own place already."""
        shutil.rmtree(draft, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(draft)

    def put(self, draft: str, path: str, entry: Entry) -> None:
        """Give a written file its mode and time, flush it, and let it take its place."""
        with _told(path):
            modified = entry.get("mtime_ns")
            if modified is not None:
                os.utime(draft, ns=(modified, modified))
            os.chmod(draft, entry.get("mode", stat.S_IRUSR | stat.S_IWUSR) | stat.S_IRUSR)
            _flush(draft)
            os.chmod(draft, entry.get("mode", stat.S_IRUSR | stat.S_IWUSR))
            os.replace(draft, self.place(path))
            self._touch(path)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link, in place of what is there."""
        with _told(path):
            draft = self.draft(path)
            os.symlink(from_text(target), draft)
            os.replace(draft, self.place(path))
            self._touch(path)

    def make_folder(self, path: str) -> None:
        """Make a folder that its owner may change; it may be there already."""
        with _told(path):
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.place(path), OWNER)
                self._touch(path)
            found = os.lstat(self.place(path))
            if not stat.S_ISDIR(found.st_mode):
                raise NotADirectoryError(f"{path} is no folder")
            os.chmod(self.place(path), stat.S_IMODE(found.st_mode) | OWNER)

    def set_mode(self, path: str, mode: int) -> None:
        """Set the permissions of a file or folder, never of what a link points to."""
        with _told(path):
            if not stat.S_ISLNK(os.lstat(self.place(path)).st_mode):
                os.chmod(self.place(path), mode)
                self._touch(path)

    def remove(self, path: str) -> bool:
        """Remove a file, a link, or a folder where it is empty; False: it was not empty."""
        with _told(path):
            place = self.place(path)
            try:
                if stat.S_ISDIR(os.lstat(place).st_mode):
                    os.rmdir(place)
                else:
                    os.unlink(place)
            except FileNotFoundError:
                return True
            except OSError:
                if os.path.isdir(place) and os.listdir(place):
                    return False
                raise
            self._touch(path)
            return True

    def sweep(self, drafts: Sequence[str], task: str) -> None:
        """Remove what a killed process of this task had half written (paths of a scan)."""
        for path in drafts:
            name = os.path.basename(path)
            if not name.startswith(task) or name.startswith(self._mark):
                continue
            self.drop(self.place(path))

    def flush(self) -> None:
        """Make durable which names there are: all folders that were touched since the last time."""
        touched, self._touched = self._touched, set()
        for folder in sorted(touched):
            with _told(folder):
                _flush_folder(folder)

    def _touch(self, path: str) -> None:
        self._touched.add(os.path.dirname(self.place(path)))


def try_to_open(place: str, bits: int) -> bool:
    """Give the owner these permissions, where that is allowed."""
    try:
        os.chmod(place, stat.S_IMODE(os.lstat(place).st_mode) | bits)
    except OSError:
        return False
    return True


def _write_at(file: int, offset: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        written = os.pwrite(file, left, offset)
        offset += written
        left = left[written:]


def _flush(place: str) -> None:
    file = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _flush_folder(place: str) -> None:
    """Flush a folder that may be gone since, or have given its place to something else."""
    try:
        file = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            return
        raise
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextlib.contextmanager
def _told(path: str) -> Generator[None]:
    try:
        yield
    except OSError as exc:
        raise WorkspaceUnavailable(
            f"{to_text(path)} cannot be put back: {exc.strerror or exc}"
        ) from exc
