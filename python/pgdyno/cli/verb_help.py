"""The first part of --help: two examples of each verb, and the options that most commands need."""

from __future__ import annotations

# The purpose of an example, and its command. tests/examples/test_documents.py runs each of them.
Example = tuple[str, str]

EXAMPLES: dict[str, tuple[Example, Example]] = {
    "pgdyno": (
        ("How much can this machine do? A scratch server is created and removed", "pgdyno sweep"),
        (
            "Observe your own server for 10 minutes; only reads",
            "pgdyno watch -h db1 -d bank --duration 10min",
        ),
    ),
    "bench": (
        ("8 clients for one minute, on a scratch server", "pgdyno bench -c 8 -T 60s"),
        (
            "1,500 transactions per second on your own server, read-only",
            "pgdyno bench -h db1 -d bank -S -c 16 -R 1500 -T 3min",
        ),
    ),
    "sweep": (
        ("Peak and knee of a scratch server", "pgdyno sweep -s 50 -b tpcb-like"),
        (
            "The highest load of your own server with p99 <= 20 ms, read-only",
            "pgdyno sweep -h db1 -d bank -S --slo p99=20ms",
        ),
    ),
    "compare": (
        (
            "Does a setting help? On a scratch server",
            'pgdyno compare -c 8 --variant "1MB: work_mem=1MB" --variant "64MB: work_mem=64MB"',
        ),
        (
            "On your own server, read-only, with a setting of the session",
            'pgdyno compare -h db1 -d bank -S --variant "on: jit=on" --variant "off: jit=off"',
        ),
    ),
    "tune": (
        ("Which settings make this load faster? On a scratch server", "pgdyno tune -s 50 -c 8"),
        (
            "Search one setting in a range, at most 20 minutes",
            "pgdyno tune -s 50 -c 8 --setting max_wal_size=64MB..4GB --budget 20min",
        ),
    ),
    "crash": (
        ("Does a crash of the server lose anything?", "pgdyno crash --crashes 20"),
        (
            "What does a power failure lose with synchronous_commit = off?",
            "pgdyno crash --kind power --set synchronous_commit=off",
        ),
    ),
    "run": (
        ("Show the plan of an experiment, then carry it out", "pgdyno run spec.toml --dry-run"),
        ("Continue the last experiment, which was interrupted", "pgdyno run --resume last"),
    ),
    "spec": (
        (
            "The experiment of a BenchmarkSQL file",
            "pgdyno spec from-benchmarksql props.pg -o spec.toml",
        ),
        (
            "The experiment of a HammerDB script, on a scratch server",
            "pgdyno spec from-hammerdb run.tcl --scratch -o spec.toml",
        ),
    ),
    "settings": (
        ("Which settings of this server need attention?", "pgdyno settings -h db1 -d bank"),
        (
            "Check a file for a host with 64 GB of memory",
            "pgdyno settings --file postgresql.conf --pg-version 18 --ram 64GB",
        ),
    ),
    "work-mem": (
        ("How many temporary files did this server write?", "pgdyno work-mem -h db1 -d bank"),
        (
            "Try the statements of a file on a scratch server",
            "pgdyno work-mem --scratch -s 10 -f report.sql",
        ),
    ),
    "doctor": (
        ("Is this host ready for measuring?", "pgdyno doctor"),
        ("Check a server, and what its role may do", "pgdyno doctor -h db1 -d bank --all"),
    ),
    "capture": (
        (
            "Half an hour of your own load; only reads, and keeps no values of rows",
            "pgdyno capture -h db1 -d bank --duration 30min -o bank.capture",
        ),
        ("Show everything in the file, for the security team", "pgdyno capture show bank.capture"),
    ),
    "watch": (
        ("Observe a server for one hour", "pgdyno watch -h db1 -d bank --duration 1h"),
        (
            "Print every statement that watch may send, for the security team",
            "pgdyno watch --print-sql",
        ),
    ),
    "init": (
        ("Load the pgbench tables at scale 100 (1.5 GB)", "pgdyno init -h db1 -d bench -s 100"),
        (
            "Load the tables of the TPC-C-like workload",
            "pgdyno init tpcc -h db1 -d tpcc --warehouses 10",
        ),
    ),
    "init capture": (
        ("The same tables as captured, with other rows", "pgdyno init bank.capture -h db2 -d copy"),
        (
            "A tenth of the rows, on a scratch server that stays",
            "pgdyno init bank.capture --scratch --fraction 0.1 --keep",
        ),
    ),
    "tpcc": (
        ("Load 10 warehouses (1 GB)", "pgdyno init tpcc -h db1 -d tpcc --warehouses 10"),
        (
            "Load with 8 connections",
            "pgdyno init tpcc -h db1 -d tpcc --warehouses 100 -j 8",
        ),
    ),
    "ledger": (
        ("Load accounts for 64 clients", "pgdyno init ledger -h db1 -d ledger --accounts 64"),
        ("Put load on them", "pgdyno bench -h db1 -d ledger --builtin ledger -c 64"),
    ),
    "check": (
        ("Check the conditions in all warehouses", "pgdyno check tpcc -h db1 -d tpcc"),
        ("Write the verdicts as JSON", "pgdyno check tpcc -h db1 -d tpcc --json verdicts.json"),
    ),
    "drop": (
        ("Remove the dataset that pgdyno made", "pgdyno drop -h db1 -d bench"),
        ("Remove only the TPC-C tables", "pgdyno drop tpcc -h db1 -d tpcc"),
    ),
    "show": (
        ("Print the last result again", "pgdyno show"),
        ("Print result 12 as JSON", "pgdyno show 12 --json"),
    ),
    "report": (
        ("Write the HTML page of the last result", "pgdyno report"),
        ("Write a PDF of result 12", "pgdyno report 12 --pdf -o result.pdf"),
    ),
    "list": (
        ("Results of this folder", "pgdyno list"),
        ("Results of another folder, as JSON", "pgdyno list --store /srv/results --json"),
    ),
    "diff": (
        ("Compare results 12 and 15", "pgdyno diff 12 15"),
        ("Compare variants of two comparisons", "pgdyno diff 12:off 15:off"),
    ),
    "export": (
        ("One row per run, as CSV", "pgdyno export 12"),
        (
            "Wait events of all runs, as Parquet",
            "pgdyno export 12 --table waits --format parquet -o waits.parquet",
        ),
    ),
    "note": (
        ("Keep a remark with result 12", 'pgdyno note 12 "after change CHG0048211"'),
        ("Print its remarks", "pgdyno note 12"),
    ),
    "undo": (
        ("Restore what killed experiments left changed", "pgdyno undo"),
        ("Print the previous values of result 12; change nothing", "pgdyno undo 12 --dismiss"),
    ),
}

_PSQL = "--host --port --user --database"
_LOAD = "--host --database --clients --builtin --file --scale --allow-write --dry-run"
# The options that --help shows, at most 15; --help-all shows all. A verb without a line has few
# options, and --help shows all of them.
MAIN: dict[str, frozenset[str]] = {
    verb: frozenset(names.split())
    for verb, names in {
        "bench": f"{_LOAD} --duration --rate --confirm --set --check --name --json",
        "sweep": f"{_LOAD} --duration --rounds --slo --variant --set --check --json",
        "compare": f"{_LOAD} --variant --metric --precision --budget --duration --rate --admin",
        "tune": f"{_LOAD} --goal --setting --class --budget --rate --admin --json",
        "crash": "--kind --crashes --seed --clients --check-sql --recovery-timeout --no-controls "
        "--standby --scratch --pg-version --data-dir --set --store --name --json",
        "run": "--resume --budget --dsn --allow-write --confirm --admin --apply-command "
        "--restart-command --check --abort-if --print-spec --dry-run --store --json --quiet",
        "settings": f"{_PSQL} --file --pg-version --ram --disk --load --ssh --all --rules --explain"
        " --check --json",
        "work-mem": f"{_PSQL} --file --define --max --timeout --active --ram --prove "
        "--allow-explain-analyze --scratch --sql --json",
        "doctor": f"{_PSQL} --ram --flush --ssh --host-shell --all --grants --check --print-sql "
        "--json --aa --budget",
        "watch": f"{_PSQL} --ssh --host-shell --pooler --duration --interval --note --print-sql "
        "--store --name --json --quiet",
        "init": f"{_PSQL} --scale --fillfactor --partitions --unlogged-tables --foreign-keys "
        "--load-jobs --init-steps --restart --distribute --print-sql --confirm",
        "tpcc": f"{_PSQL} --warehouses --partitions --load-jobs --restart --distribute --print-sql "
        "--confirm --seed --json --quiet --fillfactor",
        "ledger": f"{_PSQL} --accounts --load-jobs --restart --print-sql --confirm --json --quiet",
    }.items()
}

_PAIRS_END = "The comparison ends by itself: set --precision, or the longest time with --budget."

# Options that people type from habit: the verb and the option, and what to use instead.
MEANT: dict[tuple[str, str], str] = {
    ("watch", "-T"): "Use --duration TIME.",
    ("capture", "-T"): "Use --duration TIME.",
    ("capture", "--time"): "Use --duration TIME.",
    ("watch", "--time"): "Use --duration TIME.",
    ("watch", "-P"): "Use --interval TIME.",
    ("compare", "--rounds"): _PAIRS_END,
    ("compare", "--pairs"): _PAIRS_END,
    ("compare", "--repeat"): _PAIRS_END,
    ("compare", "--runs"): _PAIRS_END,
    ("sweep", "--repeat"): "Use --rounds N.",
    ("sweep", "--runs"): "Use --rounds N.",
}
