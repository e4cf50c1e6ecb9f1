"""The folder of one experiment: its question, its decisions, its runs and its answer.

A manifest with checksums seals the folder at the end.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgdyno.errors import StoreError
from pgdyno.feature import features
from pgdyno.quantities import is_whole
from pgdyno.redaction import redacted_toml
from pgdyno.store import files
from pgdyno.store.audit import AUDIT, Journal, damage_of, read_journal, sealed
from pgdyno.store.files import FORMAT_VERSION, PARTIAL_SUFFIX
from pgdyno.store.seal import is_ours, keep_last, seal_of

if TYPE_CHECKING:
    from pgdyno.store.run_writer import RunWriter
    from pgdyno.store.stored_run import StoredRun

IDENTITY = "experiment.json"
MANIFEST = "manifest.json"
# An identity with more is damaged: the year 2200, and more results than a disk holds.
_TIME_NS_MAX, _NUMBER_MAX = 7_289_654_400_000_000_000, 1_000_000_000
# The last line of a specification says who wrote it.
_SEAL = "# seal of this user and host: "


class ExperimentFolder:
    """The folder `<store>/<slug>-<utc time>`. Runs are added; a stored run never changes."""

    def __init__(self, folder: Path) -> None:
        identity = read_identity(folder)
        if identity is None:
            raise StoreError(
                f"{folder} is not a result of pgdyno: it has no {IDENTITY}.",
                hint="`pgdyno list` shows the results that exist",
            )
        if identity.get("format") != FORMAT_VERSION:
            raise StoreError(
                f"{folder} has format {identity.get('format')!r}, "
                f"this pgdyno reads {FORMAT_VERSION}.",
                hint="read it with the pgdyno that wrote it, or a newer one",
            )
        files.refuse_strange_files(folder)
        self.folder = folder
        self.number = int(identity["number"])
        self.verb = str(identity["verb"])
        self.name = str(identity["name"])
        self.began_ns = int(identity["began_ns"])

    @property
    def is_experiment(self) -> bool:
        """Return whether it has an experiment with runs; a watch and crashes have none."""
        return not any(self.verb in feature.tables.get("results", {}) for feature in features())

    # The question and the decisions.

    def write_spec(self, toml: str) -> None:
        """Keep the specification of the experiment as TOML, with passwords masked."""
        content = redacted_toml(toml).rstrip("\n").encode() + b"\n"
        line = f"{_SEAL}{seal_of(self._bound(content))}\n"
        files.write_bytes(self.folder / "spec.toml", content + line.encode())

    def spec(self) -> str:
        """Return the specification of the experiment as TOML; "" if none was kept."""
        return self._spec_and_seal()[0]

    @property
    def is_spec_ours(self) -> bool:
        """Return whether this user wrote the specification on this host, for this result."""
        text, seal = self._spec_and_seal()
        return is_ours(self._bound(text.encode()), seal)

    @property
    def _origin(self) -> str:
        """Return what no two results of a user have in common, wherever they are moved."""
        return f"{self.verb} {self.began_ns}"

    def _bound(self, content: bytes) -> bytes:
        return self._origin.encode() + b"\0" + content

    def _spec_and_seal(self) -> tuple[str, str]:
        text, _, seal = _text_or_empty(self.folder / "spec.toml").rpartition(_SEAL)
        return (text, seal.strip()) if text else (seal, "")

    def asked(self, verb: str | None = None) -> dict[str, Any]:
        """Return the specification, or the table that a verb without an experiment wrote."""
        document = tomllib.loads(self.spec())
        return document if verb is None else document.get(verb, {})

    def add_decision(self, decision: Mapping[str, Any]) -> None:
        """Append one decision of the planner, and return when it is on the disk."""
        files.append_line(self.folder / "plan.jsonl", decision)

    def decisions(self) -> list[dict[str, Any]]:
        """Return the planner's decisions in order."""
        return list(files.read_lines(self.folder / "plan.jsonl"))

    def add_audit(self, entry: Mapping[str, Any]) -> None:
        """Append one entry to the journal of changes, and return when it is on the disk.

        The caller changes the server afterwards, so each change can be undone.
        """
        kept = sealed(entry, self._origin, self.audit().last_seal)
        files.append_line(self.folder / AUDIT, kept)
        keep_last(self._origin, kept["seal"])

    def audit(self) -> Journal:
        """Return the journal of changes."""
        return read_journal(self.folder / AUDIT, self._origin)

    def outstanding_changes(self, *, with_applied: bool = False) -> list[dict[str, Any]]:
        """Return the changes of servers that were neither undone nor dismissed, newest first.

        Args: with_applied, also return the changes that the user wanted to stay (`--apply`).
        """
        return [
            change
            for change in self.audit().outstanding()
            if with_applied or change["change"] == "settings"
        ]

    def add_crash(self, crash: Mapping[str, Any]) -> None:
        """Append what was seen of one crash, and return when it is on the disk."""
        files.append_line(self.folder / "crashes.jsonl", crash)

    def crashes(self) -> list[dict[str, Any]]:
        """Return the crashes in order."""
        return list(files.read_lines(self.folder / "crashes.jsonl"))

    def audit_damage(self) -> StoreError | None:
        """Return why the journal of changes is not to be trusted; None if it is whole."""
        if damaged := self.audit().damaged:
            return damage_of(self.folder / AUDIT, damaged, self.number)
        differing = self.altered(only=AUDIT)
        if not differing:
            return None
        return StoreError(
            f"{self.folder}: {differing[0].rstrip('.')} after pgdyno wrote it. It may have named "
            "settings that are still changed.",
            hint="restore the file from a backup, or compare the settings of the server",
        )

    def add_note(self, time_ns: int, text: str) -> None:
        """Append a person's note."""
        files.append_line(self.folder / "notes.jsonl", {"time_ns": time_ns, "text": text})

    def notes(self) -> list[dict[str, Any]]:
        """Return the notes, each with `time_ns` (Unix time) and `text`."""
        return list(files.read_lines(self.folder / "notes.jsonl"))

    def remarks(self) -> tuple[str, ...]:
        """Return the notes as text, each after its time: "2026-11-28 14:00 UTC  CHG0048211"."""
        return tuple(
            f"{datetime.fromtimestamp(note.get('time_ns', 0) / 1e9, tz=UTC):%Y-%m-%d %H:%M} UTC"
            f"  {note.get('text', '')}"
            for note in self.notes()
        )

    # The facts and the answer.

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Keep the facts about the server and the hosts."""
        files.write_json(self.folder / "facts.json", facts)

    def facts(self) -> dict[str, Any] | None:
        """Return the facts, or None if none were kept."""
        return self._document("facts.json")

    def write_analysis(self, analysis: Mapping[str, Any]) -> None:
        """Keep the findings. `pgdyno list` shows their key `sentence`."""
        files.write_json(self.folder / "analysis.json", analysis)

    def analysis(self) -> dict[str, Any] | None:
        """Return the findings, or None before there are any."""
        return self._document("analysis.json")

    @property
    def report_path(self) -> Path:
        """Return the path of the report, which may not exist yet."""
        return self.folder / "report.html"

    def write_report(self, html: str) -> Path:
        """Keep the report; return its path."""
        files.write_text(self.report_path, html)
        return self.report_path

    def write_beside(self, name: str, content: str | bytes) -> Path:
        """Keep a report in another form, such as `report.pdf`; return its path."""
        path = self.folder / name
        if isinstance(content, str):
            files.write_text(path, content)
        else:
            files.write_bytes(path, content)
        return path

    # The runs.

    def next_run_number(self) -> int:
        """Return the number of the next run: one more than the last run that began here."""
        begun = [*self.run_folders(), *self.incomplete_folders()]
        return max((int(path.name.split(".")[0]) for path in begun), default=0) + 1

    def begin_run(self, number: int, label: str, job: Mapping[str, Any]) -> RunWriter:
        """Create the folder `runs/<number>.partial` and return its writer.

        Args: label, a name for people; job, the engine's job, kept without its password.
        Raises: StoreError if a run of this number exists, or the folder cannot be made.
        """
        folder = self.folder / "runs" / f"{number:04d}"
        if folder.exists():
            raise StoreError(f"Run {number} exists: {folder}.", hint="a run is never overwritten")
        from pgdyno.store.run_writer import RunWriter

        return RunWriter(folder.with_name(folder.name + PARTIAL_SUFFIX), number, label, job)

    def runs(self) -> list[StoredRun]:
        """Return the complete runs in order. They share a cache, so that reading all is fast."""
        from pgdyno.store.stored_run import Shelf, StoredRun

        folders = self.run_folders()
        shelf = Shelf(folders)
        return [StoredRun(folder, shelf) for folder in folders]

    def incomplete(self) -> list[StoredRun]:
        """Return the incomplete runs in order. They can be read, but must not be analysed."""
        from pgdyno.store.stored_run import StoredRun

        return [StoredRun.open_partial(folder) for folder in self.incomplete_folders()]

    def run_folders(self) -> list[Path]:
        """Return the folders of the complete runs in order."""
        paths = (self.folder / "runs").glob("[0-9]*")
        return sorted(path for path in paths if is_whole(path.name) and path.is_dir())

    def incomplete_folders(self) -> list[Path]:
        """Return the folders of the incomplete runs in order."""
        return sorted((self.folder / "runs").glob(f"[0-9]*{PARTIAL_SUFFIX}"))

    # The manifest.

    @property
    def is_sealed(self) -> bool:
        """Return whether a manifest was written."""
        return (self.folder / MANIFEST).exists()

    def seal(self) -> None:
        """Write the manifest: SHA-256 and size of every file."""
        for folder in self.run_folders():
            _remove_converted_rows(folder)
        described = {name: _described(path) for name, path in self._files().items()}
        self._write_manifest(described)

    def take_in(self, other: ExperimentFolder, name: str) -> None:
        """Make another result of this store a folder of this one, which is not listed then."""
        is_sealed = self.is_sealed
        other.folder.rename(self.folder / name)
        if is_sealed:
            self.seal()

    def unseal(self) -> None:
        """Remove the manifest, because the experiment goes on."""
        (self.folder / MANIFEST).unlink(missing_ok=True)

    @contextmanager
    def amending(self, *names: str) -> Iterator[None]:
        """Write these files in the block; afterwards the manifest has their new checksums.

        Other files keep their old checksums, so `verify` still finds alterations by others. The
        manifest names the files before they change. Therefore a killed lab, or a verb that reads
        the result at the same moment, does not take our own writing for an alteration.
        """
        if not self.is_sealed:
            yield
            return
        with files.locked(self.folder):
            manifest = self._document(MANIFEST) or {}
            described = dict(manifest.get("files", {}))
            self._write_manifest(described, amended=names)
            try:
                yield
            finally:
                present = self._files()
                described |= {n: _described(present[n]) for n in names if n in present}
                self._write_manifest(described)

    def _write_manifest(
        self, described: Mapping[str, Any], *, amended: Collection[str] = ()
    ) -> None:
        document: dict[str, Any] = {"format": FORMAT_VERSION, "files": described}
        if amended:
            document["amended"] = sorted(amended)
        files.write_json(self.folder / MANIFEST, document)

    def altered(self, *, by_size: bool = False, only: str | None = None) -> list[str]:
        """Return what differs from the manifest, as `verify` does; nothing without a manifest.

        Args: by_size, compare only names and sizes, which is fast; only, the name of one file.
        """
        if not self.is_sealed:
            return []
        try:
            return self.verify(by_size=by_size, only=only)
        except (StoreError, KeyError, TypeError):
            return [f"{MANIFEST} is damaged."]

    def verify(self, *, by_size: bool = False, only: str | None = None) -> list[str]:
        """Return what differs from the manifest, one sentence for each file.

        Args: by_size, compare only names and sizes, which is fast; only, the name of one file.
        Raises: StoreError if the experiment was never sealed.
        """
        manifest = self._document(MANIFEST)
        if manifest is None:
            raise StoreError(
                f"{self.folder} was never sealed: it has no {MANIFEST}.",
                hint="its experiment was interrupted; its complete runs are readable",
            )
        ours = manifest.get("amended", ())

        def is_compared(name: str) -> bool:
            return name not in ours and only in (None, name)

        sealed = {name: file for name, file in manifest["files"].items() if is_compared(name)}
        present = {name: path for name, path in self._files().items() if is_compared(name)}
        problems = [f"{name} is missing." for name in sealed if name not in present]
        problems += [f"{name} was added." for name in present if name not in sealed]
        problems += [
            f"{name} was changed."
            for name, path in present.items()
            if name in sealed
            and (
                path.stat().st_size != sealed[name]["bytes"]
                or (not by_size and files.sha256(path) != sealed[name]["sha256"])
            )
        ]
        return sorted(problems)

    def _files(self) -> dict[str, Path]:
        paths = {
            str(path.relative_to(self.folder)): path
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and not path.is_symlink() and not files.is_unfinished(path)
        }
        paths.pop(MANIFEST, None)
        return paths

    def _document(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        if not path.exists():
            return None
        document = files.read_json(path)
        if not isinstance(document, dict):
            raise StoreError(f"{path} is damaged.", hint="`pgdyno list` shows the intact results")
        return document


def read_identity(folder: Path) -> dict[str, Any] | None:
    """Return the identity of the experiment in a folder, None if the folder has none."""
    try:
        identity = json.loads(files.read_bytes(folder / IDENTITY))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(identity, dict):
        return None
    limits = {"number": _NUMBER_MAX, "began_ns": _TIME_NS_MAX}
    is_one = all(
        type(value := identity.get(name)) is int and 0 <= value <= most
        for name, most in limits.items()
    )
    is_named = all(isinstance(identity.get(name), str) for name in ("verb", "name"))
    return identity if is_one and is_named else None


def _described(path: Path) -> dict[str, Any]:
    return {"sha256": files.sha256(path), "bytes": path.stat().st_size}


def _text_or_empty(path: Path) -> str:
    try:
        return files.read_bytes(path).decode()
    except FileNotFoundError:
        return ""


def _remove_converted_rows(run: Path) -> None:
    """Remove JSON lines that exist as Parquet, too: the lab was killed at the end of the run."""
    for parquet in (*run.glob("*.parquet"), *run.glob("telemetry/*.parquet")):
        parquet.with_suffix(".jsonl").unlink(missing_ok=True)
