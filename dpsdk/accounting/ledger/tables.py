"""The tables of a ledger on a server: how they are made, and how they are known again."""

__all__ = ["CONVERT", "EXPECTED", "FOUND", "OLD_VERSION", "TABLES", "VERSION"]

VERSION = 2
"""Of the tables."""

OLD_VERSION = 1
"""That of dpsdk 0.1.0, which wrote all books of a table anew for each charge."""

TABLES = """
CREATE SCHEMA IF NOT EXISTS {0};
CREATE TABLE {0}.ledger (version bigint NOT NULL);
CREATE TABLE {0}.entry (
    seq bigint PRIMARY KEY, dataset text NOT NULL, kind text NOT NULL, runs bigint NOT NULL,
    request text, body bytea NOT NULL, books text NOT NULL, token bytea NOT NULL,
    code bytea NOT NULL, of_dataset bytea NOT NULL, of_request bytea
);
CREATE TABLE {0}.state (
    of_dataset bytea NOT NULL, dataset text NOT NULL, name text NOT NULL, text text NOT NULL,
    PRIMARY KEY (of_dataset, name)
);
CREATE INDEX by_runs ON {0}.entry (of_dataset, kind, runs, seq);
CREATE UNIQUE INDEX by_request ON {0}.entry (of_dataset, kind, of_request)
    WHERE of_request IS NOT NULL;
CREATE FUNCTION {0}.refuse() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'entries stay'; END $$;
CREATE TRIGGER unchanged BEFORE UPDATE OR DELETE ON {0}.entry
    FOR EACH ROW EXECUTE FUNCTION {0}.refuse();
CREATE TRIGGER untruncated BEFORE TRUNCATE ON {0}.entry
    FOR EACH STATEMENT EXECUTE FUNCTION {0}.refuse();
INSERT INTO {0}.ledger VALUES ({1});
"""
"""Names are kept as JSON spells them, in ASCII, so that every server can hold them; an index has no
room for the longest, and goes by their digests."""

CONVERT = """
ALTER TABLE {0}.books DROP CONSTRAINT books_pkey;
ALTER TABLE {0}.books DROP COLUMN record;
ALTER TABLE {0}.books ADD COLUMN name text NOT NULL DEFAULT '';
ALTER TABLE {0}.books ADD COLUMN text text NOT NULL DEFAULT '';
DELETE FROM {0}.books;
ALTER TABLE {0}.books ALTER COLUMN name DROP DEFAULT, ALTER COLUMN text DROP DEFAULT;
ALTER TABLE {0}.books ADD PRIMARY KEY (of_dataset, name);
ALTER TABLE {0}.books RENAME TO state;
UPDATE {0}.ledger SET version = {1};
"""
"""The same table with other columns, so that grants on it stay."""

FOUND = (
    "SELECT c.relname::text, c.relkind::text, c.relpersistence::text, c.relrowsecurity, "
    "(SELECT count(*) FROM pg_catalog.pg_trigger t "
    "WHERE t.tgrelid = c.oid AND NOT t.tgisinternal), "
    "(SELECT count(*) FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid) "
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind NOT IN ('i', 'I', 't') ORDER BY c.relname"
)

EXPECTED = [
    [
        *([("books", "r", "p", False, 0, 0)] if old else []),
        ("entry", "r", "p", False, 2, 0),
        ("ledger", "r", "p", False, 0, 0),
        *([] if old else [("state", "r", "p", False, 0, 0)]),
    ]
    for old in (False, True)
]
"""The tables of this version, and of the older one."""
