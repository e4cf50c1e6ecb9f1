"""The answer of an experiment with variants, in sentences."""

from __future__ import annotations

from pgdyno.analysis.compare_findings import CompareFindings
from pgdyno.analysis.rounding import counted
from pgdyno.loop.compare_words import change_text


def comparison_sentence(found: CompareFindings) -> str:
    """Return the answer in sentences: every contrast, what cannot start, sure effects."""
    words = [one.sentence for one in found.contrasts]
    if found.effects:
        words.append(_effects_sentence(found))
    words += [
        f"Variant {one.name} cannot be measured: {one.cannot_start.rstrip('.')}."
        for one in found.variants
        if one.cannot_start
    ]
    return " ".join(words) or f"Nothing was compared: {found.stopped_by}."


def _effects_sentence(found: CompareFindings) -> str:
    sure = [effect for effect in found.effects if effect.p_adjusted_ratio < 0.05]
    if not sure:
        return (
            f"No factor has a sure effect on {found.metric} after {counted(found.rounds, 'round')}."
        )
    listed = [
        f"{effect.name} {change_text(effect.ratio)}"
        for effect in sorted(sure, key=lambda one: one.p_adjusted_ratio)
    ]
    return f"Sure effects on {found.metric}: {', '.join(listed)}; {counted(found.rounds, 'round')}."
