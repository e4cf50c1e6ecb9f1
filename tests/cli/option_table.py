"""How the effect of each option of the command line is shown.

An option without a line here gets a value by its type and is tried like the others. `TRIED` gives
the words where a value must fit the rest. `BY_TEST` names the test of an option whose effect needs
a server, a signal or another host. A new option that fits its verb needs no line.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """The words of an option, and words that it needs, with and without the option."""

    option: str
    needing: str = ""

    @property
    def used(self) -> list[str]:
        """The option and its value."""
        return self.option.split()

    @property
    def needed(self) -> list[str]:
        """The words that it needs."""
        return self.needing.split()


# The command line to which an option is added. The verbs with a load stop before it begins.
BASES = {
    "bench": "bench",
    "sweep": "sweep",
    "compare": "compare --variant a --variant b:work_mem=8MB",
    "tune": "tune --setting work_mem --budget 2h",
    "run": "run SPEC",
    "crash": "crash",
    "init ledger": "init ledger --print-sql",
    "init capture": "init capture CAPTURE --print-sql",
    "settings": "settings --file CONF",
    "work-mem": "work-mem --log LOG",
    "init": "init --print-sql",
    "init pgbench": "init pgbench --print-sql",
    "init tpcc": "init tpcc --print-sql",
    "spec": "spec from-benchmarksql PROPERTIES",
    "report": "report",
    "export": "export",
    "show": "show",
    "list": "list",
    "diff": "diff 1 1",
    "note": "note 1",
    "undo": "undo 1",
    "doctor": "doctor --user me",
    "watch": "watch --user me",
    "capture": "capture --user me",
    "check": "check tpcc --user me",
    "drop": "drop --user me",
}
LOADS = ("bench", "sweep", "compare", "tune")
TPCC = "-b tpcc-like"

# By the name of the option, or by verb and name.
TRIED = {
    "rate": Words("--rate 50"),
    "duration": Words("--duration 7s"),
    "transactions": Words("--transactions 9"),
    "latency_limit": Words("--latency-limit 20"),
    "knee_duration": Words("--knee-duration 9s"),
    "levels": Words("--clients 2,4"),
    "file": Words("--file SQL"),
    "define": Words("--define aid=5", "--file SQL"),
    "warmup": Words("--warmup 3s"),
    "no_check": Words("--no-check", TPCC),
    "think_ratio": Words("--think-factor 0.5", f"{TPCC} -c 2"),
    "confirm": Words("--confirm bank@db1"),
    "select_only": Words("--select-only", "--builtin simple-update"),
    "builtin": Words("--builtin simple-update"),
    "builtin_option": Words("--builtin-option mode=pipeline", TPCC),
    "active": Words("--active 2", "-c 4"),
    "connect_rate": Words("--connect-rate 5"),
    "servers_in_turns": Words("--servers-in-turns"),
    "partition_method": Words("--partition-method hash", "--partitions 2"),
    "warehouses": Words("--warehouses 3", TPCC),
    "accounts": Words("--accounts 2000", "-b ledger"),
    ("init ledger", "accounts"): Words("--accounts 2000"),
    ("work-mem", "accounts"): Words("--accounts 2000"),
    ("init capture", "fraction"): Words("--fraction 0.5"),
    "c_last": Words("--c-last 7", TPCC),
    "pg_version": Words("--pg-version 15"),
    "pg_bin": Words("--pg-bin FOLDER"),
    "data_dir": Words("--data-dir FOLDER"),
    "wal_dir": Words("--wal-dir FOLDER"),
    "settings": Words("--set work_mem=5MB"),
    "admin": Words("--admin user=dba"),
    "apply_command": Words("--apply-command true"),
    "restart_command": Words("--restart-command true", "--admin user=dba"),
    "recover_command": Words("--recover-command true", "--admin user=dba"),
    "command_timeout": Words("--command-timeout 9min", "--restart-command true --admin user=dba"),
    "observe": Words("--observe host=db1"),
    "pooler": Words("--pooler host=db1"),
    "ssh": Words("--ssh me@db1"),
    "host_shell": Words("--host-shell true"),
    "abort_if": Words("--abort-if p99>2s"),
    "store": Words("--store OTHER"),
    "name": Words("--name night"),
    "variants": Words("--variant c:work_mem=9MB"),
    "slo": Words("--slo p99=20ms"),
    "precision": Words("--precision 3%"),
    "margin": Words("--margin 5%"),
    "budget": Words("--budget 1h"),
    "price_of_loss": Words("--price-of-loss 3"),
    "searched": Words("--setting jit"),
    "classes": Words("--class durability --setting synchronous_commit"),
    "limits": Words("--keep p99<20ms"),
    "host": Words("--host db2"),
    "port": Words("--port 5433"),
    "user": Words("--user dba"),
    "database": Words("--database bank"),
    "json_to": Words("--json"),
    ("compare", "metric"): Words("--metric p99"),
    ("compare", "aa"): Words("--aa --variant c"),
    ("tune", "goal"): Words("--goal p99"),
    ("settings", "conf_file"): Words("--file OTHERCONF"),
    ("settings", "ram"): Words("--ram 28GB"),
    ("settings", "size"): Words("--size 400GB", "--rules"),
    ("settings", "cores"): Words("--cores 3", "--rules --ram 28GB"),
    ("settings", "disk"): Words("--disk hdd", "--rules --ram 28GB"),
    ("settings", "load"): Words("--load dw", "--rules --ram 28GB"),
    ("settings", "file_version"): Words("--pg-version 15"),
    ("settings", "explain"): Words("--explain work_mem"),
    ("work-mem", "partition_method"): Words("--partition-method hash"),
    ("settings", "check"): Words("--check good"),
    ("settings", "conf_to"): Words("--conf"),
    ("work-mem", "active"): Words("--active 7"),
    ("doctor", "ram"): Words("--ram 28GB"),
    ("doctor", "flush"): Words("--flush FOLDER"),
    ("doctor", "budget"): Words("--budget 1min"),
    ("doctor", "run"): Words("--run 2s"),
    # An embedded version, which is not the one that is used without the option.
    ("crash", "pg_version"): Words("--pg-version 16"),
    ("crash", "recover_command"): Words("--recover-command true"),
    ("crash", "command_timeout"): Words("--command-timeout 9min"),
    ("crash", "crash_command"): Words("--crash-command true"),
    ("crash", "check_sql"): Words("--check-sql SQL"),
    ("crash", "recovery_timeout"): Words("--recovery-timeout 9s"),
    ("crash", "promote_command"): Words("--promote-command true"),
    ("crash", "note"): Words("--note CHG0048211"),
    ("watch", "interval"): Words("--interval 2s"),
    ("watch", "note"): Words("--note CHG0048211"),
    ("work-mem", "ram"): Words("--ram 28GB"),
    ("work-mem", "log"): Words("--log OTHERLOG"),
    ("work-mem", "files"): Words("--file SQL"),
    ("work-mem", "define"): Words("--define aid=5"),
    ("work-mem", "largest"): Words("--max 2GB"),
    ("work-mem", "timeout"): Words("--timeout 2s"),
    ("work-mem", "prove"): Words("--prove 1min"),
    ("work-mem", "sql"): Words("--sql SQL"),
    ("work-mem", "warehouses"): Words("--warehouses 3"),
    ("work-mem", "c_last"): Words("--c-last 3"),
    ("init pgbench", "steps"): Words("--init-steps dtg"),
    ("init pgbench", "distribute"): Words("--distribute citus"),
    ("init pgbench", "load_jobs"): Words("--load-jobs 3", "--partitions 4"),
    ("init tpcc", "warehouses"): Words("--warehouses 3"),
    ("init tpcc", "seed"): Words("--seed 5"),
    ("init tpcc", "c_last"): Words("--c-last 3"),
    ("spec", "to"): Words("--output OUT"),
    ("report", "file"): Words("--output OUT.html"),
    ("export", "form"): Words("--format json"),
    ("export", "name"): Words("--table intervals"),
    ("export", "file"): Words("--output OUT"),
    ("run", "budget"): Words("--budget 1h"),
    ("run", "dsn"): Words("--dsn host=db2"),
}

_CAPTURE = "tests/features/capture/test_capture.py::"
_WATCH = "tests/features/watch/test_watch.py::"
_UNDO = "tests/measure/test_undo.py::"
_SPILL = "tests/features/tune/test_spill.py::"
_COPY = "tests/postgres/test_copy.py::"
_LOADING = "tests/postgres/test_loading.py::"
_SHORT = "tests/cli/test_short_answers.py::"
_EXAMINE = "tests/features/doctor/test_examine.py::"
_SAFETY = "tests/server/test_safety.py::"
_CHECK = "tests/cli/test_every_option.py::test_a_check_decides_the_exit_code"
_JSON = "tests/cli/test_errors.py::test_under_json_an_error_is_a_document"
_CONNINFO = "tests/server/test_conninfo.py::test_options_are_what_psql_means_by_them"
_SCRATCH = (
    "tests/cli/test_from_options.py::test_a_server_in_the_environment_needs_an_explicit_choice"
)
_PASSWORD = (
    "tests/postgres/test_password_command.py"
    "::test_every_part_of_the_lab_uses_the_command_and_keeps_nothing_of_it"
)
_RESTARTED = (
    "tests/features/tune/test_on_own_server.py"
    "::test_a_value_that_the_host_has_no_memory_for_is_named_and_the_others_are_measured"
)
# Tests of options whose effect needs a server, a signal or another host.
BY_TEST: dict[str | tuple[str, str], str] = {
    ("export", "raw"): "tests/store/test_export.py::test_a_text_in_csv_is_no_formula",
    ("undo", "confirm"): "tests/measure/test_foreign_results.py"
    "::test_a_journal_of_somebody_else_executes_nothing_without_confirmation",
    ("tune", "conf_to"): "tests/features/tune/test_formulas_after_a_tuning.py"
    "::test_a_tuning_without_a_proof_still_names_values_and_says_that_they_are_not_proved",
    **{(verb, "scratch"): _SCRATCH for verb in LOADS},
    "password_command": _PASSWORD,
    "hosts": "tests/features/hosts/test_local_hosts.py"
    "::test_four_hosts_do_exactly_what_one_engine_does",
    "only": "tests/features/capture/test_probe.py"
    "::test_a_load_runs_only_the_statements_that_are_named",
    "without": "tests/features/capture/test_probe.py"
    "::test_a_load_runs_only_the_statements_that_are_named",
    "program_speed": "tests/features/capture/test_replay.py"
    "::test_sessions_that_an_application_opens_are_opened_again",
    "read_only": "tests/features/capture/test_mirror_lab.py"
    "::test_without_permission_only_what_reads_may_run",
    **{("tune", name): _CONNINFO for name in ("host", "port", "user", "database")},
    (
        "tune",
        "pg_bin",
    ): "tests/server/test_find.py::test_each_found_server_has_version_source_and_abilities",
    ("tune", "restart_command"): _RESTARTED,
    ("tune", "command_timeout"): "tests/measure/test_hanging_commands.py"
    "::test_a_command_has_the_limit_of_its_option",
    ("tune", "recover_command"): "tests/measure/test_recover.py"
    "::test_a_variant_whose_server_stays_down_is_left_out",
    ("work-mem", "quiet"): "tests/cli/test_every_option.py::test_quiet_prints_no_notes",
    ("init pgbench", "print_sql"): f"{_LOADING}test_print_sql_is_all_that_a_load_sends",
    ("init tpcc", "print_sql"): f"{_LOADING}test_print_sql_is_all_that_a_load_sends",
    ("init pgbench", "dry_run"): f"{_LOADING}test_a_dry_run_says_rows_bytes_and_a_measured_time",
    ("init tpcc", "dry_run"): f"{_LOADING}test_a_dry_run_says_rows_bytes_and_a_measured_time",
    ("init ledger", "dry_run"): f"{_LOADING}test_a_dry_run_says_rows_bytes_and_a_measured_time",
    ("init capture", "dry_run"): f"{_LOADING}test_a_dry_run_says_rows_bytes_and_a_measured_time",
    ("init pgbench", "probe"): f"{_LOADING}test_a_dry_run_says_rows_bytes_and_a_measured_time",
    ("init tpcc", "probe"): f"{_LOADING}test_a_dry_run_says_rows_bytes_and_a_measured_time",
    ("init ledger", "probe"): f"{_LOADING}test_a_dry_run_says_rows_bytes_and_a_measured_time",
    ("init capture", "probe"): f"{_LOADING}test_a_dry_run_says_rows_bytes_and_a_measured_time",
    ("init ledger", "print_sql"): f"{_LOADING}test_print_sql_is_all_that_a_load_sends",
    (
        "init capture",
        "print_sql",
    ): f"{_COPY}test_statements_are_printed_and_missing_extensions_named_before_anything_is_made",
    ("init capture", "import_statistics"): f"{_COPY}test_a_copy_can_have_the_statistics_of_the"
    "_original",
    **{
        ("init capture", name): f"{_COPY}test_a_copy_on_a_scratch_server_is_compared_and_kept"
        for name in ("scratch", "pg_version", "keep")
    },
    ("crash", "scratch"): _SCRATCH,
    "verbose": "tests/cli/test_short_answers.py::test_an_answer_is_one_screen_and_v_prints_it_all",
    **{(verb, "check"): _CHECK for verb in (*LOADS, "run", "doctor")},
    **{
        (verb, "json_to"): _JSON
        for verb in ("check", "drop", "watch", "capture", "doctor", "crash", *LOADS, "run")
    },
    **{
        (f"init {kind}", name): test
        for kind in ("pgbench", "tpcc", "ledger", "capture")
        for name, test in {
            **dict.fromkeys(("host", "port", "user", "database"), _CONNINFO),
            "load_jobs": f"{_LOADING}test_the_same_command_continues_and_says_so",
            "restart": f"{_LOADING}test_other_options_are_refused_with_what_differs_and_restart"
            "_begins_anew",
            "skip_space_check": "tests/postgres/test_bad_input.py"
            "::test_a_load_on_a_full_disk_reports_it_and_can_continue_later",
            "confirm": f"{_SAFETY}test_loading_while_other_sessions_work_needs_a_confirmation",
            "no_check": "tests/features/tpcc/test_tpcc_run.py"
            "::test_a_violated_condition_makes_the_run_not_valid",
            "quiet": "tests/cli/test_every_option.py::test_quiet_prints_no_notes",
        }.items()
    },
    **{
        ("watch", name): "tests/features/watch/test_changes.py"
        "::test_the_command_compares_a_stored_watch_with_a_period_of_it"
        for name in ("compared", "compared_to")
    },
    ("capture", "to"): f"{_CAPTURE}test_an_interrupted_capture_keeps_what_was_counted_and_leaves"
    "_nothing_else",
    **{
        ("capture", name): f"tests/features/capture/test_log.py::{test}"
        for name, test in {
            "logs": "test_a_log_in_any_format_gives_the_scripts_of_the_load_back",
            "log_line_prefix": "test_the_options_of_logs_have_their_effect",
            "log_sample_rate": "test_the_options_of_logs_have_their_effect",
            "log_advice": "test_the_options_of_logs_have_their_effect",
        }.items()
    },
    (
        "list",
        "show_all",
    ): "tests/cli/test_short_answers.py::test_a_list_has_the_newest_results_first",
    ("doctor", "show_all"): f"{_EXAMINE}test_the_command_measures_flushes_in_the_given_folder",
    ("doctor", "grants"): f"{_EXAMINE}test_the_suggested_grants_give_a_role_the_missing_rights",
    ("doctor", "aa"): "tests/cli/test_every_option.py::test_noise_is_measured_with_its_options",
    ("doctor", "store"): "tests/cli/test_every_option.py::test_noise_is_measured_with_its_options",
    ("work-mem", "store"): "tests/features/tune/test_spill.py"
    "::test_statements_are_tried_on_a_server_of_ones_own_only_when_allowed",
    ("run", "more"): "tests/answer/test_compare.py::test_rounds_that_cannot_tell_are_continued",
    ("run", "resume"): "tests/loop/test_interruption.py"
    "::test_resuming_a_bench_that_was_cut_short_measures_it_whole",
    ("undo", "dismiss"): f"{_UNDO}test_a_change_that_cannot_be_undone_is_shown_and_dismissed",
    **{
        ("undo", name): "tests/cli/test_every_option.py::test_undo_uses_the_commands_that_are_given"
        for name in (
            "admin",
            "apply_command",
            "restart_command",
            "recover_command",
            "command_timeout_s",
        )
    },
}
