-- Today's tables of DATA/muster.db, for readers. How a file gets there is migrations/; a test holds
-- the two equal. Documents are JSON, written by coordinator/store/document_write.c.

-- The cluster's id, the clock the times in documents were taken on.
CREATE TABLE meta (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per job ever submitted. `spec` and `secret` never change; `document` is everything that
-- does; the columns before them repeat what people ask the file for.
CREATE TABLE jobs (
    sequence INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    state TEXT NOT NULL,
    submitted_wall_ms INTEGER NOT NULL,
    ended_wall_ms INTEGER NOT NULL,
    secret BLOB NOT NULL,
    spec TEXT NOT NULL,
    document TEXT NOT NULL
) STRICT;

CREATE TABLE nodes (
    name TEXT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL,
    document TEXT NOT NULL
) STRICT;

-- The event log: written in the transaction of the change it tells of, never changed.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    wall_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    job TEXT NOT NULL,
    node TEXT NOT NULL,
    generation INTEGER NOT NULL,
    from_state TEXT NOT NULL,
    to_state TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;

CREATE INDEX events_by_job ON events (job, seq);

-- SHA-256 of each bearer token; the id is the start of it. Revoked ones stay, so that the audit
-- trail's ids keep their names. Times are 0 where there is none.
CREATE TABLE tokens (
    hash BLOB NOT NULL PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    tenant TEXT NOT NULL,
    created_wall_ms INTEGER NOT NULL,
    expires_wall_ms INTEGER NOT NULL,
    revoked_wall_ms INTEGER NOT NULL,
    used_wall_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who shares the cluster, and how slots are divided among them.
CREATE TABLE tenants (
    name TEXT NOT NULL PRIMARY KEY,
    weight INTEGER NOT NULL,
    guaranteed_slots INTEGER NOT NULL,
    limit_slots INTEGER NOT NULL,
    created_wall_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who changed what: written in the transaction of the change, never changed.
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    wall_ms INTEGER NOT NULL,
    token TEXT NOT NULL,
    token_name TEXT NOT NULL,
    role TEXT NOT NULL,
    tenant TEXT NOT NULL,
    carrier TEXT NOT NULL,
    peer TEXT NOT NULL,
    method TEXT NOT NULL,
    object TEXT NOT NULL,
    result TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
