"""`pgdyno help`: pages, words and questions in the terminal, from docs/."""

from __future__ import annotations

import pytest

from pgdyno.cli.help import answer_to, other_words, topics
from pgdyno.cli.main import _run
from pgdyno.cli.page_search import pages
from pgdyno.errors import SpecError


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what the verb prints."""
    assert _run(["help", *words]) == 0
    return capsys.readouterr().out


def test_without_a_topic_every_page_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys)
    assert all(f"  {name} " in text for name in pages())


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("valid", "When a run is not valid (method)"),
        ("likeness", "How alike was the load? (own-workload)"),
        ("noise", "noise: scatter of results"),
        ("KNEE", "smallest load within 3 % of the peak"),
        ("method", "How pgdyno computes its numbers (method)"),
        ("load curve", "The load curve (method)"),
    ],
)
def test_a_word_or_a_question_finds_its_section(
    asked: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, *asked.split())
    assert answer in text
    assert "](" not in text


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("is this noise?", "Is B better than A? (method)"),
        ("error bars", "interval: range that contains the true value"),
        ("p-value", "interval: range"),
        ("jitter", "noise: scatter of results"),
        ("p99", "percentile: p99 = 5 ms"),
        ("qps", "throughput: completed transactions"),
        ("not valid", "valid: the test itself was sound"),
        ("exit codes", "Exit codes (cli)"),
        ("exit 5", "cannot tell: "),
        ("coordinated omission", "open loop: transactions are due by the clock"),
        ("why is it slow", "Why is it slow now? (slow-now)"),
        ("which disk", "Which disk? (which-disk)"),
        ("how many connections", "How many connections? (how-many-connections)"),
        ("regression", "Did last night's build get slower? (last-night)"),
        ("should i upgrade?", "Should I upgrade? (upgrade)"),
        ("pgbouncer", "Is a pooler worth it? (pooler)"),
        ("jupyter", "(api)"),
        ("alpine", "Install (install)"),
        ("rds", "Managed servers: RDS, Aurora, Cloud SQL, Azure (managed)"),
        ("tab", "(install)"),
        ("--check", "--check COND"),
        ("-T", "-T, --duration, --time TIME  Duration of the run (default 60s)."),
        ("compare", "pgdyno compare --help has its options."),
    ],
)
def test_what_a_user_types_finds_what_the_pages_call_otherwise(
    asked: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, *asked.split())
    first = text.partition("See also:")[0]
    assert answer in first
    assert "```" not in text


def test_the_answer_to_a_word_fits_on_two_screens(capsys: pytest.CaptureFixture[str]) -> None:
    for word in (*topics(), "doubt", "slow query", "checkpoint", "wait events", "root", "scratch"):
        if word not in pages():
            text = answer_to(word)
            assert len(text.splitlines()) <= 60, word


def test_every_other_word_leads_somewhere() -> None:
    other = other_words()
    assert len(other) > 50
    for word in other:
        assert answer_to(word), word
    # The search of the site needs a page, a heading or a term.
    titles = {section.title.lower() for page in pages().values() for section in page}
    places = {*topics(), *titles, "look for"}
    assert [place for place in other.values() if place not in places] == []


@pytest.mark.parametrize(
    "asked", ["percntile", "warmpu", "how do i percntile", "zzz", "conections"]
)
def test_an_unknown_topic_has_three_nearest_topics_and_no_list_of_all(asked: str) -> None:
    with pytest.raises(SpecError) as refused:
        answer_to(asked)
    assert refused.value.hint
    near = refused.value.hint.partition("are ")[2].partition(";")[0].split(", ")
    assert 1 <= len(near) <= 3
    for topic in near:
        assert answer_to(topic)


def test_an_unknown_topic_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["help", "percentle"]) == 1
    assert "percentile" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        ("why is my database slow?", "Why is it slow now?"),
        ("is synchronous_commit off safe", "What does a commit survive?"),
        ("a/b test", "pgdyno compare"),
        ("how many connections", "How many connections?"),
    ],
)
def test_a_question_is_found_without_its_small_words(asked: str, title: str) -> None:
    assert title in answer_to(asked.lower())


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        ("how do I stop it", "How to stop a verb: Ctrl-C and signals (safety)"),
        ("what happens if I press Ctrl-C?", "How to stop a verb: Ctrl-C and signals (safety)"),
        ("where are my results", "Where the results are (install)"),
        ("disk latency", "where the 2.30 ms go (first-report)"),
        ("what is steal", "steal: CPU time that the hypervisor"),
        ("why does it say cannot tell", "cannot tell: the interval has both"),
        ("how do I replay my production traffic", "Capture your own load (capture)"),
        ("which version of Postgres does it support", "Versions of PostgreSQL (install)"),
        ("continue an interrupted experiment", "Interruptions and failures (experiments)"),
        ("can I use it on aurora", "Managed servers: RDS, Aurora"),
        ("how do I make an HTML report", "pgdyno report (cli)"),
        ("how do I use it in CI", "Did last night's build get slower? (last-night)"),
        ("lik", "likeness: how alike"),
        ("SLO", "The highest load that keeps a latency target (method)"),
        ("why is it " + "slow " * 5000, "Why is it slow now? (slow-now)"),
    ],
)
def test_a_question_in_the_words_of_a_user_finds_its_section(asked: str, title: str) -> None:
    assert title in answer_to(asked.lower()).partition("See also:")[0]


def test_a_word_that_no_page_has_is_named_with_the_nearest_topic() -> None:
    assert "No page has the word percntile; nearest: percentile" in answer_to("high percntile")
    assert "nearest" not in answer_to("high percentile")


@pytest.mark.parametrize("asked", ["shared_buffers", "what is Shared_Buffers?", "DateStyle", "jit"])
def test_the_name_of_a_setting_explains_the_setting(
    asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, value, *_ = said(capsys, *asked.split()).splitlines()
    name = asked.removeprefix("what is ").rstrip("?").lower()
    assert first.lower().startswith(f"{name} ")
    assert value.startswith("value   ")


def test_a_page_begins_with_its_title_and_is_listed_with_it() -> None:
    for name, sections in pages().items():
        assert sections[0].heading.startswith("# "), name
