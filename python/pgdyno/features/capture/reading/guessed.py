"""Steps whose values are guessed: what they use if the step before them found no row.

Statistics do not show that two statements belong together. If the second one needs a row of the
first one, and the first one finds none, the second one would not be carried out, or find nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgdyno.features.capture.model import Equal, Fresh, OfColumn, Returned, Source, Step
from pgdyno.features.capture.reading.described import Described
from pgdyno.features.capture.reading.key_sources import root_of
from pgdyno.features.capture.reading.parameter_sources import Sources
from pgdyno.features.capture.reading.parameter_uses import Parameter


def with_existing_keys(
    steps: Sequence[Step], described: Sequence[Described], sources: Sources
) -> Iterator[Step]:
    """Yield the steps of a kind of transaction; keys that are needed exist in any case.

    A key that is written is needed. If the transaction only reads, the key of a statement that
    usually found rows is, too.
    """
    made = [list(step.parameters) for step in steps]
    only_reads = all(known.parsed.reads_only for known in described)
    for number, (step, known) in enumerate(zip(steps, described, strict=True)):
        finds = only_reads and known.finds_rows
        for place, use in known.parsed.parameters.items():
            is_written = use.use in ("insert", "set") and place - 1 not in step.optional
            if not known.parsed.copies and (is_written or (finds and use.use == "equal")):
                made[number][place - 1] = _source(
                    made, (number, place - 1), use, described, sources
                )
        yield step.model_copy(update={"parameters": tuple(made[number])})


def _source(
    made: Sequence[Sequence[Source]],
    place: tuple[int, int],
    use: Parameter,
    described: Sequence[Described],
    sources: Sources,
) -> Source:
    """Return the source of a key; if no row was returned, an existing key."""
    source, column = made[place[0]][place[1]], sources.column(use)
    root = root_of(made, *place) or place
    origin = made[root[0]][root[1]]
    if column is None or not isinstance(origin, Returned) or origin.pick == "all":
        return source
    if isinstance(source, Equal) and source.take != "value":
        return source
    own = described[place[0]].parsed.parameters.items()
    new = {p.column for number, p in own if isinstance(made[place[0]][number - 1], Fresh)}
    # Otherwise a row with the same keys could exist already.
    is_new = all(new.intersection(key) for key in sources.keys_with(use))
    is_free = use.use == "equal" or (is_new and column.references is not None)
    if described[origin.step].parsed.kind != "select" or not is_free:
        return source
    key = sources.key_of(column) or column
    return origin.model_copy(update={"otherwise": OfColumn(table=key.table, column=key.column)})
