"""Secrets in all forms are masked, and what is not a secret stays."""

from __future__ import annotations

import json
import time

import pytest

from pgdyno.redaction import MASK, redacted, redacted_output, without_secrets

# {} is the secret.
FORMS = (
    "postgres://app:{}@db1/bank",
    "postgresql://app:{}@db1:5432,db2:5433/bank?sslmode=require",
    "postgresql://db1/bank?user=app&password={}&sslmode=require",
    "postgresql://db1/bank?p%61ssword={}",
    "postgresql://db1/bank?%70%61%73%73%77%6F%72%64={}",
    "postgresql://db1/bank?sslpassword={}",
    "jdbc:postgresql://db1:5432/bank?user=app&password={}",
    "conn=jdbc:postgresql://app:{}@db1/bank",
    "http://app:{}@proxy:3128/",
    "host=db1 user=app password={} dbname=bank",
    "host=db1 password = '{}' dbname=bank",
    "host=db1 password = 'two \\' {}' dbname=bank",
    "host=db1 passwd={}",
    "PGPASSWORD={} psql -h db1",
    'export DB_PASSWORD="{}"',
    "Driver={{PostgreSQL}};Uid=app;Pwd={};Server=db1",
    "ALTER ROLE app PASSWORD '{}'",
    "alter user app with encrypted password '{}' valid until 'infinity'",
    "CREATE ROLE app LOGIN PASSWORD E'a\\'{}'",
    "CREATE ROLE app PASSWORD U&'{}'",
    "CREATE ROLE app PASSWORD $$it is {}$$",
    "CREATE ROLE app PASSWORD $a$it is {}$a$",
    "CREATE ROLE app PASSWORD/* the */'{}'",
    "CREATE ROLE app PASSWORD -- the\n '{}'",
    "CREATE ROLE app PASSWORD 'cut off {}",
    "CREATE ROLE app PASSWORD 'it''s {}'",
    "CREATE USER app IDENTIFIED BY '{}'",
    "CREATE USER MAPPING FOR app SERVER s OPTIONS (user 'app', password '{}')",
    "ALTER USER MAPPING FOR app SERVER s OPTIONS (SET password '{}')",
    "CREATE SERVER s FOREIGN DATA WRAPPER w OPTIONS (host 'a', api_key '{}')",
    "CREATE SUBSCRIPTION s CONNECTION 'host=db1 password={}' PUBLICATION p",
    "CREATE SUBSCRIPTION s CONNECTION 'host=db1 password=''a {}''' PUBLICATION p",
    "SELECT dblink_connect('c', 'host=db1 password={}')",
    "SELECT * FROM dblink('host=db1 password={}','SELECT 1') AS t(a int)",
    "ALTER SYSTEM SET primary_conninfo = 'host=db1 password={}'",
    "primary_conninfo = 'host=db1 password=''a {}'' user=r'",
    "SELECT pgp_sym_encrypt(note, '{}') FROM t",
    "SELECT pgp_sym_decrypt(note::bytea, $${}$$, 'cipher-algo=aes256')",
    "SELECT pgp_pub_decrypt(note, dearmor('key'), '{}')",
    "SELECT encrypt(a, '{}', 'aes'), hmac(f(b, (c)), '{}', 'sha256')",
    "SELECT crypt('{}', gen_salt('bf'))",
    "SELECT set_config('app.secret', '{}', false)",
    "SET app.api_key = '{}'",
    "SET app.token TO '{}'",
    "SELECT http_header('Authorization', 'Bearer {}')",
    "Authorization: Basic {}",
    "curl -H 'Authorization: Bearer {}' https://db1",
    'curl -H "X-Api-Key: {}" https://db1',
    "Cookie: session={}",
    "COPY t FROM PROGRAM 'curl -u app:{} https://db1/x'",
    "COPY t TO PROGRAM 'curl --user \"app:{}\" https://db1/x'",
    "wget --http-password {} https://db1/x",
    "mysql --password={} -h db1",
    "sshpass -p {} ssh db1",
    "AWS_SECRET_ACCESS_KEY={} aws s3 cp a b",
    '{{"password": "{}", "user": "app"}}',
    "{{'password': '{}'}}",
    'conninfo = "host=db1 password={}"',
    "said \\\"host=db1 password=\\'{}\\'\\\"",
    "the server said: invalid dsn: host=db1 password={}.",
)
SECRETS = ("hunter2-Xy", "a/b:c;d,e", "p%40ss)word", "Tr0ub4dor.&3"[:9] + "q")
KEPT = (
    "no password: set PGPASSWORD, or a line in ~/.pgpass",
    'password authentication failed for user "app"',
    'invalid connection option "password"',
    "a password does not belong in a spec: use ~/.pgpass, PGPASSWORD, service",
    "SET password_encryption = 'scram-sha-256'",
    "SELECT * FROM tokens WHERE key = 'abc' AND token_count = 5",
    "postgresql://app@db1:5432/bank?sslmode=require",
    "primary key: (w_id, d_id); foreign key: o_id",
    "--password-command CMD, -u and --user",
    "CREATE TABLE a (password text, secret bytea)",
    "https://www.postgresql.org/docs/18/app-pgbench.html",
)


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_masked_in_every_form(form: str) -> None:
    for secret in SECRETS:
        text = form.format(secret, secret)
        assert secret not in redacted(text), redacted(text)
        assert MASK in redacted(text)
        # What is masked once stays as it is.
        assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize("text", KEPT)
def test_a_text_without_a_secret_is_not_changed(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize("text", ["no '/etc/passwd' there", "\\copy t from '/etc/passwd'"])
def test_a_path_that_ends_like_a_name_of_a_secret_is_not_changed(text: str) -> None:
    assert redacted(text) == text


def test_the_rest_of_a_text_stays() -> None:
    text = "ALTER ROLE a PASSWORD 'x'; SELECT pgp_sym_encrypt(a, 'k'), b FROM t WHERE c = 'd'"
    assert redacted(text) == (
        "ALTER ROLE a PASSWORD '***'; SELECT pgp_sym_encrypt(a, '***'), b FROM t WHERE c = 'd'"
    )
    assert redacted("host=a password=b dbname=c, then") == "host=a password=*** dbname=c, then"
    assert redacted("note: password = b: a spec holds none") == (
        "note: password = ***: a spec holds none"
    )
    assert redacted("scram: SCRAM-SHA-256$4096:c2FsdA==$a:b md5" + "0" * 32) == (
        "scram: SCRAM-SHA-256$*** md5***"
    )


def test_a_document_stays_a_document() -> None:
    document = {"text": "a password=", "next": 'b "c" password="d"', "password": "e", "n": [1.5]}
    shown = redacted_output(json.dumps(document))
    assert json.loads(shown) == {"text": "a password=", "next": 'b "c" password=***', "n": [1.5]}
    assert without_secrets(document) == json.loads(shown)
    assert redacted_output('{"a": 1}') == '{"a": 1}'


def test_a_long_text_takes_no_long_time() -> None:
    began = time.process_time()
    for text in ("password" * 20_000, "'" * 50_000 + "token", "pgp_x(" * 5_000, "://" * 50_000):
        redacted(text)
    assert time.process_time() - began < 60


def test_a_secret_that_nothing_announces_stays() -> None:
    assert redacted("SELECT my_login('app', 'hunter2')") == "SELECT my_login('app', 'hunter2')"
