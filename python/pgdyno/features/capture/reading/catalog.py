"""The statements that read a server's catalogs and statistics. Every statement only reads."""

from __future__ import annotations

# Objects of the user: not of the system, not of an extension.
_OWN = (
    "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND NOT EXISTS (SELECT FROM"
    " pg_catalog.pg_depend e WHERE e.classid = '{class_}'::regclass AND e.objid = {oid}"
    " AND e.deptype = 'e')"
)


def _own(class_: str, oid: str) -> str:
    return _OWN.format(class_=f"pg_catalog.{class_}", oid=oid)


# A name as SQL needs it, with its schema.
_NAME = "format('%I.%I', n.nspname, {})"
_RELATION = _NAME.format("c.relname")

SESSION_SQL = (
    "SELECT pg_backend_pid(), current_setting('server_version_num')::int,"
    " current_setting('server_encoding'), current_database(), current_user,"
    " pg_has_role('pg_read_all_stats', 'USAGE'),"
    " d.datcollate, d.oid::int8,"
    " set_config('datestyle', 'ISO, YMD', false), set_config('timezone', 'UTC', false),"
    " set_config('intervalstyle', 'iso_8601', false), set_config('bytea_output', 'hex', false),"
    # As the grammar of libpg_query has it: a backslash does not escape the end of a string.
    " set_config('standard_conforming_strings', 'on', false),"
    " set_config('extra_float_digits', '1', false), set_config('jit', 'off', false),"
    " set_config('max_parallel_workers_per_gather', '0', false)"
    " FROM pg_catalog.pg_database d WHERE d.datname = current_database()"
)
# Whether sessions show which statement they execute, since PostgreSQL 14.
QUERY_IDS_SQL = (
    "SELECT current_setting('compute_query_id', true),"
    " current_setting('shared_preload_libraries') LIKE '%pg_stat_statements%'"
)
# Settings on which plans depend; not as this session has set them.
SETTINGS_SQL = (
    "SELECT name, CASE WHEN source = 'session' THEN reset_val ELSE current_setting(name) END"
    " FROM pg_catalog.pg_settings WHERE category LIKE"
    " 'Query Tuning%' OR name IN ('work_mem', 'hash_mem_multiplier', 'jit', 'shared_buffers',"
    " 'effective_cache_size', 'default_statistics_target', 'max_parallel_workers',"
    " 'max_parallel_workers_per_gather', 'default_transaction_isolation', 'synchronous_commit',"
    " 'standard_conforming_strings') ORDER BY name"
)
LOGGING_SQL = (
    "SELECT name, setting FROM pg_catalog.pg_settings WHERE name IN ('log_line_prefix',"
    " 'log_transaction_sample_rate', 'log_statement', 'log_min_duration_statement',"
    " 'log_min_duration_sample', 'log_statement_sample_rate')"
)
SCHEMAS_SQL = (
    "SELECT quote_ident(n.nspname) FROM pg_catalog.pg_namespace n WHERE "
    + _own("pg_namespace", "n.oid")
    + " ORDER BY 1"
)
EXTENSIONS_SQL = (
    "SELECT quote_ident(e.extname), quote_ident(n.nspname), e.extversion"
    " FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace"
    " WHERE e.extname <> 'plpgsql' ORDER BY e.oid"
)
ENUMS_SQL = (
    f"SELECT {_NAME.format('t.typname')}, array_agg(e.enumlabel::text ORDER BY e.enumsortorder)"
    " FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace"
    " JOIN pg_catalog.pg_enum e ON e.enumtypid = t.oid"
    f" WHERE {_own('pg_type', 't.oid')} GROUP BY t.oid, n.nspname, t.typname ORDER BY t.oid"
)
# Composite types that are not the row of a table.
COMPOSITES_SQL = (
    f"SELECT {_RELATION}, string_agg(format('%I %s', a.attname,"
    " pg_catalog.format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum)"
    " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
    f" AND NOT a.attisdropped WHERE c.relkind = 'c' AND {_own('pg_type', 'c.reltype')}"
    " GROUP BY c.oid, n.nspname, c.relname ORDER BY c.oid"
)
# Ranges with their own subtype. Later versions also name a type of multiranges.
RANGES_SQL = (
    f"SELECT {_NAME.format('t.typname')}, pg_catalog.format_type(r.rngsubtype, NULL),"
    " (SELECT format('%I.%I', cn.nspname, c.collname) FROM pg_catalog.pg_collation c"
    " JOIN pg_catalog.pg_namespace cn ON cn.oid = c.collnamespace JOIN pg_catalog.pg_type st"
    " ON st.oid = r.rngsubtype WHERE c.oid = r.rngcollation AND st.typcollation <> c.oid),"
    " (SELECT format('%I.%I', pn.nspname, p.proname) FROM pg_catalog.pg_proc p"
    " JOIN pg_catalog.pg_namespace pn ON pn.oid = p.pronamespace WHERE p.oid = r.rngsubdiff),"
    " (SELECT format('%I.%I', mn.nspname, m.typname) FROM pg_catalog.pg_type m"
    " JOIN pg_catalog.pg_namespace mn ON mn.oid = m.typnamespace"
    " WHERE m.oid::text = to_jsonb(r) ->> 'rngmultitypid')"
    " FROM pg_catalog.pg_range r JOIN pg_catalog.pg_type t ON t.oid = r.rngtypid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace"
    f" WHERE {_own('pg_type', 't.oid')} ORDER BY t.oid"
)
# The columns of the locale differ from version to version.
COLLATIONS_SQL = (
    f"SELECT {_NAME.format('c.collname')}, c.collprovider::text,"
    " coalesce(to_jsonb(c) ->> 'colllocale', to_jsonb(c) ->> 'colliculocale', c.collcollate),"
    " c.collctype, c.collisdeterministic"
    " FROM pg_catalog.pg_collation c JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace"
    f" WHERE {_own('pg_collation', 'c.oid')} ORDER BY c.oid"
)
# Of the usual kind: without ORDER BY in the arguments.
AGGREGATES_SQL = (
    f"SELECT {_NAME.format('p.proname')}, pg_catalog.pg_get_function_identity_arguments(p.oid),"
    " (SELECT format('%I.%I', fn.nspname, f.proname) FROM pg_catalog.pg_proc f"
    " JOIN pg_catalog.pg_namespace fn ON fn.oid = f.pronamespace WHERE f.oid = a.aggtransfn),"
    " pg_catalog.format_type(a.aggtranstype, NULL),"
    " (SELECT format('%I.%I', fn.nspname, f.proname) FROM pg_catalog.pg_proc f"
    " JOIN pg_catalog.pg_namespace fn ON fn.oid = f.pronamespace WHERE f.oid = a.aggfinalfn),"
    " (SELECT format('%I.%I', fn.nspname, f.proname) FROM pg_catalog.pg_proc f"
    " JOIN pg_catalog.pg_namespace fn ON fn.oid = f.pronamespace WHERE f.oid = a.aggcombinefn),"
    " a.agginitval, p.proparallel::text FROM pg_catalog.pg_aggregate a"
    " JOIN pg_catalog.pg_proc p ON p.oid = a.aggfnoid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    f" WHERE a.aggkind = 'n' AND {_own('pg_proc', 'p.oid')} ORDER BY p.oid"
)
SEARCH_DICTIONARIES_SQL = (
    f"SELECT {_NAME.format('d.dictname')}, format('%I.%I', tn.nspname, t.tmplname),"
    " d.dictinitoption FROM pg_catalog.pg_ts_dict d"
    " JOIN pg_catalog.pg_ts_template t ON t.oid = d.dicttemplate"
    " JOIN pg_catalog.pg_namespace tn ON tn.oid = t.tmplnamespace"
    " JOIN pg_catalog.pg_namespace n ON n.oid = d.dictnamespace"
    f" WHERE {_own('pg_ts_dict', 'd.oid')} ORDER BY d.oid"
)
# A row for each kind of token, with its dictionaries.
SEARCH_CONFIGURATIONS_SQL = (
    f"SELECT {_NAME.format('c.cfgname')}, format('%I.%I', pn.nspname, p.prsname), k.alias,"
    " (SELECT string_agg(format('%I.%I', dn.nspname, d.dictname), ', ' ORDER BY m.mapseqno)"
    " FROM pg_catalog.pg_ts_config_map m JOIN pg_catalog.pg_ts_dict d ON d.oid = m.mapdict"
    " JOIN pg_catalog.pg_namespace dn ON dn.oid = d.dictnamespace"
    " WHERE m.mapcfg = c.oid AND m.maptokentype = k.tokid)"
    " FROM pg_catalog.pg_ts_config c JOIN pg_catalog.pg_namespace n ON n.oid = c.cfgnamespace"
    " JOIN pg_catalog.pg_ts_parser p ON p.oid = c.cfgparser"
    " JOIN pg_catalog.pg_namespace pn ON pn.oid = p.prsnamespace,"
    " LATERAL pg_catalog.ts_token_type(p.oid) k"
    f" WHERE {_own('pg_ts_config', 'c.oid')} ORDER BY c.oid, k.tokid"
)
# What a capture does not keep is named. An object has the first OID after those of initdb or later.
_NOT_KEPT = (
    *("pg_operator", "pg_opclass", "pg_cast", "pg_conversion", "pg_policy", "pg_event_trigger"),
    *("pg_publication", "pg_foreign_server", "pg_language", "pg_ts_parser", "pg_ts_template"),
)
NOT_KEPT_SQL = (
    "SELECT o.type, coalesce(o.identity, '') FROM ("
    + " UNION ALL ".join(
        f"SELECT 'pg_catalog.{name}'::regclass::oid AS class, oid FROM pg_catalog.{name}"
        for name in _NOT_KEPT
    )
    + " UNION ALL SELECT 'pg_catalog.pg_class'::regclass, oid FROM pg_catalog.pg_class"
    " WHERE relkind = 'f'"
    " UNION ALL SELECT 'pg_catalog.pg_proc'::regclass, aggfnoid FROM pg_catalog.pg_aggregate"
    " WHERE aggkind <> 'n') AS x (class, oid),"
    " LATERAL pg_catalog.pg_identify_object(x.class, x.oid, 0) o WHERE x.oid >= 16384"
    " AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = x.class"
    " AND e.objid = x.oid AND e.deptype = 'e') ORDER BY 1, 2 LIMIT 200"
)
# The conditions of row security name settings of the application; the text itself is not kept.
POLICIES_SQL = (
    f"SELECT {_RELATION}, concat_ws(' ', pg_catalog.pg_get_expr(p.polqual, p.polrelid),"
    " pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid)) FROM pg_catalog.pg_policy p"
    " JOIN pg_catalog.pg_class c ON c.oid = p.polrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    f" WHERE {_own('pg_class', 'c.oid')} ORDER BY p.oid"
)
DOMAINS_SQL = (
    f"SELECT {_NAME.format('t.typname')}, pg_catalog.format_type(t.typbasetype, t.typtypmod),"
    " t.typnotnull, t.typdefault, (SELECT array_agg(pg_catalog.pg_get_constraintdef(k.oid)"
    " ORDER BY k.oid) FROM pg_catalog.pg_constraint k WHERE k.contypid = t.oid"
    " AND k.contype = 'c') FROM pg_catalog.pg_type t"
    " JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace"
    f" WHERE t.typtype = 'd' AND {_own('pg_type', 't.oid')} ORDER BY t.oid"
)
SEQUENCES_SQL = (
    f"SELECT {_RELATION}, pg_catalog.format_type(s.seqtypid, NULL), s.seqincrement, s.seqcache,"
    " s.seqcycle, s.seqmin, s.seqmax, s.seqstart FROM pg_catalog.pg_sequence s"
    " JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    f" WHERE {_own('pg_class', 'c.oid')} AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend i"
    " WHERE i.classid = 'pg_catalog.pg_class'::regclass AND i.objid = c.oid"
    " AND i.deptype = 'i') ORDER BY c.oid"
)
# Sequences of identity columns, by table and column.
IDENTITIES_SQL = (
    f"SELECT {_RELATION}, a.attname::text, s.seqincrement, s.seqcache, s.seqcycle, s.seqmin,"
    " s.seqmax, s.seqstart FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_depend i"
    " ON i.classid = 'pg_catalog.pg_class'::regclass AND i.objid = s.seqrelid AND i.deptype = 'i'"
    " AND i.refclassid = 'pg_catalog.pg_class'::regclass"
    " JOIN pg_catalog.pg_class c ON c.oid = i.refobjid"
    " JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.refobjsubid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    f" WHERE {_own('pg_class', 'c.oid')}"
)
# A text of a function is read only if its owner's role may be seen: everybody may.
FUNCTIONS_SQL = (
    f"SELECT {_NAME.format('p.proname')}, pg_catalog.pg_get_functiondef(p.oid),"
    " l.lanname IN ('c', 'internal'), p.prorettype = 'pg_catalog.trigger'::regtype"
    " FROM pg_catalog.pg_proc p"
    " JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
    " JOIN pg_catalog.pg_language l ON l.oid = p.prolang"
    " WHERE p.prokind IN ('f', 'p') AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend i"
    # The constructors of a type of ranges come with it.
    " WHERE i.classid = 'pg_catalog.pg_proc'::regclass AND i.objid = p.oid AND i.deptype = 'i')"
    f" AND {_own('pg_proc', 'p.oid')} ORDER BY p.oid"
)
# A table that was never analyzed; before version 14 it has 0 rows and 0 pages.
_IS_UNKNOWN = (
    "(c.relkind = 'r' AND (c.reltuples < 0 OR (c.reltuples = 0 AND c.relpages = 0))"
    " AND pg_catalog.pg_relation_size(c.oid) > 0)"
)
# As the planner does: pages full of rows, and 32 bytes for a value without a fixed length.
_ROWS_OF_PAGES = (
    "floor(pg_catalog.pg_relation_size(c.oid) / current_setting('block_size')::float8"
    " * (SELECT (current_setting('block_size')::int - 24) / (28 + coalesce(sum("
    "CASE WHEN a.attlen > 0 THEN a.attlen ELSE 32 END), 0))"
    " FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0"
    " AND NOT a.attisdropped))"
)
# Tables and partitions; a parent comes before its children.
TABLES_SQL = (
    f"SELECT c.oid::int8, {_RELATION}, c.relkind = 'p', c.relispartition, c.relpersistence::text,"
    " (SELECT format('%I.%I', pn.nspname, pc.relname) FROM pg_catalog.pg_inherits i"
    " JOIN pg_catalog.pg_class pc ON pc.oid = i.inhparent"
    " JOIN pg_catalog.pg_namespace pn ON pn.oid = pc.relnamespace"
    " WHERE i.inhrelid = c.oid ORDER BY i.inhseqno LIMIT 1),"
    " pg_catalog.pg_get_expr(c.relpartbound, c.oid),"
    " CASE WHEN c.relkind = 'p' THEN pg_catalog.pg_get_partkeydef(c.oid) END,"
    " array_to_string(c.reloptions, ', '), c.relrowsecurity,"
    f" CASE WHEN {_IS_UNKNOWN} THEN coalesce(nullif(pg_catalog.pg_stat_get_live_tuples(c.oid), 0),"
    f" {_ROWS_OF_PAGES}) ELSE greatest(c.reltuples, 0) END::float8,"
    " pg_catalog.pg_relation_size(c.oid)::int8,"
    " pg_catalog.pg_indexes_size(c.oid)::int8,"
    " CASE WHEN c.reltoastrelid = 0 THEN 0"
    " ELSE pg_catalog.pg_total_relation_size(c.reltoastrelid) END::int8,"
    " coalesce(pg_catalog.pg_stat_get_dead_tuples(c.oid), 0)::int8, c.relhasrules,"
    f" CASE WHEN NOT {_IS_UNKNOWN} THEN ''"
    " WHEN pg_catalog.pg_stat_get_live_tuples(c.oid) > 0 THEN 'from the counters of its rows'"
    " ELSE 'from its size' END"
    " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    f" WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND {_own('pg_class', 'c.oid')}"
    " ORDER BY c.oid"
)
COLUMNS_SQL = (
    f"SELECT {_RELATION}, quote_ident(a.attname), a.attname::text,"
    " pg_catalog.format_type(a.atttypid, a.atttypmod), b.typname::text, b.typtype::text,"
    " b.typcategory::text, a.attnotnull, a.attidentity::text, a.attgenerated::text,"
    " pg_catalog.pg_get_expr(d.adbin, d.adrelid),"
    " CASE WHEN a.attcollation <> t.typcollation AND a.attcollation <> 0"
    " THEN (SELECT format('%I.%I', cn.nspname, co.collname) FROM pg_catalog.pg_collation co"
    " JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace"
    " WHERE co.oid = a.attcollation) END,"
    " format('%I.%I', bn.nspname, b.typname),"
    " eb.typname::text, n.nspname::text, c.relname::text, a.attnum::int,"
    " NOT c.relispartition OR c.relkind = 'p'"
    " FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_catalog.pg_type t ON t.oid = a.atttypid"
    # A domain counts as its base type, that of a domain over another one, too.
    " JOIN LATERAL (WITH RECURSIVE d (oid, base, kind) AS (SELECT t.oid, t.typbasetype, t.typtype"
    " UNION ALL SELECT i.oid, i.typbasetype, i.typtype FROM d JOIN pg_catalog.pg_type i"
    " ON i.oid = d.base WHERE d.kind = 'd') SELECT d.oid FROM d WHERE d.kind <> 'd') r0 ON true"
    " JOIN pg_catalog.pg_type b ON b.oid = r0.oid"
    " JOIN pg_catalog.pg_namespace bn ON bn.oid = b.typnamespace"
    " LEFT JOIN pg_catalog.pg_range r ON r.rngtypid = b.oid"
    " LEFT JOIN pg_catalog.pg_type eb ON eb.oid = CASE b.typcategory WHEN 'R' THEN r.rngsubtype"
    " ELSE nullif(b.typelem, 0) END"
    " LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
    " WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p')"
    f" AND c.relpersistence <> 't' AND {_own('pg_class', 'c.oid')} ORDER BY c.oid, a.attnum"
)
# Keys of partitions follow from those of their parents.
CONSTRAINTS_SQL = (
    f"SELECT {_RELATION}, k.contype::text, quote_ident(k.conname),"
    " pg_catalog.pg_get_constraintdef(k.oid), ARRAY(SELECT a.attname::text FROM"
    " unnest(k.conkey) WITH ORDINALITY u(num, place) JOIN pg_catalog.pg_attribute a"
    " ON a.attrelid = k.conrelid AND a.attnum = u.num ORDER BY u.place),"
    " (SELECT format('%I.%I', fn.nspname, f.relname) FROM pg_catalog.pg_class f"
    " JOIN pg_catalog.pg_namespace fn ON fn.oid = f.relnamespace WHERE f.oid = k.confrelid),"
    " ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u(num, place)"
    " JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.num"
    " ORDER BY u.place), (SELECT format('%I.%I', n.nspname, i.relname)"
    " FROM pg_catalog.pg_class i WHERE i.oid = k.conindid)"
    " FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE k.contype IN ('p', 'u', 'c', 'x', 'f') AND k.conparentid = 0"
    " AND (k.conislocal OR k.contype <> 'c') AND c.relpersistence <> 't'"
    f" AND {_own('pg_class', 'c.oid')}"
    " ORDER BY array_position(ARRAY['c', 'p', 'u', 'x', 'f'], k.contype::text), k.oid"
)
INDEXES_SQL = (
    f"SELECT {_NAME.format('x.relname')}, {_RELATION}, pg_catalog.pg_get_indexdef(x.oid),"
    " pg_catalog.pg_relation_size(x.oid)::int8, EXISTS (SELECT FROM pg_catalog.pg_constraint k"
    " WHERE k.conindid = x.oid AND k.contype IN ('p', 'u', 'x')),"
    " EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhrelid = x.oid),"
    " i.indisunique AND i.indnkeyatts = 1 AND i.indpred IS NULL AND i.indexprs IS NULL,"
    " (SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid"
    " AND a.attnum = i.indkey[0])"
    " FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid"
    " JOIN pg_catalog.pg_class c ON c.oid = i.indrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    f" WHERE i.indisvalid AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'"
    f" AND {_own('pg_class', 'c.oid')} ORDER BY x.oid"
)
TRIGGERS_SQL = (
    f"SELECT quote_ident(t.tgname), {_RELATION}, pg_catalog.pg_get_triggerdef(t.oid)"
    " FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE NOT t.tgisinternal AND c.relkind IN ('r', 'p')"
    " AND (current_setting('server_version_num')::int < 130000 OR"
    " coalesce((to_jsonb(t) ->> 'tgparentid')::int8, 0) = 0)"
    f" AND {_own('pg_class', 'c.oid')} ORDER BY t.oid"
)
VIEWS_SQL = (
    f"SELECT {_RELATION}, pg_catalog.pg_get_viewdef(c.oid), c.relkind = 'm'"
    " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    f" WHERE c.relkind IN ('v', 'm') AND {_own('pg_class', 'c.oid')} ORDER BY c.oid"
)
EXTENDED_SQL = (
    f"SELECT {_NAME.format('s.stxname')}, {_RELATION},"
    " pg_catalog.pg_get_statisticsobjdef(s.oid)"
    " FROM pg_catalog.pg_statistic_ext s JOIN pg_catalog.pg_class c ON c.oid = s.stxrelid"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    f" WHERE {_own('pg_class', 'c.oid')} ORDER BY s.oid"
)
STATISTICS_SQL = (
    "SELECT s.schemaname::text, s.tablename::text, s.attname::text, s.null_frac::float8,"
    " s.avg_width, s.n_distinct::float8, s.most_common_vals::text::text[],"
    " s.most_common_freqs::float8[], s.histogram_bounds::text::text[], s.correlation::float8,"
    " s.most_common_elems::text::text[], s.most_common_elem_freqs::float8[],"
    " s.elem_count_histogram::float8[]"
    " FROM pg_catalog.pg_stats s WHERE s.schemaname !~ '^pg_'"
    " AND s.schemaname <> 'information_schema' AND NOT s.inherited"
)
# Tables whose columns this role may not select: their rows of pg_stats are hidden.
HIDDEN_SQL = (
    f"SELECT {_RELATION} FROM pg_catalog.pg_class c"
    " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind = 'r' AND c.relpersistence <> 't'"
    " AND NOT has_any_column_privilege(c.oid, 'SELECT')"
    f" AND {_own('pg_class', 'c.oid')} ORDER BY 1"
)
ROLE_SETTINGS_SQL = (
    "SELECT r.rolname::text, unnest(s.setconfig) FROM pg_catalog.pg_db_role_setting s"
    " LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole"
    " WHERE s.setdatabase IN (0, (SELECT oid FROM pg_catalog.pg_database"
    " WHERE datname = current_database())) ORDER BY s.setdatabase, s.setrole"
)
ROLES_SQL = "SELECT rolname::text FROM pg_catalog.pg_roles"
TYPES_SQL = (
    "SELECT name, parameter_types::text[] FROM pg_catalog.pg_prepared_statements"
    " WHERE name LIKE 'pgdyno%'"
)
# Sorted as the database sorts texts.
SORTED_SQL = "SELECT v FROM unnest(%s::text[]) u(v) ORDER BY v"
