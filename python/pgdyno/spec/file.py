"""Read a spec file as an experiment; report all mistakes at once, each with its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import tomli_w
from pydantic import BaseModel, ValidationError

from pgdyno.errors import SpecError
from pgdyno.settings.conf_file import read_conf
from pgdyno.settings.objection import object_to
from pgdyno.settings.rule import nearest
from pgdyno.spec.designs import MODELS, DesignSpec
from pgdyno.spec.experiment import Experiment
from pgdyno.spec.toml_lines import TomlLines
from pgdyno.user_file import read_text

Place = tuple[str | int, ...]
# The tables that a spec file may have.
_TABLES = ("experiment", "server", "dataset", "workload", "variant", "design")


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in a spec file."""

    line: int
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class SpecFile:
    """An experiment, and one sentence for each doubt about its file."""

    experiment: Experiment
    doubts: tuple[str, ...]


def read_spec(path: Path) -> SpecFile:
    """Return the experiment of a file; nothing is started.

    Raises: SpecError with every mistake: file, line, value, rule, and the nearest valid name.
    """
    text = read_text(path)
    try:
        document: dict[str, Any] | None = tomllib.loads(text)
    except ValueError as error:
        # TOML has no limit of digits, Python has.
        is_toml = isinstance(error, tomllib.TOMLDecodeError)
        why = error if is_toml else "a number has more digits than can be read"
        raise SpecError(f"{path} is not TOML: {why}.", hint="see toml.io, or examples/") from None
    except RecursionError:
        document = None
    try:
        if document is not None:
            return _Reader(path, text).read(document)
    except RecursionError:
        pass
    raise SpecError(f"{path} has values nested too deeply.", hint="see examples/ for its form")


class _Reader:
    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._lines = TomlLines(text)
        self._mistakes: list[Mistake] = []
        self._doubts: list[str] = []

    def read(self, document: dict[str, Any]) -> SpecFile:
        self._follow_files(document)
        experiment = None
        try:
            experiment = Experiment.model_validate(document)
        except ValidationError as error:
            items = error.errors()
            for item in items:
                if not is_other_form(item, items):
                    self._add(item["loc"], _rule(item), item)
        self._judge_settings(document)
        self._judge_variants(document)
        if self._mistakes:
            self._refuse()
        assert experiment is not None, "without a mistake there is an experiment"
        return SpecFile(experiment, tuple(self._doubts))

    def _follow_files(self, document: dict[str, Any]) -> None:
        """Replace the names of files by their contents, in place; captures keep their names."""
        for place, table in _tables_in(document):
            if isinstance(given := table.get("settings"), str):
                table["settings"] = {}
                if given.startswith("@"):
                    table["settings"] = self._read(place, "settings", given[1:], read_conf) or {}
                else:
                    self._note((*place, "settings"), f'must be a table or "@FILE", got {given!r}')
            sql = table.get("sql")
            if isinstance(sql, str) and sql.startswith("@"):
                table["sql"] = self._read(place, "sql", sql[1:], read_text) or ""
            if isinstance(table.get("file"), str):
                if table.get("kind") != "capture":
                    table["text"] = self._read(place, "file", table["file"], read_text)
                table["file"] = str(self._beside(table["file"]))
            if isinstance(table.get("capture"), str):
                table["capture"] = str(self._beside(table["capture"]))

    def _read(self, place: Place, key: str, name: str, read: Any) -> Any:
        try:
            return read(self._beside(name))
        except SpecError as error:
            self._note((*place, key), error.message.rstrip("."))
            return None

    def _beside(self, name: str) -> Path:
        return (self._path.parent / name).absolute()

    def _judge_settings(self, document: dict[str, Any]) -> None:
        """Check every setting against PostgreSQL's own description of it."""
        server = document.get("server")
        scratch = server.get("scratch") if isinstance(server, dict) else None
        usual = _major(scratch.get("version")) if isinstance(scratch, dict) else None
        for place, table in _tables_in(document):
            settings = table.get("settings")
            if not isinstance(settings, Mapping):
                continue
            major = _major(table.get("version")) or usual
            for name, value in settings.items():
                text = ("on" if value else "off") if isinstance(value, bool) else str(value)
                objection = object_to(str(name), text, major)
                if objection is None:
                    continue
                said = f"{name} = {text!r}: {objection.rule}"
                if objection.verdict == "error":
                    self._note((*place, "settings", str(name)), objection.rule, seen=repr(text))
                else:
                    self._doubts.append(f"{said}.")

    def _judge_variants(self, document: dict[str, Any]) -> None:
        """Note names that occur twice, with their lines, and variants that are the same."""
        given = document.get("variant")
        seen: dict[str, str] = {}
        changes: dict[str, str] = {}
        for index, variant in enumerate(given if isinstance(given, list) else ()):
            name = variant.get("name") if isinstance(variant, dict) else None
            if not isinstance(name, str):
                continue
            if name in seen:
                self._note(("variant", index, "name"), "an earlier variant has it", seen=repr(name))
            seen[name] = name
            changed = repr(
                sorted((key, repr(value)) for key, value in variant.items() if key != "name")
            )
            if (same := changes.setdefault(changed, name)) != name:
                self._doubts.append(f"variants {same!r} and {name!r} are the same: an A/A test.")

    def _add(self, loc: Place, rule: str, item: Any) -> None:
        if "two variants have the name" in rule:
            return  # Noted with its line.
        if item["type"] == "union_tag_invalid":
            tag, tags = item["ctx"]["tag"], item["ctx"]["expected_tags"]
            like = nearest(tag, re.findall(r"'([^']+)'", tags))
            rule += f"; did you mean {like}?" if like else ""
            self._note((*_without_tags(loc)[0], "kind"), rule, seen=repr(tag))
            return
        place, model = _without_tags(loc)
        if item["type"] == "extra_forbidden":
            known, key = _names_of(model), str(loc[-1])
            having = [kind for kind, of in MODELS.items() if key in _names_of(of)]
            if place[0] == "design" and having:
                kinds = f"[design] has it if kind is {' or '.join(having)}"
                self._note(place, f"is not a key of this kind: {kinds}")
                return
            like = nearest(key, known)
            rule = f"is not a known key: did you mean {like}?" if like else "is not a known key"
            if not like:
                rule += f"; known keys: {', '.join(known)}"
            self._note(place, rule)
            return
        seen = item["input"]
        is_plain = isinstance(seen, str | int | float) and item["type"] != "missing"
        self._note(place, rule, seen=repr(seen) if is_plain else None)

    def _note(self, place: Place, rule: str, *, seen: str | None = None) -> None:
        shown = ".".join(str(step) for step in place) or "the experiment"
        if rule == _MISSING and len(place) == 1:
            shown = f"[{shown}]" if shown in _TABLES else f"[experiment] {shown}"
        line = self._lines.line_of(place)
        if place and line == 1 and place[0] not in _TABLES:
            line = self._lines.line_of(("experiment", *place))
        value = f" = {seen}" if seen is not None else ""
        end = "" if rule.endswith(("?", ".")) else "."
        colon = "" if rule == _MISSING else ":"
        mistake = Mistake(line, shown, f"{shown}{value}{colon} {rule}{end}")
        if mistake not in self._mistakes:
            self._mistakes.append(mistake)

    def _refuse(self) -> None:
        in_order = sorted(self._mistakes, key=lambda mistake: mistake.line)
        lines = [f"{self._path}:{mistake.line}: {mistake.text}" for mistake in in_order]
        head = f"{self._path} has {len(lines)} mistake{'s' if len(lines) > 1 else ''}:"
        raise SpecError("\n  ".join([head, *lines]), hint="nothing was started; correct the file")


def _tables_in(value: Any, place: Place = ()) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield every table of the document with its place, except tables of settings."""
    if isinstance(value, dict):
        yield place, value
        for key, inner in list(value.items()):
            if key != "settings":
                yield from _tables_in(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _tables_in(inner, (*place, index))


def is_other_form(item: Any, items: Sequence[Any]) -> bool:
    """Return whether an error is only about the other form of a value, a word such as "auto"."""
    return item["type"] == "literal_error" and not isinstance(item["input"], str) and len(items) > 1


# Kinds of pydantic errors whose messages name Python types, with the words that replace them.
_EXPECTED = {
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dict_type": "a table",
    "tuple_type": "a list",
    "list_type": "a list",
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
}
_MISSING = "is missing"


def _rule(item: Any) -> str:
    if item["type"] == "missing":
        return _MISSING
    if item["type"] == "union_tag_invalid":
        return f"must be one of {item['ctx']['expected_tags']}"
    if item["type"] == "union_tag_not_found":
        return "kind is missing"
    if (expected := _EXPECTED.get(item["type"])) is not None:
        return f"must be {expected}"
    said = str(item["msg"]).removeprefix("Value error, ")
    return said.replace("Input should be", "must be")


def _without_tags(loc: Place) -> tuple[Place, type[BaseModel] | None]:
    """Return the place as the file writes it, and the model that the last key belongs to.

    pydantic names the chosen kind of a design within the place: ("design", "compare", "metric").
    """
    place: list[str | int] = []
    model: type[BaseModel] | None = Experiment
    holder = model
    annotation: Any = Experiment
    for part in loc:
        if isinstance(part, int):
            place.append(part)
            continue
        candidates = list(_models_in(annotation))
        tagged = [
            candidate for candidate in candidates if _kinds(candidate) and part in _kinds(candidate)
        ]
        if tagged:
            annotation = tagged[0]
            continue
        if "[" in part:  # A member of a union, such as tuple[...].
            continue
        place.append(part)
        holder = candidates[0] if candidates else None
        annotation = _field(holder, part) if holder else None
    return tuple(place), holder


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if annotation is DesignSpec:
        yield from MODELS.values()
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Union, UnionType, tuple, list) or get_args(annotation):
        for inner in get_args(annotation):
            yield from _models_in(inner)


def _kinds(model: type[BaseModel]) -> tuple[str, ...]:
    kind = model.model_fields.get("kind")
    return tuple(get_args(kind.annotation)) if kind is not None else ()


def _field(model: type[BaseModel], name: str) -> Any:
    for field_name, field in model.model_fields.items():
        if name in (field_name, field.alias):
            return field.annotation
    return None


def _names_of(model: type[BaseModel] | None) -> list[str]:
    if model is None:
        return list(_TABLES)
    return [field.alias or name for name, field in model.model_fields.items()]


def _major(version: Any) -> int | None:
    digits = re.match(r"\d+", str(version)) if version is not None else None
    return int(digits[0]) if digits else None


def to_toml(experiment: Experiment) -> str:
    """Return the experiment as a spec file, default values included.

    A connection string is written without its password.
    """
    document = experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    keys = ("name", "reset", "cache", "reload", "check")
    experiment_table = {key: document.pop(key) for key in keys}
    if experiment.workload.transactions_per_client is not None:
        del document["workload"]["duration"]  # The number of transactions ends the run.
    named = {"experiment": experiment_table, **document}
    variants = [_without_empty(variant) for variant in document.pop("variant")]
    if variants:
        named["variant"] = variants
    else:
        named.pop("variant")
    return tomli_w.dumps(named)


def _without_empty(variant: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in variant.items() if value not in ({}, [])}
