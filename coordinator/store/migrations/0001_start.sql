CREATE TABLE meta (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

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

CREATE TABLE tokens (
    hash BLOB NOT NULL PRIMARY KEY,
    role TEXT NOT NULL,
    created_wall_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
