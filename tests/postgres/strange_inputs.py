"""Command lines that somebody may type, and that must change nothing: one a line.

SERVER stands for the options of a server with the table `kept`, CONN for its connection string,
ELSE for its options with another database, FILE:name for a file of `FILES`, DIR for a folder,
GONE for a port where nobody listens, SECRET for a password.
"""

from __future__ import annotations

FILES = {
    "empty.sql": b"",
    "bom.sql": b"\xef\xbb\xbfSELECT 1;\n",
    "utf16.sql": "SELECT 1;\n".encode("utf-16"),
    "nul.sql": b"SELECT 1;\x00\nDELETE FROM kept;\n",
    "latin.sql": "SELECT 'Gr\xf6\xdfe' FROM not_there;\n".encode("latin-1"),
    "long.sql": b"SELECT " + b"(" * 5000 + b"1" + b")" * 5000 + b";\n",
    "comment.sql": b"/* SELECT 1; */\n-- DELETE FROM kept;\n",
    "nested.sql": b"/* /* */ DELETE FROM kept; */ DELETE FROM kept;\n",
    "with.sql": b"WITH gone AS (DELETE FROM kept RETURNING *) SELECT count(*) FROM gone;\n",
    "into.sql": b"SELECT * INTO copied FROM kept;\n",
    "update.sql": b"SELECT * FROM kept FOR UPDATE;\n",
    "copy.sql": b"COPY kept TO '/tmp/x';\n",
    "do.sql": b"DO $$ BEGIN DELETE FROM kept; END $$;\n",
    "meta.sql": b"\\copy kept from '/etc/passwd'\n",
    "shell.sql": b"\\shell touch /tmp/pgdyno-was-here\nSELECT 1;\n",
    "setshell.sql": b"\\setshell x echo 1\nSELECT :x;\n",
    "gexec.sql": b"SELECT 'DELETE FROM kept' \\gexec\n",
    "if.sql": b"\\if true\nSELECT 1;\n",
    "random.sql": b"\\set x random(10, 1)\nSELECT :x;\n",
    "huge.sql": b"\\set x 9223372036854775808\nSELECT :x;\n",
    "zero.sql": b"\\set x 1 / 0\nSELECT :x;\n",
    "two.sql": b"SELECT 1 \\; DELETE FROM kept;\n",
    "wrong.toml": b"[experiment\n",
    "unknown.toml": b'[experiment]\nname = "a"\n[servre]\n',
    "list.toml": b'experiment = ["a"]\n',
    "nan.toml": b'[experiment]\nname = "a"\n[server]\nscratch = {}\n[dataset]\nscale = nan\n',
    "secret.toml": b'[experiment]\nname = "a"\n[server]\ndsn = "password=SECRET"\n',
    "bad.conf": b"work_mem = lots\nfsync = maybe\n",
    "include.conf": b"include 'include.conf'\n",
    "props": b"conn=jdbc:oracle:thin:@//h/x\nuser=a\npassword=SECRET\n",
}

INPUTS = """
bench SERVER -f FILE:empty.sql
bench SERVER -f FILE:utf16.sql
bench SERVER -f FILE:nul.sql
bench SERVER -f FILE:latin.sql
bench SERVER -f FILE:nested.sql
bench SERVER -f FILE:with.sql
bench SERVER -f FILE:into.sql
bench SERVER -f FILE:update.sql
bench SERVER -f FILE:copy.sql
bench SERVER -f FILE:do.sql
bench SERVER -f FILE:meta.sql
bench SERVER -f FILE:shell.sql
bench SERVER -f FILE:setshell.sql
bench SERVER -f FILE:gexec.sql
bench SERVER -f FILE:if.sql
bench SERVER -f FILE:random.sql
bench SERVER -f FILE:huge.sql
bench SERVER -f FILE:zero.sql
bench SERVER -f FILE:two.sql
bench SERVER -f DIR
bench SERVER -f /proc/self/mem
bench SERVER -f /dev/stdin
bench SERVER -f FILE:empty.sql@-1
bench SERVER -f FILE:empty.sql@99999999999999999999
bench SERVER -S -c 0
bench SERVER -S -c -3
bench SERVER -S -c 1e3
bench SERVER -S -c ٣
bench SERVER -S -c 99999999
bench SERVER -S -j 0
bench SERVER -S -T -5
bench SERVER -S -T 0
bench SERVER -S -T 1e400
bench SERVER -S -T inf
bench SERVER -S -T 5seconds
bench SERVER -S -T 99999999d
bench SERVER -S -R 0
bench SERVER -S -R nan
bench SERVER -S -R -1
bench SERVER -S -t 0
bench SERVER -S -t 5 -T 5
bench SERVER -S -M telepathic
bench SERVER -b nothing-like
bench SERVER -b tpcb-like -S
bench SERVER -S --check p99<
bench SERVER -S --check p99<20parsecs
bench SERVER -S --check tps<>5
bench SERVER -S --abort-if never
bench SERVER -S --set work_mem=lots
bench SERVER -S --set =1
bench SERVER -S --set work_mem
bench SERVER -S --set fsync=off
bench SERVER -S --store /dev/null
bench SERVER -S --store /proc/nowhere
bench SERVER -S --json /nowhere/at/all.json
bench SERVER -S --name NEWLINE
bench SERVER -S --name '‮evil'
bench SERVER -S --name ''
bench SERVER -S --confirm x
bench SERVER -S -D a=1
bench SERVER -S -D 1=1
bench SERVER -S --ssh -oProxyCommand=touch
bench SERVER -S --observe host=/nowhere
bench SERVER -S --host-shell false
bench -h 127.0.0.1 -p GONE -U me -d x -S
bench -h 127.0.0.1 -p 0 -U me -d x -S
bench -h 127.0.0.1 -p 65536 -U me -d x -S
bench -h 127.0.0.1 -p http -U me -d x -S
bench -h 300.300.300.300 -U me -d x -S
bench -h /nowhere -U me -d x -S
bench postgresql://[::1/x -S
bench postgresql://me:SECRET@127.0.0.1:GONE/x -S
bench service=not_there -S
bench host=127.0.0.1 port=GONE sslmode=perhaps -S
bench ELSE -S
compare SERVER -S --variant a
compare SERVER -S --variant a --variant a
compare SERVER -S --variant a: --variant b:work_mem=
compare SERVER -S --variant a --variant b:wrok_mem=4MB
compare SERVER -S --variant a --variant b:shared_buffers=64MB
compare SERVER -S --variant a --variant b:dsn=password=SECRET
compare SERVER -S --variant a --variant b:@/etc/shadow/x
compare SERVER -S --variant a --variant b --metric speed
compare SERVER -S --variant a --variant b:work_mem=9MB --precision 0%
compare SERVER -S --variant a --variant b:work_mem=9MB --budget -1h
compare SERVER -S --variant '‮: work_mem=9MB' --variant b
compare SERVER -S --variant a --variant b --apply-command true --command-timeout 0
sweep SERVER -S -c 4,2,x
sweep SERVER -S -c 0,1
sweep SERVER -S --slo p99
sweep SERVER -S --rounds 0
tune SERVER -S --setting nothing=1..2
tune SERVER -S --setting work_mem=64MB..1MB
tune SERVER -S --setting work_mem -T 1s
tune SERVER -S --budget 0
run FILE:wrong.toml
run FILE:unknown.toml
run FILE:list.toml
run FILE:nan.toml
run FILE:secret.toml
run FILE:empty.sql
run --resume -1
watch SERVER --duration 0
watch SERVER --interval 1ns
watch -h 127.0.0.1 -p GONE -U me -d x
doctor -h 127.0.0.1 -p GONE -U me -d x
doctor SERVER --ram 0
settings --file FILE:bad.conf --pg-version 99
settings --file FILE:include.conf
settings --file DIR
settings SERVER --explain ''
work-mem SERVER -f FILE:two.sql --allow-explain-analyze
work-mem SERVER -f FILE:with.sql --allow-explain-analyze
work-mem SERVER -f FILE:long.sql --allow-explain-analyze --timeout 0
work-mem SERVER --max 1kB -f FILE:comment.sql --allow-explain-analyze
init SERVER -s 0
init SERVER -s 1e9
init SERVER --fillfactor 5
init tpcc SERVER --warehouses -1
init nothing SERVER
check SERVER nothing
check tpcc SERVER
drop ELSE
crash --crashes 0
crash SERVER --kind command --crash-command true
crash --kind failover --promote-command false --crashes x
show 99999999999999999999
show ../../etc/passwd
report 1 --md --md
report nothing -o /nowhere/x.html
diff 1
diff 1 x
export 1 --table nothing
note 99 SECRET
undo 1 --dismiss --restart-command true
list --store FILE:empty.sql
spec from-benchmarksql FILE:props
spec from-nothing FILE:props
spec from-hammerdb DIR
pgbench SERVERP -f /dev/zero
pgbench SERVERP -f /dev/full
pgbench SERVERP -f DIR
pgbench SERVERP -f FILE:if.sql
pgbench SERVERP -c 0
pgbench SERVERP -T x
pgbench -h 127.0.0.1 -p GONE -U me x
"""


def lines() -> list[str]:
    """Return all command lines."""
    return [line for line in INPUTS.splitlines() if line]
