"""The verdict as text and as a page."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from tests.report import variant_examples
from tests.report.compare_examples import CHANGE, compared

from pgdyno.analysis.estimate import Estimate, without_interval
from pgdyno.analysis.findings import ExperimentFindings
from pgdyno.answer.answer import with_validity
from pgdyno.designs import blocks_of, page_of, words_of
from pgdyno.quantities import validity_words
from pgdyno.report.block_text import block_lines
from pgdyno.report.blocks import TableBlock, TableColumn
from pgdyno.report.compare_blocks import compare_sections, verdict_of
from pgdyno.report.compare_charts import change_table, round_charts
from pgdyno.report.compare_documents import proof_body
from pgdyno.report.forest import scale_of, whisker
from pgdyno.report.markdown import answer_markdown, answer_pictures
from pgdyno.report.text_page import TextPage
from pgdyno.report.words import loss_words


def test_the_verdict_comes_first_and_every_ratio_has_its_interval() -> None:
    lines = words_of(compared()).splitlines()
    assert lines[1].startswith("in short    With 4GB the server did 37.1 % (35.0 to 39.4) more")
    assert lines[4] == "verdict     4GB is faster than 128MB: tps +37.1 %."
    [tps] = [line for line in lines if line.endswith("decides")]
    assert "+37.1 % (35.0 to 39.4)" in tps
    assert any("p99" in line and "-28.0 % (-33.0 to -22.0)" in line for line in lines)


def test_a_name_with_a_colon_stays_whole_in_the_verdict() -> None:
    sentence = "disk: ssd is faster than disk: hdd: tps +37.1 %."
    verdict = "disk: ssd is faster than disk: hdd: "
    assert verdict_of(sentence, ("disk: ssd", "disk: hdd")) == verdict
    said = verdict_of("4GB is faster than 128MB: tps +3 %.", ("4GB", "128MB"))
    assert said == "4GB is faster than 128MB: "
    assert verdict_of("Nothing differs.", ("4GB",)) == ""


def test_a_variant_that_could_not_start_shows_the_servers_message() -> None:
    assert "left out    bad: FATAL: no memory" in words_of(compared())


def test_weakened_durability_is_shown_next_to_the_gain() -> None:
    text = " ".join(words_of(compared()).split())
    assert "a crash may lose acknowledged commits (synchronous_commit weakened). The loss" in text
    assert "was not measured: pgdyno crash --set synchronous_commit=off" in text
    assert text.count("a crash may lose") == 1


def test_losses_that_only_a_loss_of_power_shows_need_that_kind() -> None:
    assert loss_words(["fsync"]).endswith("pgdyno crash --kind power --set fsync=off")


def test_the_parts_and_the_rest_are_the_difference() -> None:
    lines = words_of(compared()).splitlines()
    start = next(i for i, line in enumerate(lines) if "where the difference of -1.00 ms" in line)
    parts = [re.search(r" ([-+]\d\.\d+)", line) for line in lines[start + 2 : start + 6]]
    assert sum(float(part[1]) for part in parts if part) == pytest.approx(-1.0)


def test_a_difference_that_its_parts_do_not_explain_is_withheld_with_the_reason() -> None:
    findings = compared()
    assert findings.compare is not None
    (contrast,) = findings.compare.contrasts
    why = "the measured parts exceed the difference by 118 %"
    withheld = replace(contrast, difference=None, why_not_split=why)
    findings = replace(findings, compare=replace(findings.compare, contrasts=(withheld,)))
    text = " ".join(words_of(findings).split())
    assert f"not split into parts: {why}." in text
    assert "where the difference of" not in text
    assert findings.compare is not None
    [document] = proof_body(findings.compare)["contrasts"]
    assert document["where_the_difference_lies"] is None
    assert document["where_the_difference_lies_not_computed_because"] == why


def test_a_ratio_of_two_values_that_are_noise_is_withheld_with_the_reason() -> None:
    findings = compared()
    assert findings.compare is not None
    (contrast,) = findings.compare.contrasts
    withheld = replace(contrast, of_noise=("wal_per_tx",))
    findings = replace(findings, compare=replace(findings.compare, contrasts=(withheld,)))
    assert "WAL/tx: not compared, because the values scatter so" in words_of(findings)
    assert findings.compare is not None
    [document] = proof_body(findings.compare)["contrasts"]
    assert document["ratios"]["wal_per_tx"] is None
    assert "scatter" in document["ratios_not_computed_because"]["wal_per_tx"]


def test_a_changed_plan_is_shown_with_both_plans() -> None:
    text = " ".join(words_of(compared(plans=(CHANGE,))).split())
    assert "tx4.sql:2: Index Scan i -> Seq Scan t" in text


def test_two_contrasts_of_one_variant_look_different() -> None:
    findings = compared()
    assert findings.compare is not None
    (first,) = findings.compare.contrasts
    two = replace(findings.compare, contrasts=(first, replace(first, reference="bad")))
    _, changes = round_charts(two)
    looks = [line.role for line in changes.lines]
    assert len(looks) == 2
    assert looks[0] != looks[1]


def test_settings_that_differ_are_named_with_what_each_server_has() -> None:
    lines = [line.split() for line in words_of(compared()).splitlines()]
    assert ["setting", "128MB", "4GB", "bad"] in lines
    assert ["shared_buffers", "128MB", "4GB", "not", "read"] in lines


@pytest.mark.parametrize("width", [100, 80, 72])
def test_no_line_is_wider_than_a_terminal(width: int) -> None:
    lines = words_of(compared(), width).splitlines()
    assert [line for line in lines if len(line) > width] == []
    forest = [line for line in lines if "[" in line and line.rstrip().endswith(("]", "decides"))]
    assert len({line.index("]") - line.index("[") for line in forest}) == 1


def test_columns_of_cells_that_have_no_room_stand_below() -> None:
    columns = tuple(map(TableColumn, ("", "tps", "p50 ms", "p99 ms")))
    rows = (("a", "1", "22", "3"),)
    table = TableBlock("", columns, rows, short_row_count=1, heading="side by side")

    def lines(width: int) -> list[str]:
        return [*block_lines(TextPage(width), (table,))][1:]

    assert lines(40) == ["     tps  p50 ms  p99 ms", "  a    1      22       3"]
    assert lines(16) == ["     tps  p50 ms", "  a    1      22", "     p99 ms", "  a       3"]


def test_the_page_is_whole_and_asks_nothing_of_a_network() -> None:
    page = page_of(compared(plans=(CHANGE,)))
    for said in (
        "4GB is faster than 128MB",
        "no memory",
        "Seq Scan t",
        "one layout",
        "drawn at random",
    ):
        assert said in page
    assert "default-src 'none'" in page
    written = page.split('<script type="application/json"')[0]
    assert " src=" not in written
    assert " style=" not in written  # The policy would refuse it.


def test_every_tag_of_the_page_is_closed() -> None:
    class Balance(HTMLParser):
        open_tags: list[str]

        def __init__(self) -> None:
            super().__init__()
            self.open_tags = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "br", "circle", "line", "path", "rect"):
                self.open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            if tag not in ("circle", "line", "path", "rect"):
                assert self.open_tags.pop() == tag

    balance = Balance()
    balance.feed(page_of(compared()))
    assert balance.open_tags == []


def test_names_that_look_like_markup_are_shown_as_text() -> None:
    findings = compared()
    assert findings.compare is not None
    [contrast] = findings.compare.contrasts
    name = "<script>alert(1)</script>"
    reference, second, *others = findings.compare.variants
    variants = (reference, replace(second, name=name), *others)
    hostile = replace(
        findings.compare, variants=variants, contrasts=(replace(contrast, variant=name),)
    )
    page = page_of(replace(findings, compare=hostile))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_change_beyond_the_scale_is_an_arrow_head_at_its_end() -> None:
    scale = scale_of([Estimate(0.9, 0.8, 1.1, 9, "1", "between_runs")], margin_ratio=0.02)
    assert [scale.beyond(ratio) for ratio in (0.1, 0.9, 1.0, 2.04)] == [-1, 0, 0, 1]
    for value, drawn, not_drawn in ((2.04, "<path", "<circle"), (0.9, "<circle", "<path")):
        row = whisker(Estimate(value, None, None, 4, "1", "none"), scale)
        assert drawn in row
        assert not_drawn not in row


def test_a_change_beyond_the_axis_is_an_arrow_in_the_text() -> None:
    findings = compared()
    assert findings.compare is not None
    [contrast] = findings.compare.contrasts
    far = replace(contrast.comparisons["p99"], ratio=between(9.0, 8.0, 10.0))
    contrast = replace(contrast, comparisons={**contrast.comparisons, "p99": far})
    shown = replace(findings, compare=replace(findings.compare, contrasts=(contrast,)))
    [row] = [line for line in words_of(shown).splitlines() if line.startswith("  p99")]
    assert row.rstrip().endswith(">]")
    assert "+800 %" in row


def test_markdown_has_every_table_of_the_page_and_the_changes() -> None:
    findings = compared(plans=(CHANGE,))
    blocks = blocks_of(findings)
    markdown, pictures = answer_markdown(blocks, stem="report"), answer_pictures(blocks, "report")
    tables = [table for section in compare_sections(findings) for table in section.tables]
    assert len(tables) > 3
    assert [table.title for table in tables if table.title not in markdown] == []
    assert "| 4GB against 128MB | tps | +37.1 % (35.0 to 39.4) | faster |" in markdown
    assert all(f"![{name}]({name})" in markdown for name in pictures)


def between(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high, 9, "1", "between_runs")


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.97, 1.04, ["-5 %", "-2.5 %", "equal", "+2.5 %", "+5 %"]),
        (0.70, 1.10, ["-50 %", "-25 %", "equal", "+25 %", "+50 %"]),
        (0.90, 1.90, ["-50 %", "equal", "+100 %"]),
        (0.33, 3.0, ["-75 %", "-50 %", "equal", "+100 %", "+300 %"]),
        (0.12, 1.0, ["-90 %", "-50 %", "equal", "+100 %", "+900 %"]),
    ],
)
def test_an_axis_has_even_steps_and_a_logarithmic_axis_is_labelled(
    low: float, high: float, labels: list[str]
) -> None:
    scale = scale_of([between(1.0, low, high)], margin_ratio=0.02)
    assert [scale.label(mark) for mark in scale.marks()] == labels
    shares = [scale.share(mark) for mark in scale.marks()]
    assert shares == pytest.approx([-share for share in reversed(shares)])
    assert ("ratio scale" in scale.note) is (scale.reach_ratio > 1.5)


def without_intervals() -> ExperimentFindings:
    """Return a comparison after its first rounds: no metric has an interval that decides."""
    findings = compared()
    assert findings.compare is not None
    [contrast] = findings.compare.contrasts
    early = {
        name: replace(comparison, ratio=without_interval(comparison.ratio.value, "1"))
        for name, comparison in contrast.comparisons.items()
    }
    contrast_so_far = replace(contrast, comparisons=early, deciding=early["tps"])
    return replace(findings, compare=replace(findings.compare, contrasts=(contrast_so_far,)))


def test_one_note_for_all_rows_says_that_no_interval_exists_yet() -> None:
    text = words_of(without_intervals())
    assert "4GB against 128MB (no interval yet)" in text
    assert text.count("no interval yet") == 1
    page = page_of(without_intervals())
    plot = page[page.index('id="forest"') : page.index('id="difference"')]
    assert plot.count("no interval yet") == 1
    assert "no interval yet" not in words_of(compared())


def test_a_change_that_is_not_the_ratio_of_the_means_is_explained() -> None:
    findings = compared()
    assert findings.compare is not None
    reference, faster, bad = findings.compare.variants
    for mean, is_explained in ((1240 * 1.371, False), (1240 * 1.30, True)):
        metrics = {"tps": Estimate(mean, mean - 9, mean + 9, 12, "tps", "between_runs")}
        variants = (reference, replace(faster, metrics=metrics), bad)
        shown = replace(findings, compare=replace(findings.compare, variants=variants))
        text = " ".join(words_of(shown).split())
        words = "the means of all runs differ by +30.0 %, the rounds by +37.1 % on average"
        assert (words in text) is is_explained
        assert (words in " ".join(page_of(shown).split())) is is_explained


def test_every_headline_without_valid_runs_says_that_none_is_valid() -> None:
    findings = compared()
    assert findings.compare is not None
    words = validity_words(valid=0, total=24)
    assert words == "NOT VALID, none of 24 runs: "
    marked = with_validity(findings.compare, words)
    assert marked is not None
    said = words + findings.sentence
    bad = replace(findings, compare=marked, sentence=said, runs_valid=0)
    page = page_of(bad)
    assert f"<title>{said}" in page
    assert '<p class="verdict said bad' in page
    assert '<p class="verdict said good' not in page
    assert 'class="good' not in page
    assert said in " ".join(words_of(bad).split())
    assert answer_markdown(blocks_of(bad), stem="x").startswith(f"# {said}")
    assert validity_words(valid=24, total=24) == ""
    assert validity_words(valid=20, total=24) == "20 of 24 runs valid: "
    assert validity_words(valid=0, total=1) == "NOT VALID: "


def test_either_all_variants_have_an_interval_or_none_has() -> None:
    findings = compared()
    assert findings.compare is not None
    first, second, *others = findings.compare.variants
    few = Estimate(100.0, -800.0, 1_000.0, 2, "tps", "between_runs")
    sure = Estimate(120.0, 118.0, 122.0, 2, "tps", "between_runs")
    variants = (
        replace(first, metrics={**first.metrics, "tps": few}),
        replace(second, metrics={**second.metrics, "tps": sure}),
        *others,
    )
    after_two_rounds = replace(findings, compare=replace(findings.compare, variants=variants))
    text = words_of(after_two_rounds)
    assert text.count("no interval yet: n = 2") == 2
    assert "118 to 122" not in text


def test_parts_have_no_intervals_while_one_would_break_its_column() -> None:
    findings = compared()
    assert findings.compare is not None
    contrast = findings.compare.contrasts[0]
    assert contrast.difference is not None
    wide = Estimate(-0.9, -40.0, 38.0, 2, "ms", "between_runs")
    first, *others = contrast.difference.parts
    early = replace(contrast.difference, parts=(replace(first, ms=wide), *others))
    tables = [change_table(some, "") for some in (replace(contrast, difference=early), contrast)]
    before, now = ({row[-1] for row in table.rows} for table in tables if table is not None)
    assert before == {"no interval yet", ""}
    assert "no interval yet" not in now


def test_a_tuning_without_a_proof_has_no_empty_table() -> None:
    findings = variant_examples.tuned(verdict="not known")
    assert findings.compare is not None
    yours = replace(findings.compare.variants[0], runs=0, runs_valid=0)
    compared = replace(findings.compare, variants=(yours,), contrasts=())
    titles = {section.title for section in blocks_of(replace(findings, compare=compared)).sections}
    assert "Values that were tried" in titles
    assert titles.isdisjoint({"Variants", "Differences"})
