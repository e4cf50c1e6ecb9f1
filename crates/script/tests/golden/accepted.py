"""Scripts that pgbench runs: record.py keeps their values, choices and statements."""

from __future__ import annotations

from typing import Any


def debug(*expressions: str) -> str:
    """Return a script that prints the client, then the value of each expression."""
    return "".join(
        f"\\set v{number} debug({expression})\n"
        for number, expression in enumerate([":client_id", *expressions])
    )


def values(
    *scripts: str,
    seed: int = 5432,
    clients: int = 1,
    threads: int = 1,
    transactions: int = 1,
    defines: list[str] | None = None,
) -> dict[str, Any]:
    """Return a case whose scripts print values."""
    return {
        "scripts": list(scripts),
        "seed": seed,
        "clients": clients,
        "threads": threads,
        "transactions": transactions,
        "defines": defines or [],
    }


RANDOM = debug(
    "random(1, 100000 * :scale)",
    "random(-5000, 5000)",
    "random(10, 19)",
    "random(7, 7)",
    "random(0, 9223372036854775806)",
    "random(-9223372036854775807, -2)",
    "random_exponential(100, 199, 10.0)",
    "random_exponential(0, 1000000, 0.1)",
    "random_gaussian(1000, 1999, 10.0)",
    "random_gaussian(-1000000, 1000000, 2.0)",
    "random_zipfian(1, 9, 1.3)",
    "random_zipfian(1, 1000000, 1.07)",
    "random_zipfian(-5, 5, 3)",
    "hash(:client_id)",
    "hash_fnv1a(:client_id)",
    "permute(:client_id, 1000)",
    "random(1, 1000) > random(1, 1000)",
    "case when random(1, 2) = 1 then random(1, 100) else random(101, 200) end",
    "random(1, 2) = 1 and random(1, 2) = 1 or random(1, 3) = 1",
    "least(random(1, 1000), random(1, 1000), random_gaussian(1, 1000, 2.5))",
    "random(1, null)",
    "random(1.5, 6.5)",
)

INTEGERS = [
    "1 + 2 * 3 - 4 / 2 % 3",
    "7 / 2",
    "-7 / 2",
    "7 % -3",
    "-7 % 3",
    "7.5 % 2",
    "mod(-7, 3)",
    "9223372036854775807",
    "-9223372036854775808",
    "-9223372036854775808 / 1",
    "-9223372036854775808 % -1",
    "5 / -1",
    "- - 5",
    "-+-5",
    "+ 5",
    "2 - -2",
    "1 << 4",
    "1 << 63",
    "1 << 64",
    "1 << -1",
    "-1 >> 3",
    "-1 >> 70",
    "5 & 3 | 8 # 1",
    "~5",
    "~ 1 + 2",
    "2 * ~1 + 3",
    "1 + ~2 | 4",
    "6 # ~0",
    "abs(-5)",
    "abs(-5.5)",
    "abs(0.0)",
    "int(5.5)",
    "int(6.5)",
    "int(-5.5)",
    "int(9)",
    "double(5)",
    "least(3, 1, 2)",
    "greatest(3, 1, 2)",
    "least(3, 1.5)",
    "greatest(1, 2, 1.0)",
    "least(5)",
    "greatest(,1)",
    "least(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16)",
    "9223372036854775807 + 0.0",
]
DOUBLES = [
    "1.0 / 3",
    "1 / 3.0",
    "2.5 * 2",
    "1e300 * 1e300",
    "-1e300 * 1e300",
    "1.0 / 0",
    "-1.0 / 0",
    "0.0 / 0",
    "sqrt(2)",
    "sqrt(-1)",
    "ln(10)",
    "ln(0)",
    "ln(-1)",
    "exp(1)",
    "exp(1000)",
    "pi()",
    "pow(2, 10)",
    "power(2, -1)",
    "pow(0, 0)",
    "pow(-8, 1.0 / 3)",
    "pow(2, 0.5)",
    "1.",
    ".5",
    "1e5",
    "1E-5",
    "1.5e+3",
    "0.1 + 0.2",
    "1e15",
    "1e14",
    "123456789012345678.0",
    "1e-4",
    "1e-5",
    "0.00012345678901234567",
    "-0.0",
    "0.0 * -1",
    "1e22 + 1",
    "4503599627370497.5",
    "1.7e308",
    "2.2250738585072014e-308",
    "sqrt(ln(exp(5.3))) * pi()",
    "5e-1 + int(2.5)",
]
LOGIC = [
    "true",
    "FALSE",
    "null",
    "1 = 1",
    "1 <> 1",
    "1 != 2",
    "1 < 2",
    "2 <= 1",
    "1 > 2",
    "2 >= 2",
    "1 = 1.0",
    "1.5 < 1",
    "null = null",
    "1 + null",
    "not null",
    "not true",
    "not not true",
    "null and false",
    "false and null",
    "true and null",
    "null or true",
    "true or null",
    "false or null",
    "true and false or true",
    "false and 1 / 0 = 1",
    "true or 1 / 0 = 1",
    "1 is null",
    "null is null",
    "null isnull",
    "1 notnull",
    "1 is not null",
    "true is true",
    "null is true",
    "false is not false",
    "1 is true",
    "not 1 is null",
    "1 = 2 is false",
    "not 1 = 2",
    "1 + 1 = 2 and 2 < 3",
    "case when 1 then 2 end",
    "case when 0 then 2 end",
    "case when 0.5 then 2 else 3 end",
    "case when null then 1 when true then 2 else 1 / 0 end",
    "case when false then 1 else case when true then 4 end end",
    "null is null is true",
    "case when 1 < 2 then 'a' end".replace("'a'", "3"),
    "NOT TRUE OR TRUE",
    "1 < 2 is null is null",
]
HASHES = [
    "hash(10, 5432)",
    "hash_murmur2(10, 5432)",
    "hash_fnv1a(10, 5432)",
    "hash(-1, 0)",
    "hash_fnv1a(-9223372036854775808, -1)",
    "hash(10)",
    "hash_fnv1a(10)",
    "hash(1.5, 2)",
    "hash(null, 1)",
    ":default_seed",
    ":random_seed",
    ":scale",
    "permute(0, 1)",
    "permute(5, 2, 7)",
    "permute(123, 1000000, 42)",
    "permute(-5, 10, 1)",
    "permute(9223372036854775807, 20, 3)",
    "permute(17, 9223372036854775807, 5)",
    "permute(3, 4, -1)",
    "permute(3, 16)",
    "permute(0, 3, 0)",
]
TEXTS = {
    "t0": "null",
    "t1": "t",
    "t2": "yes",
    "t3": "on",
    "t4": "fals",
    "t5": "No",
    "t6": "of",
    "t7": "  42",
    "t8": "-007",
    "t9": "+5",
    "u0": "1.5e3",
    "u1": "0x1F",
    "u2": "inf",
    "u3": "-nan",
    "u4": " 2.5",
    "u5": "1.",
    "u6": "-0x1.8p1",
    "u7": "9223372036854775807",
    "u8": "infinity",
}

WEIGHTED = [f"\\set r random(1, 100)\n@{weight}" for weight in (1, 0, 5, 3)]

CONDITIONS = (
    debug()
    + """
\\set n random(1, 4)
\\if :n = 1
  \\set x debug(1)
  \\if random(1, 2) = 1
    \\set x debug(11)
  \\elif random(1, 2) = 1
    \\set x debug(12)
  \\else
    \\set x debug(13)
  \\endif
\\elif :n = 2
  \\set x debug(2)
\\elif :n = 3
\\else
  \\set x debug(4)
\\endif
\\if null
\\else
  \\set x debug(5)
\\endif
\\set x debug(random(1, 1000))
"""
)

VALUES = [
    values(RANDOM, clients=8, transactions=6),
    values(RANDOM, seed=0, transactions=10),
    values(RANDOM, seed=18446744073709551615, clients=3, transactions=4),
    values(RANDOM, clients=2, defines=["default_seed=77", "scale=5", "client_id=1"]),
    values(debug(*INTEGERS)),
    values(debug(*DOUBLES)),
    values(debug(*LOGIC)),
    values(debug(*HASHES), seed=5432),
    values(
        debug(*(f":{name}" for name in TEXTS)),
        defines=[f"{name}={text}" for name, text in TEXTS.items()],
    ),
    values(CONDITIONS, clients=4, transactions=12),
    values(
        "\\set a debug(:client_id)\r\n"
        "\\set b \\\n debug( \\\r\n 1 + \\\n  2)\r\n"
        "\\SET c debug(:b)\n"
    ),
]

CHOICES = [
    values(*WEIGHTED, clients=5, threads=2, transactions=40),
    values(*WEIGHTED, clients=4, threads=4, transactions=20, defines=["default_seed=1"]),
    values(*WEIGHTED, clients=1, seed=7, transactions=60),
]

STATEMENTS = [
    "select 1;\nselect 2; select 3;\nselect 4",
    "  -- note ; here\n\n select 1 -- in ; side\n , 2 ;-- behind\n-- end\n",
    "select ';' || ';''' || E'\\';' || \"x;\" from (select ';' as \"x;\") s;\nselect 2;",
    "select $$a;b$$, $q$c;$$;$q$, 'it''s';\nselect 3",
    "/* a ; /* b ; */ ; */ select 1; select (1; 2);\nselect 9;",
    "select 1\\; select 2\\;\nselect 3;\n",
    "\\set v -3\nselect :v::int + :v, ':v', :missing, 'x:missing', 1::int, '12:30:45', ':text';",
    "\\set v -3\nselect :v::int, :v::bigint, :missing::text, '12:30:45', :text::text;",
    "\\set d 0.1 + 0.2\n\\set i -5\n\\set b true\n\\set n null\n\\set f double(7)\n"
    "select ':d', ':i', :b, :n, ':f';\nselect :d::text, :i::int, :b::text, :n::text, :f::text;",
    "create function pg_temp.f() returns int begin atomic select 1; select case when true then 2 "
    "end; end;\nselect 5;",
    "create or replace procedure pg_temp.p() language sql begin atomic select 1; end;select 6;",
    "select 'a'\n'b;c';\nselect E'a'\n'b\\';c';\nselect 7;",
    'select (array[1,2,3])[1:2]; select U&"d;" from (select 1 as "d;") s; select 1 as a$b$c;',
    "select 1 \\gset\nselect 2;\n",
    "select 2 as x, null as y, 'a''b' as z \\gset p_\nselect :p_x::int, :p_z::text, :p_y::text;\n",
    "select 1 as a \\; select 2 as b \\aset\nselect :a, :b;\n",
    ";;select 1;;",
    "/* only */\nselect 1;",
    "select 1 \\\n + 2;",
    "select 'é:é', 1 as ü; select 1 -- :missing ;\n, 2;",
]
