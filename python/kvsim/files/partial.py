"""Files that are written whole, as the engine writes them: traces/output/README.md."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields the path of a new, empty file next to `path`, which gets that name at the end.

    On an exception nothing is left, and an earlier file stays. Raises KvsimError if a file cannot
    be made there, or not be brought down to the disk.
    """
    from .._engine import PartialFile

    partial = PartialFile(os.fspath(path))
    try:
        yield Path(partial.path)
        partial.commit()
    finally:
        partial.discard()


@contextmanager
def folder_aside(folder: Path, name: str) -> Iterator[Path]:
    """Yields a new, empty folder in `folder` for what will be called `name` there.

    It is removed at the end. What killed processes of this machine left is removed first.
    """
    from .._engine import own_partial_prefix, remove_left_behind

    remove_left_behind(os.fspath(folder / name))
    prefix = Path(own_partial_prefix(os.fspath(folder / name))).name
    with _own_folder(folder, prefix) as aside:
        yield Path(aside)


def put_in_place(
    files: Iterable[tuple[Path, Path]], aside: Path, removed: Iterable[Path] = ()
) -> None:
    """Renames each first file to the second, and removes the others: all of it, or nothing.

    The first files are in `aside`, on the file system of the second. On an exception the earlier
    files are put back. What is in place has been brought down to the disk. Raises OSError.
    """
    files, removed = list(files), [file for file in removed if file.exists()]
    changed = [file for _, file in files] + removed
    for new, _ in files:
        _bring_to_disk(new)
    with _own_folder(aside, "earlier") as folder:
        earlier = {file: Path(folder, f"{i}") for i, file in enumerate(changed) if file.exists()}
        for file, copy in earlier.items():
            shutil.copy2(file, copy)
        try:
            for new, file in files:
                new.replace(file)
            for file in removed:
                file.unlink()
            for folder_of_files in {file.parent: None for file in changed}:
                _bring_to_disk(folder_of_files)
        except BaseException:
            for file in changed:
                if file in earlier:
                    earlier[file].replace(file)
                else:
                    file.unlink(missing_ok=True)
            raise


def _own_folder(folder: Path, prefix: str) -> tempfile.TemporaryDirectory:
    """A folder that is removed at the end, or by the next process where that fails."""
    return tempfile.TemporaryDirectory(dir=folder, prefix=prefix, ignore_cleanup_errors=True)


def _bring_to_disk(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:  # not every file system can
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise
    finally:
        os.close(opened)
