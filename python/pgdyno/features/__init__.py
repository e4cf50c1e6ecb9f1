"""The table of features. A feature is a folder here and a line in `FEATURES`."""

from __future__ import annotations

from pgdyno.feature import Feature, KindHelp, Metric, ProgramWords

_TPCC_TABLES = KindHelp(
    options="""
        Tables
        -W --warehouses N:1..1000000 *  Number of warehouses, about 100 MB each (default 1).
        --seed N:0..18446744073709551615
            Seed of the data (default 1). The same seed makes the same rows.
        --c-last N:0..255
            NURand's constant C for the last names in the data (default 157).
        -F --fillfactor N:10..100
            Fill factor of all tables in percent (default: a value for each table).
        --unlogged-tables (unlogged)  Create tables without WAL.
        --foreign-keys  Add foreign keys between the tables.
        --partitions N:0..2147483647
            Number of hash partitions by warehouse of each large table (default 0).
    """,
    loading="""
        Loading
        --distribute citus|  Distribute the tables over the nodes of Citus, by warehouse.
    """,
    check="tpcc: the twelve consistency conditions of TPC-C in all warehouses, and the items. The "
    "check also tests whether customers and items of the orders that were made after the load"
    " have the skew of NURand, with any constant C. This test does not change the exit code, "
    "because the orders of several runs together can differ from NURand.",
)
_CAPTURE_TABLES = KindHelp(
    options="""
        Tables
        --fraction RATIO:float  Make this share of the rows of the captured tables (default 1).
    """,
    loading="""
        Loading
        --import-statistics
            Give the tables the planner statistics of the original (needs PostgreSQL 18).
    """,
    jobs="(default 2). Each loads one table after another.",
)
_LEDGER_TABLES = KindHelp(
    options="""
        Tables
        --accounts N:1..1000000 *
            Number of accounts, at least one for each client of a load (default 1000).
    """,
    jobs="(default 1): one connection loads the only table that has rows.",
)

FEATURES = (
    Feature(
        name="tpcc",
        package="pgdyno.features.tpcc",
        verbs={
            "check": "Check whether a dataset is consistent.",
            "spec": "Make a spec file from a file of another tool.",
        },
        heading="Data and loads",
        programs={
            "tpcc-like": {
                name: name for name in ("load", "translation", "data", "answer", "shown")
            },
        },
        metrics={
            "tpcc-like": (
                Metric(
                    name="nopm",
                    words="NOPM",
                    meaning="New-Orders completed per minute (tpcc-like)",
                    unit="1/min",
                    counts="new-order",
                    seconds=60,
                ),
            )
        },
        program_words={
            "tpcc-like": ProgramWords(
                option="--terminals",
                clients="10 per warehouse if terminals think",
                target="new-order.p90=5s",
            )
        },
        kinds={"tpcc": _TPCC_TABLES},
        parts={"verb_help": "help:"},
        tables={"dataset_kinds": {"tpcc": "tables:TPCC"}},
    ),
    Feature(
        name="capture",
        package="pgdyno.features.capture",
        verbs={"capture": "Capture your own load in a file, without your data."},
        heading="Data and loads",
        programs={
            "mirror": {
                name: f"mirror.{name}"
                for name in ("load", "recorded", "job", "source", "probe", "answer", "shown")
            },
        },
        kinds={"capture": _CAPTURE_TABLES},
        parts={"verb_help": "help:"},
        tables={
            "dataset_kinds": {"capture": "tables:CAPTURED"},
            "init_kinds": {"capture": "init_capture:INIT"},
        },
    ),
    Feature(
        name="crash",
        package="pgdyno.features.crash",
        verbs={"crash": "Show what an acknowledged commit survives."},
        heading="Measure",
        programs={"ledger": {"load": "ledger.load"}},
        kinds={"ledger": _LEDGER_TABLES},
        parts={"losses": "price:", "verb_help": "help:"},
        tables={
            "dataset_kinds": {"ledger": "ledger.tables:LEDGER"},
            "results": {"crash": "result_kind:CRASHES"},
        },
    ),
    Feature(
        name="doctor",
        package="pgdyno.features.doctor",
        verbs={"doctor": "Check host, settings and privileges before you measure."},
        heading="Server",
        parts={"checkup": "checkup:ServerCheckup", "verb_help": "help:"},
    ),
    Feature(
        name="watch",
        package="pgdyno.features.watch",
        needs=("doctor",),
        verbs={"watch": "Observe a server without adding load."},
        heading="Server",
        parts={
            "collectors": "incident.sampled:COLLECTORS",
            "observer_statements": "incident.sampled:statements",
            "peak_seen": "segments:peak_seen",
            "verb_help": "help:",
        },
        tables={"results": {"watch": "result_kind:WATCH"}},
    ),
    Feature(
        name="tune",
        package="pgdyno.features.tune",
        needs=("doctor",),
        verbs={
            "tune": "Find better settings, and prove them.",
            "settings": "Explain and check the settings of a server.",
            "work-mem": "Find how much memory sorts and hashes need.",
        },
        heading="Server",
        parts={"verb_help": "help:", "word_help": "setting_help:about"},
        tables={
            "design_models": {"tune": "spec:TuneDesign"},
            "designs": {"tune": "design_kind:TUNE"},
        },
    ),
    Feature(
        name="hosts",
        package="pgdyno.features.hosts",
        traces=("hosts.json",),
        parts={
            "fleet": "load_hosts:opened",
            "run_doubts": "answer:doubts_of_hosts",
            "run_findings": "answer:hosts_of",
            "run_sections": "shown:host_sections",
        },
    ),
    Feature(
        name="nodes",
        package="pgdyno.features.nodes",
        extension="citus",
        traces=("placements", "node_database", "node_waits"),
        parts={
            "charts": "charts:NODES",
            "collectors": "observed:NODE_COLLECTORS",
            "nodes": "nodes:",
            "nodes_answer": "answer:",
            "observed_nodes": "observed:observed_nodes",
            "observer_statements": "statements:statements",
            "run_doubts": "answer:doubts_of_nodes",
            "sql_collectors": "statements:COLLECTORS",
        },
    ),
)
