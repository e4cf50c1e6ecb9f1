"""The store: numbered folders, one for each experiment.

It makes a folder for a new experiment, lists the experiments, and finds one by number, name or
path.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pgdyno import clock
from pgdyno.errors import StoreError
from pgdyno.quantities import is_whole
from pgdyno.store import files
from pgdyno.store.files import FORMAT_VERSION
from pgdyno.store.folder import IDENTITY, ExperimentFolder, read_identity

DEFAULT_ROOT = "pgdyno-runs"
INDEX = ".index"
_LAST_NUMBER = ".last-number"
_LISTED_AT_MOST = 5
# If the disk has no room for this probe, it has none for a result.
_PROBE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ListedExperiment:
    """One line of `pgdyno list`."""

    number: int
    verb: str
    name: str
    began_ns: int
    run_count: int
    incomplete_count: int
    is_sealed: bool
    sentence: str
    folder: Path
    is_complete: bool
    """False while the experiment is measured, and if it was interrupted before its plan ended."""
    judged_count: int
    """Runs that the answer is made of; `valid_count` of them are valid."""
    valid_count: int
    undo_count: int
    """Number of servers whose settings wait for `pgdyno undo`."""
    is_journal_damaged: bool
    """The journal of changes may miss settings that are still changed."""
    altered: tuple[str, ...]
    """Files that are missing or new, or whose size changed after the result was sealed."""
    is_number_shared: bool
    """Another folder has the same number, because stores were copied together."""
    notes: tuple[str, ...]
    """What people noted, each with its time."""

    @property
    def handle(self) -> str:
        """Return the word that names only this result: its number, or its folder."""
        return self.folder.name if self.is_number_shared else str(self.number)


class Store:
    """All results below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def default(cls, given: Path | str | None = None) -> Store:
        """Return the store of --store, else of $PGDYNO_STORE, else ./pgdyno-runs.

        Raises: StoreError if the path is relative and the working directory was removed.
        """
        path = Path(given or os.environ.get("PGDYNO_STORE") or DEFAULT_ROOT)
        try:
            return cls(path.absolute())
        except FileNotFoundError as error:
            raise StoreError(
                f"The working directory no longer exists, so {path} has no meaning.",
                hint="change to a folder that exists, or give --store an absolute path",
            ) from error

    def create(self, slug: str, verb: str, *, began_ns: int | None = None) -> ExperimentFolder:
        """Create the folder of a new experiment, with the next number, and return it.

        Two processes may do this at the same time.
        Args: slug, the beginning of the folder's name, which ends with the UTC time; began_ns, the
        begin as Unix time by the experiment's clock; None reads the clock.
        Raises: StoreError if the operating system refuses the folder.
        """
        began_ns = clock.read_pair().unix_ns if began_ns is None else began_ns
        moment = datetime.fromtimestamp(began_ns // 1_000_000_000, tz=UTC)
        name = f"{_as_name(slug)}-{moment:%Y%m%dT%H%M%SZ}"
        try:
            self.root.mkdir(mode=files.FOLDER_MODE, parents=True, exist_ok=True)
            self._be_private()
            with self._numbering():
                number = self._next_number()
                folder = _free(self.root / name)
                identity = {
                    "format": FORMAT_VERSION,
                    "number": number,
                    "verb": verb,
                    "name": slug,
                    "began_ns": began_ns,
                }
                # The hidden name is changed last, so every visible folder has its number.
                hidden = self.root / f".new-{number}-{os.getpid()}"
                (hidden / "runs").mkdir(mode=files.FOLDER_MODE, parents=True)
                files.give_mode(hidden, files.FOLDER_MODE)
                files.write_json(hidden / IDENTITY, identity)
                hidden.rename(folder)
                files.write_text(self.root / _LAST_NUMBER, f"{number}\n")
                self._index(number, verb, slug, folder)
        except OSError as error:
            raise files.refused(self.root, error) from error
        return ExperimentFolder(folder)

    def require_writable(self) -> None:
        """Write a probe of 1 MiB where results will be, and remove the probe.

        Raises: StoreError if the folder or the disk refuses the probe.
        """
        place = self.root
        if place.is_symlink() and not place.exists():
            raise StoreError(
                f"{place} is a symbolic link that leads nowhere.",
                hint="name a folder with --store",
            )
        while not place.exists() and place.parent != place:
            place = place.parent
        if not place.is_dir():
            raise StoreError(
                f"{place} is a file, not a folder of results.", hint="name a folder with --store"
            )
        try:
            with tempfile.NamedTemporaryFile(dir=place, prefix=".pgdyno-") as probe:
                probe.write(bytes(_PROBE_BYTES))
                probe.flush()
                os.fsync(probe.fileno())
        except FileNotFoundError:
            # The kernel makes the files of such a folder, as those of /proc.
            raise StoreError(
                f"{self.root} cannot be made: no file can be made in {place}.",
                hint="name another folder with --store or PGDYNO_STORE",
            ) from None
        except OSError as error:
            raise files.refused(place, error) from error

    def _be_private(self) -> None:
        """Let no other user list the store. A folder with other content keeps its mode.

        Subtle: a scratch server of another user may already run inside, and must reach its files.
        Therefore users who could pass through the folder still can. The folder of each experiment
        stays closed.
        """
        status = self.root.stat()
        is_ours = (self.root / _LAST_NUMBER).exists() or not any(self.root.iterdir())
        if is_ours and status.st_uid == os.geteuid() and status.st_mode & 0o066:
            files.give_mode(self.root, status.st_mode & 0o711)

    def find(self, handle: str) -> ExperimentFolder:
        """Return the experiment with this handle; the newest, if several have the same name.

        Args: handle, a number, `last`, a name (--name), the name of a folder, or a path.
        Raises: StoreError if there is no such experiment, several have the number, or the folder
        is not a result.
        """
        known = self._known()
        if handle == "last" and known:
            return _only_one(max(known), known[max(known)])
        if is_whole(handle) and int(handle) in known:
            return _only_one(int(handle), known[int(handle)])
        if handle in (names := self._by_name(known)):
            return ExperimentFolder(names[handle])
        for folder in (self.root / handle, Path(handle)):
            if handle and handle != "last" and folder.is_dir():
                if read_identity(folder) is None:
                    raise StoreError(
                        f"{folder} is not a result of pgdyno: it has no {IDENTITY}.",
                        hint=self._what_exists(known),
                    )
                return ExperimentFolder(folder)
        raise StoreError(f"There is no result {handle!r}.", hint=self._what_exists(known))

    def list(self) -> list[ListedExperiment]:
        """Return every experiment that can be read, oldest first."""
        return [*self.examined()[0]]

    def examined(self) -> tuple[Sequence[ListedExperiment], Sequence[StoreError]]:
        """Return the experiments, oldest first, and why the others cannot be listed."""
        listed: Any = []  # Inside the class, the name `list` means its method.
        refusals: Any = []
        for _, folders in sorted(self._known().items()):
            for folder in folders:
                try:
                    experiment = ExperimentFolder(folder)
                    listed.append(_listed(experiment, is_number_shared=len(folders) > 1))
                except StoreError as error:
                    refusals.append(error)
        for folder in self._entries():
            if folder.is_symlink():
                words = f"{folder} is a symbolic link: the result behind it is not listed."
                hint = "name the path of that result, or copy it here"
                refusals.append(StoreError(words, hint=hint))
            elif (folder / IDENTITY).exists() and read_identity(folder) is None:
                words = f"{folder / IDENTITY} is damaged: the result is not listed."
                refusals.append(StoreError(words, hint="take it from a copy of the result"))
        return listed, refusals

    def _entries(self) -> Sequence[Path]:
        """Return the folders of the store, and links to folders."""
        if not self.root.is_dir():
            return []
        entries = sorted(self.root.iterdir())
        return [path for path in entries if path.is_dir() and not path.name.startswith(".")]

    def _by_name(self, known: Mapping[int, Sequence[Path]]) -> dict[str, Path]:
        """Return name -> the newest folder with this name."""
        identities = (
            (read_identity(folder), folder)
            for _, folders in sorted(known.items())
            for folder in folders
        )
        return {
            str(identity["name"]): folder for identity, folder in identities if identity is not None
        }

    def _known(self) -> dict[int, tuple[Path, ...]]:
        """Return number -> folders of experiments; several if stores were copied together.

        Raises: StoreError if the store's path is not a folder.
        """
        folders: dict[int, tuple[Path, ...]] = {}
        if self.root.exists() and not self.root.is_dir():
            raise StoreError(
                f"{self.root} is a file, not a folder of results.",
                hint="name a folder with --store; unpack a zipped folder first",
            )
        for folder in self._entries():
            # What is behind a link belongs to another folder, and maybe to somebody else.
            identity = None if folder.is_symlink() else read_identity(folder)
            if identity is not None:
                number = int(identity["number"])
                folders[number] = (*folders.get(number, ()), folder)
        return folders

    def _index(self, number: int, verb: str, name: str, folder: Path) -> None:
        """Add a result to the index; make a missing index from all results."""
        index = self.root / INDEX
        if index.is_file() and not index.is_symlink():
            files.append_text(index, _index_line(number, folder, verb, name))
        else:
            self.write_index(self.list())

    def write_index(self, rows: Iterable[ListedExperiment]) -> None:
        """Write the index anew if it differs and this user may write in the store.

        Completion of command lines reads the index, and nothing else does.
        """
        lines = (_index_line(row.number, row.folder, row.verb, row.name) for row in rows)
        content, index = "".join(lines), self.root / INDEX
        known = b""
        with suppress(OSError):  # No such file, or a folder has its name.
            known = files.read_bytes(index)
        if known != content.encode():
            with suppress(StoreError, OSError):
                files.write_text(index, content)

    def _next_number(self) -> int:
        """Return the next number. The number of a removed result is not used again."""
        try:
            last = int(files.read_bytes(self.root / _LAST_NUMBER))
        except (OSError, ValueError):
            last = 0
        return max([last, *self._known()]) + 1

    @contextmanager
    def _numbering(self) -> Iterator[None]:
        descriptor = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT, files.FILE_MODE)
        try:
            files.lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _what_exists(self, known: Mapping[int, Sequence[Path]]) -> str:
        if not known:
            return f"{self.root} has no results yet; name another folder with --store"
        results = [(number, path) for number, paths in known.items() for path in paths]
        newest = sorted(results, reverse=True)[:_LISTED_AT_MOST]
        listed = ", ".join(f"{number} ({folder.name})" for number, folder in newest)
        more = len(results) - len(newest)
        return f"{self.root} holds {listed}" + (f" and {more} older" if more else "")


def _only_one(number: int, folders: Sequence[Path]) -> ExperimentFolder:
    if len(folders) > 1:
        names = " and ".join(folder.name for folder in folders)
        raise StoreError(
            f"{len(folders)} results have the number {number}: {names}.",
            hint="name the folder of one of them instead of the number",
        )
    return ExperimentFolder(folders[0])


def _listed(experiment: ExperimentFolder, *, is_number_shared: bool) -> ListedExperiment:
    try:
        analysis: Mapping[str, Any] = experiment.analysis() or {}
    except StoreError:
        analysis = {"sentence": "analysis.json is damaged: pgdyno show makes the answer again"}

    def number(name: str) -> int:
        value = analysis.get(name)
        return value if isinstance(value, int) else 0

    return ListedExperiment(
        number=experiment.number,
        verb=experiment.verb,
        name=experiment.name,
        began_ns=experiment.began_ns,
        run_count=len(experiment.run_folders()) or number("crashes"),
        incomplete_count=len(experiment.incomplete_folders()),
        is_sealed=experiment.is_sealed,
        sentence=str(analysis.get("sentence", "")),
        folder=experiment.folder,
        is_complete=experiment.is_sealed and bool(analysis.get("is_complete", True)),
        judged_count=number("runs"),
        valid_count=number("runs_valid"),
        undo_count=len(experiment.outstanding_changes()),
        is_journal_damaged=experiment.audit_damage() is not None,
        altered=tuple(experiment.altered(by_size=True)),
        is_number_shared=is_number_shared,
        notes=experiment.remarks(),
    )


def _index_line(number: int, folder: Path, verb: str, name: str) -> str:
    """Return a line of the index. A name that a terminal cannot show is left out."""
    is_shown = name.isprintable()
    return "\t".join((str(number), folder.name, verb, name if is_shown else "")) + "\n"


def _as_name(slug: str) -> str:
    """Return `slug` as a part of a folder's name: at most 48 letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", slug.lower()).strip("-")[:48].rstrip("-") or "experiment"


def _free(folder: Path) -> Path:
    """Return this path, or the next free path if two experiments begin within one second."""
    candidate, count = folder, 2
    while candidate.exists():
        candidate, count = folder.with_name(f"{folder.name}-{count}"), count + 1
    return candidate
