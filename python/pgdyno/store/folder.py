"""One experiment's folder: what was asked, decided, measured, found; sealed by a manifest."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pgdyno.errors import StoreError, masked_text
from pgdyno.store import files
from pgdyno.store.run_writer import RunWriter
from pgdyno.store.schema import FORMAT_VERSION
from pgdyno.store.stored_run import PARTIAL_SUFFIX, Shelf, StoredRun

IDENTITY = "experiment.json"
MANIFEST = "manifest.json"


class ExperimentFolder:
    """`<store>/<slug>-<utc time>`; append-only: runs are added, none is changed."""

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
        self.folder = folder
        self.number = int(identity["number"])
        self.verb = str(identity["verb"])
        self.name = str(identity["name"])
        self.began_ns = int(identity["began_ns"])

    # What was asked and decided.

    def write_spec(self, toml: str) -> None:
        """Keep the experiment as it was asked, as TOML; passwords masked."""
        files.write_text(self.folder / "spec.toml", masked_text(toml))

    def spec(self) -> str:
        """Return the experiment as it was asked; "" if none was kept."""
        return _text_or_empty(self.folder / "spec.toml")

    def add_decision(self, decision: Mapping[str, Any]) -> None:
        """Append one decision of the planner; on the disk when this returns."""
        files.append_line(self.folder / "plan.jsonl", decision)

    def decisions(self) -> list[dict[str, Any]]:
        """Return the planner's decisions in order."""
        return list(files.read_lines(self.folder / "plan.jsonl"))

    def add_audit(self, entry: Mapping[str, Any]) -> None:
        """Append one entry to the journal of changes; on the disk before the change is made."""
        files.append_line(self.folder / "audit.jsonl", entry)

    def audit(self) -> list[dict[str, Any]]:
        """Return the journal of changes in order."""
        return list(files.read_lines(self.folder / "audit.jsonl"))

    def outstanding_changes(self, *, with_applied: bool = False) -> list[dict[str, Any]]:
        """Return the changes of servers that were neither undone nor dismissed, newest first.

        Args: with_applied, also the changes that were asked for (`tune --apply`) and shall stay.
        """
        changes: list[dict[str, Any]] = []
        for entry in self.audit():
            if entry.get("change") in ("settings", "applied"):
                changes.append(entry)
            elif entry.get("change") in ("undone", "dismissed"):
                # Several servers are put back in any order. Older journals do not say which it was.
                admin = entry.get("admin")
                of_server = [change for change in changes if admin in (None, change["admin"])]
                if of_server:
                    changes.remove(of_server[-1])
        return [
            change for change in changes[::-1] if with_applied or change["change"] == "settings"
        ]

    def add_note(self, time_ns: int, text: str) -> None:
        """Append a person's note."""
        files.append_line(self.folder / "notes.jsonl", {"time_ns": time_ns, "text": text})

    def notes(self) -> list[dict[str, Any]]:
        """Return the notes: time_ns, text."""
        return list(files.read_lines(self.folder / "notes.jsonl"))

    # What was found.

    def write_facts(self, facts: Mapping[str, Any]) -> None:
        """Keep what the server and the hosts are."""
        files.write_json(self.folder / "facts.json", facts)

    def facts(self) -> dict[str, Any] | None:
        """Return the facts, or None if none were kept."""
        return self._document("facts.json")

    def write_analysis(self, analysis: Mapping[str, Any]) -> None:
        """Keep the findings; `sentence` is what `list` shows."""
        files.write_json(self.folder / "analysis.json", analysis)

    def analysis(self) -> dict[str, Any] | None:
        """Return the findings, or None before there are any."""
        return self._document("analysis.json")

    @property
    def report_path(self) -> Path:
        """Where the report is, once it is written."""
        return self.folder / "report.html"

    def write_report(self, html: str) -> Path:
        """Keep the report; return its path."""
        files.write_text(self.report_path, html)
        return self.report_path

    def write_beside(self, name: str, content: str | bytes) -> Path:
        """Keep a report in another form, such as `report.pdf`; return its path."""
        path = self.folder / name
        files.write_bytes(path, content.encode() if isinstance(content, str) else content)
        return path

    # What was measured.

    def next_run_number(self) -> int:
        """Return the number after every run that was ever begun here."""
        begun = [*self.run_folders(), *self.incomplete_folders()]
        return max((int(path.name.split(".")[0]) for path in begun), default=0) + 1

    def begin_run(self, number: int, label: str, job: Mapping[str, Any]) -> RunWriter:
        """Begin `runs/<number>.partial`; the job's password is always left out.

        Raises: StoreError when this number was begun before, or the folder is refused.
        """
        folder = self.folder / "runs" / f"{number:04d}"
        if folder.exists():
            raise StoreError(f"Run {number} exists: {folder}.", hint="a run is never overwritten")
        return RunWriter(folder.with_name(folder.name + PARTIAL_SUFFIX), number, label, job)

    def runs(self) -> list[StoredRun]:
        """Return the complete runs in order; their tables are read together."""
        folders = self.run_folders()
        shelf = Shelf(folders)
        return [StoredRun(folder, shelf) for folder in folders]

    def incomplete(self) -> list[StoredRun]:
        """Return what killed runs left, in order: readable, not to be analysed."""
        return [StoredRun.open_partial(folder) for folder in self.incomplete_folders()]

    def run_folders(self) -> list[Path]:
        """Return the folders of the complete runs in order."""
        paths = (self.folder / "runs").glob("[0-9]*")
        return sorted(path for path in paths if path.name.isdecimal() and path.is_dir())

    def incomplete_folders(self) -> list[Path]:
        """Return the folders of the incomplete runs in order."""
        return sorted((self.folder / "runs").glob(f"[0-9]*{PARTIAL_SUFFIX}"))

    # What it is vouched for by.

    @property
    def is_sealed(self) -> bool:
        """True once a manifest was written."""
        return (self.folder / MANIFEST).exists()

    def seal(self, *, changed: Collection[str] | None = None) -> None:
        """Write the manifest: SHA-256 and size of every file.

        Args: changed, the files that a verb wrote after a first sealing, such as a note: what
        somebody else altered meanwhile stays altered. None: every file is as it should be.
        """
        for folder in self.run_folders():
            _remove_converted_rows(folder)
        manifest = self._document(MANIFEST) if changed is not None else None
        described = dict(manifest["files"]) if manifest else {}
        for name, path in self._files().items():
            if manifest is None or name in (changed or ()):
                described[name] = {"sha256": files.sha256(path), "bytes": path.stat().st_size}
        files.write_json(self.folder / MANIFEST, {"format": FORMAT_VERSION, "files": described})

    def altered(self, *, by_size: bool = False) -> list[str]:
        """Return what differs from the manifest, as `verify`; nothing where there is none.

        Args: by_size, look only at which files there are and how large they are.
        """
        if not self.is_sealed:
            return []
        try:
            return self.verify(by_size=by_size)
        except (StoreError, KeyError, TypeError):
            return [f"{MANIFEST} is damaged."]

    def verify(self, *, by_size: bool = False) -> list[str]:
        """Return what differs from the manifest, one sentence a file; empty when all is as sealed.

        Raises: StoreError when the experiment was never sealed.
        """
        manifest = self._document(MANIFEST)
        if manifest is None:
            raise StoreError(
                f"{self.folder} was never sealed: it has no {MANIFEST}.",
                hint="its experiment was interrupted; its complete runs are readable",
            )
        sealed, present = manifest["files"], self._files()
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
            if path.is_file() and not path.is_symlink()
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
    """Return the identity of the experiment in a folder, or None if it holds none."""
    try:
        identity = json.loads((folder / IDENTITY).read_bytes())
    except (OSError, ValueError):
        return None
    is_one = isinstance(identity, dict) and isinstance(identity.get("number"), int)
    return identity if is_one else None


def _text_or_empty(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _remove_converted_rows(run: Path) -> None:
    """Remove rows that a kill between the rename and their removal left next to their Parquet."""
    for parquet in (*run.glob("*.parquet"), *run.glob("telemetry/*.parquet")):
        parquet.with_suffix(".jsonl").unlink(missing_ok=True)
