"""docs/safety.md says what tests hold: each row and sentence names its tests here."""

from __future__ import annotations

import importlib
import re

import psycopg
import pytest
from tests.fixtures.clusters import run_sql
from tests.fixtures.command import Command, server_options
from tests.fixtures.ways_to_write import PERMITTED, Permitted
from tests.tidy.source import ROOT

from pgdyno.cli.main import MODULES, VERBS
from pgdyno.server.target import Target

DOCUMENT = (ROOT / "docs/safety.md").read_text()
_TRAPS = (
    "test_no_session_of_a_verb_calls_a_namesake_of_what_postgresql_has",
    "test_no_session_of_a_verb_calls_what_fits_better_than_what_postgresql_has",
    "test_no_verb_calls_a_function_that_a_part_of_a_tenants_table_names",
)
_MARKS = (
    "test_a_variant_that_leads_to_tables_of_the_user_is_refused",
    "test_the_mark_is_read_where_the_load_writes_and_not_where_pgdyno_observes",
)
# The beginning of a row or sentence, and the tests that fail if it is not true.
HELD = {
    "For a security department:": ("test_each_row_and_sentence_has_its_tests",),
    "A test holds each row and sentence": ("test_each_row_and_sentence_has_its_tests",),
    "`bench`, `sweep`": (
        "test_a_text_that_permits_itself_to_write_is_refused",
        "test_a_load_that_may_hurt_is_refused_with_the_option_that_allows_it",
    ),
    "`compare`, `run`, `tune`": (
        "test_a_text_that_permits_itself_to_write_is_refused",
        "test_settings_are_changed_for_a_variant_and_put_back",
        "test_changes_left_by_a_kill_are_announced_and_undone",
    ),
    "`work-mem`": (
        "test_a_text_that_permits_itself_to_write_is_refused",
        "test_the_server_refuses_writes_hidden_in_a_function",
        "test_a_value_that_adds_a_statement_is_refused",
    ),
    "`init`": (
        "test_tables_of_somebody_else_are_never_replaced_even_on_a_scratch_server",
        "test_a_function_of_the_user_with_this_name_stays",
        "test_a_schema_that_does_more_is_refused_before_anything_is_sent",
        "test_a_name_that_is_more_than_a_name_is_refused",
        "test_a_transaction_that_does_more_than_a_load_is_refused",
        "test_a_parameter_of_a_column_that_is_not_captured_is_refused",
    ),
    "`check`": ("test_bench_check_and_drop_take_the_dataset_that_they_are_asked_about",),
    "`drop`": ("test_tables_without_the_mark_are_never_dropped",),
    "`doctor`, `watch`, `settings`": (
        "test_an_observing_session_cannot_write_and_is_bounded_in_time",
        "test_only_what_print_sql_shows_is_sent",
    ),
    "`capture`": (
        "test_a_capture_sends_only_what_print_sql_shows_and_cannot_write",
        "test_no_planted_value_is_in_the_file",
    ),
    "`crash`": (
        "test_an_impossible_crash_is_refused_before_anything_starts",
        "test_a_server_in_use_needs_a_confirmation",
    ),
    "`undo`": ("test_changes_left_by_a_kill_are_announced_and_undone",),
    "`pgbench`": ("test_the_drop_in_is_not_limited",),
    "`spec`, `show`, `report`, `list`, `diff`, `export`, `note`": (
        "test_verbs_of_results_cannot_name_a_server",
    ),
    "These are all sessions": (*_TRAPS,),
    "The first statement names": (*_TRAPS,),
    "It makes `pg_catalog, pg_temp`": (*_TRAPS,),
    "A session that loads tables": (*_TRAPS,),
    "The tables of `init` belong": (
        "test_init_makes_its_tables_as_whom_and_where_pgbench_makes_them",
    ),
    "The same statement sets": (*_TRAPS, "test_our_settings_win_over_those_of_the_database"),
    "Whatever else a database": ("test_no_value_that_a_database_sets_stops_a_session_of_ours",),
    "They keep costs": ("test_no_value_that_a_database_sets_stops_a_session_of_ours",),
    "A session is pgdyno's own if": ("test_sessions_of_pgdyno_are_not_others",),
    "Another role's session": (
        "test_a_session_of_another_role_that_calls_itself_pgdyno_is_another_application",
        "test_an_application_that_names_itself_like_us_is_named",
    ),
    "It also sets `default_transaction_deferrable": (
        "test_no_session_of_ours_waits_for_the_transactions_of_others",
    ),
    "At a pooler, the settings": ("test_our_settings_end_with_each_transaction_at_a_pooler",),
    "If the server reports": ("test_a_session_that_may_write_again_is_closed",),
    "An answer to a question": (
        "test_an_answer_without_an_end_is_given_up",
        "test_a_verb_stays_small_while_rows_come_without_an_end",
    ),
    "The same limits hold for": (
        "test_a_load_whose_sessions_get_no_end_before_it_begins_ends_by_itself",
    ),
    # The rest is in stage.rs of the engine, which injects the clock.
    "Ten minutes without": (
        "test_a_load_whose_sessions_get_no_end_before_it_begins_ends_by_itself",
    ),
    **dict.fromkeys(
        (
            *("Who owns the database or the", "The functions of the new table"),
            *("So `init`, `crash`", "Let a role with few"),
        ),
        (
            "test_a_superusers_load_on_tables_that_a_landlord_can_replace_needs_a_confirmation",
            "test_everybody_who_can_replace_a_table_is_named_and_nobody_else",
        ),
    ),
    "If the database sets a role": (
        "test_a_role_that_the_database_sets_does_not_hide_that_a_superuser_is_there",
    ),
    "`watch` asks for a plan": (
        "test_no_plan_calls_a_function_that_a_tenant_adds_between_two_questions",
    ),
    "Statements of your own keep": ("test_a_variant_that_leads_to_tables_of_the_user_is_refused",),
    "The mark is the comment": (*_MARKS,),
    "The mark is read in": (*_MARKS,),
    "A view or foreign table has no mark": ("test_a_view_with_the_name_of_a_table_is_not_read",),
    "A table has none if": ("test_tables_with_code_of_another_user_do_not_count_as_marked",),
    "The rows of such a table": ("test_tables_with_code_of_another_user_do_not_count_as_marked",),
    "The rows are read in": ("test_a_view_with_the_name_of_a_table_is_not_read",),
    "`--cache prewarm` creates": ("test_prewarm_creates_no_extension_on_a_server_of_the_user",),
    "A script that names a foreign": (
        "test_a_foreign_table_needs_permission_however_a_script_reaches_it",
    ),
    "Views run functions": ("test_the_server_refuses_writes_hidden_in_a_function",),
    "PostgreSQL's grammar reads": (
        "test_a_script_with_this_statement_is_refused_by_its_text",
        "test_a_text_that_cannot_be_read_is_refused",
    ),
    "Each session has": ("test_the_server_refuses_writes_hidden_in_a_function",),
    "If a session switches": ("test_a_read_only_load_ends_before_it_can_write",),
    "Through a pooler": (
        "test_a_script_through_a_pooler_needs_permission",
        "test_a_script_together_with_a_built_in_that_writes_is_refused",
    ),
    "There, a script of your own needs": (
        "test_a_script_through_a_pooler_needs_permission",
        "test_a_script_together_with_a_built_in_that_writes_is_refused",
    ),
    "`pgdyno doctor` tells": ("test_the_documented_role_cannot_write_and_doctor_says_so",),
    "PostgreSQL permits the following": (
        "test_what_a_read_only_transaction_permits_is_documented",
    ),
    "As a statement of the script": (
        "test_the_document_lists_exactly_the_tried_ways_to_write",
        "test_a_script_with_this_statement_is_refused_by_its_text",
    ),
    "The only complete limit": ("test_the_documented_role_cannot_write_and_doctor_says_so",),
    "Passwords, keys and tokens": (
        "test_a_secret_in_a_script_is_in_no_output_no_file_and_no_child",
    ),
    "A message of the server that": ("test_no_message_of_the_server_brings_a_value_into_a_result",),
    "A password is in no": (
        "test_a_password_never_gets_into_the_arguments",
        "test_a_child_does_not_get_the_password_of_the_server",
    ),
    "SIGINT and SIGTERM": ("test_a_signal_ends_every_verb_and_nothing_is_left",),
    "If your own command hangs": (
        "test_a_signal_ends_a_restart_that_hangs_and_nothing_restarts_later",
        "test_a_signal_ends_an_apply_command_that_hangs",
        "test_a_signal_ends_a_crash_command_that_hangs",
    ),
    "pgdyno does not end a process": ("test_a_process_of_another_session_is_left_alone",),
    "pgdyno does not recognise a secret": ("test_a_secret_that_nothing_announces_stays",),
    "pgdyno does not know what an operator": (
        "test_an_operator_of_the_database_is_left_to_the_server",
    ),
    **dict.fromkeys(
        ("A capture is a file", "Before `init` makes anything"),
        (
            "test_what_the_capture_does_not_make_is_refused_in_every_kind_of_object",
            "test_an_edited_file_is_refused_before_anything_is_made",
        ),
    ),
    "The load of a capture needs": ("test_a_statement_on_a_table_of_others_needs_permission",),
    "The verbs `undo`": (
        "test_a_journal_of_somebody_else_executes_nothing_without_confirmation",
        "test_a_result_of_somebody_else_goes_on_only_with_confirmation",
    ),
    "Each line of a journal": (
        "test_a_journal_that_was_changed_or_copied_from_another_host_is_foreign",
    ),
    "Its key is in": ("test_the_key_of_journals_is_private_and_outside_of_the_store",),
    **dict.fromkeys(
        ("The seal is valid in one", "So a line that somebody copied", "The seal of the last line"),
        (
            "test_an_own_line_of_a_journal_counts_only_in_its_result_and_at_its_place",
            "test_a_specification_of_this_user_is_not_his_in_another_result",
        ),
    ),
    "A line without a seal": ("test_a_line_of_somebody_else_closes_no_change_of_this_user",),
    "Journals and specifications of": (
        "test_a_journal_of_an_older_version_is_read_and_undone_after_a_confirmation",
    ),
    "So is a table whose values": (
        "test_a_small_file_with_more_values_than_memory_is_refused_unread",
    ),
    "Without the seal": (
        "test_a_journal_of_somebody_else_executes_nothing_without_confirmation",
        "test_a_result_of_somebody_else_goes_on_only_with_confirmation",
    ),
    "A result with a pipe": ("test_a_pipe_or_a_link_in_a_result_is_refused_and_never_waited_for",),
    "Another name of a file": ("test_another_name_of_a_file_in_a_result_is_not_written",),
    "A process that a leftover": ("test_a_forged_pid_is_never_ended",),
    "Characters that move the cursor": (
        "test_what_others_wrote_is_text_on_a_page",
        "test_control_characters_are_shown_escaped",
        "test_texts_of_charts_are_printable_after_the_page_has_read_them",
        "test_a_live_line_escapes_what_would_move_the_cursor",
        "test_a_json_document_with_control_characters_in_names_stays_valid",
    ),
    "Further lines of a message": ("test_control_characters_are_shown_escaped",),
    "Names in the advice": (
        "test_advice_about_a_table_with_a_hostile_name_is_one_statement_about_this_table",
        "test_the_server_reads_a_name_as_it_was",
    ),
    "Cells of CSV": ("test_a_text_in_csv_is_no_formula",),
    "A connection string whose": ("test_no_part_of_a_password_is_shown",),
    "If the server does not answer": (
        "test_a_signal_ends_every_verb_while_the_server_hangs",
        "test_a_signal_ends_every_verb_while_the_server_floods",
    ),
    "It says which settings": (
        "test_settings_that_could_not_be_restored_are_named_with_the_command_for_it",
    ),
    "Workers of Citus are asked": (
        "test_every_collector_gives_its_rows_of_a_node",
        "test_no_statement_that_the_coordinator_passes_on_calls_what_a_tenant_made",
    ),
    "If only the coordinator reaches them": (
        "test_no_statement_that_the_coordinator_passes_on_calls_what_a_tenant_made",
    ),
    "Functions of extensions are called": (
        "test_no_function_beside_those_of_an_extension_is_called",
        "test_a_crash_calls_nothing_of_a_tenant",
    ),
    "The sessions of the load of `crash`": ("test_a_crash_calls_nothing_of_a_tenant",),
    "A statement of the load that calls": (
        "test_a_statement_that_calls_a_harmful_function_is_left_out_alone_and_named",
    ),
    **dict.fromkeys(
        ("In the database of a copy", "Both verbs and the page name"),
        ("test_a_statement_that_calls_a_function_of_others_is_left_out_alone_and_named",),
    ),
    "`capture show`, `bench` and its page": (
        "test_a_statement_that_calls_a_harmful_function_is_left_out_alone_and_named",
    ),
    "The other statements of its transaction": (
        "test_a_statement_that_calls_a_harmful_function_is_left_out_alone_and_named",
    ),
    "The sessions of the load search only": (
        "test_a_table_of_another_schema_is_not_meant_by_the_load",
    ),
    "Citus itself sends": ("test_no_verb_calls_what_a_tenant_made_on_any_node",),
    "A tenant who owns a database of a Citus": (
        "test_no_verb_calls_what_a_tenant_made_on_any_node",
    ),
    "A role that may create functions": (
        "test_who_may_create_in_a_schema_of_the_path_catches_what_citus_itself_sends",
    ),
    "`list` names such a result": (
        "test_a_result_that_cannot_be_read_is_named_and_the_others_are_listed",
    ),
    "A link in a store to a folder": ("test_a_link_in_a_store_is_not_followed_unless_it_is_named",),
    "This is so for every client": (
        "test_who_may_create_in_a_schema_of_the_path_catches_what_citus_itself_sends",
    ),
    "On each node, let nobody": (
        "test_who_may_create_in_a_schema_of_the_path_catches_what_citus_itself_sends",
    ),
    "Otherwise, pgdyno closes the session": ("test_an_answer_without_an_end_is_given_up",),
    "Only its owner and superusers": ("test_only_the_owner_of_a_database_sets_its_path",),
    "A connection that a function opens": (
        "test_a_connection_that_a_function_opens_is_not_read_only",
    ),
}


def row_of(row: Permitted) -> str:
    versions = f"14 to {row.until}" if row.until else "14 to 18"
    direct = "refused" if row.direct_is_refused else "permitted"
    return f"| {row.words} | {row.roles} | {versions} | {direct} |"


def rows_and_sentences() -> list[str]:
    """Return the rows of the first table, and every sentence of the page in one line each.

    Code, headings and the second table, which `PERMITTED` holds, are left out.
    """
    verbs = re.findall(r"^\| (`.*?`) \|", DOCUMENT, re.M)
    prose = re.sub(r"```.*?```", "", DOCUMENT, flags=re.S)
    blocks = [
        " ".join(block.removeprefix("- ").split())
        for block in re.split(r"\n\n|\n(?=- )", prose)
        if not block.lstrip().startswith(("#", "|"))
    ]
    return [*verbs, *(text for block in blocks for text in re.split(r"(?<=\.) (?=[A-Z`])", block))]


def test_each_row_and_sentence_has_its_tests() -> None:
    known = {text: [key for key in HELD if text.startswith(key)] for text in rows_and_sentences()}
    assert [text for text, keys in known.items() if text and len(keys) != 1] == []
    assert {key for keys in known.values() for key in keys} == set(HELD)


def test_the_tests_that_it_relies_on_exist() -> None:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    defined = {name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.M)}
    assert {name for names in HELD.values() for name in names} - defined == set()


def test_every_verb_is_in_the_table() -> None:
    listed = re.findall(r"`([a-z-]+)`", " ".join(re.findall(r"^\| (`.*?`) \|", DOCUMENT, re.M)))
    assert sorted(listed) == sorted(VERBS)


def test_the_document_lists_exactly_the_tried_ways_to_write() -> None:
    table = DOCUMENT.split("| as a statement |\n|---|---|---|---|\n")[1].split("\n\n")[0]
    assert table.splitlines() == [row_of(row) for row in PERMITTED]


@pytest.mark.pg
def test_the_documented_role_cannot_write_and_doctor_says_so(
    database: Target, pgdyno: Command
) -> None:
    [block] = re.findall(r"```sql\n(.*?)```", DOCUMENT, re.S)
    run_sql(database, "CREATE TABLE kept AS SELECT 1 AS a")
    for statement in block.split(";\n"):
        if statement.strip():
            run_sql(database, statement)
    try:
        assert run_sql(
            database,
            "SELECT has_table_privilege('pgdyno_reader', 'kept', 'SELECT'),"
            " has_table_privilege('pgdyno_reader', 'kept', 'INSERT, UPDATE, DELETE, TRUNCATE')",
        ) == [(True, False)]
        for user, can_write in (("pgdyno_reader", False), (database.user, True)):
            said = pgdyno("doctor", *server_options(database, user), "--json")
            assert said.document["rights"]["can_write"] is can_write, said.err
            text = pgdyno("doctor", *server_options(database, user)).out
            assert ("the role may change tables" in text) is can_write
    finally:
        run_sql(database, "DROP ROLE pgdyno_reader")


@pytest.mark.pg
def test_only_the_owner_of_a_database_sets_its_path(database: Target) -> None:
    run_sql(database, "CREATE ROLE stranger; CREATE ROLE proprietor")
    name = database.database
    run_sql(
        database,
        f"GRANT ALL ON DATABASE {name} TO stranger; ALTER DATABASE {name} OWNER TO proprietor",
    )
    change = f"SET ROLE {{}}; ALTER DATABASE {name} SET search_path = public"
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            run_sql(database, change.format("stranger"))
        run_sql(database, change.format("proprietor"))
    finally:
        run_sql(database, f"ALTER DATABASE {name} OWNER TO {database.user}")
        run_sql(database, f"REVOKE ALL ON DATABASE {name} FROM stranger")
        run_sql(database, "DROP ROLE stranger, proprietor")


def test_verbs_of_results_cannot_name_a_server() -> None:
    for verb in ("spec", "show", "report", "list", "diff", "export", "note"):
        command = importlib.import_module(MODULES[verb]).command
        names = {param.name for param in command.params}
        assert not names & {"host", "port", "user", "database", "conninfo"}, verb
