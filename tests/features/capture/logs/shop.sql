CREATE TABLE account (
    id int PRIMARY KEY, owner text NOT NULL, balance int NOT NULL DEFAULT 0, note text
);
CREATE TABLE event (
    id bigserial PRIMARY KEY, account_id int NOT NULL REFERENCES account,
    kind text NOT NULL, payload jsonb, at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO account SELECT g, 'owner ' || g, g * 10, NULL FROM generate_series(1, 500) g;
INSERT INTO event (account_id, kind, payload)
SELECT g % 500 + 1, (ARRAY['a','b','c'])[g % 3 + 1], jsonb_build_object('n', g)
FROM generate_series(1, 2000) g;
