CREATE TABLE tenants (
    name TEXT NOT NULL PRIMARY KEY,
    weight INTEGER NOT NULL,
    guaranteed_slots INTEGER NOT NULL,
    limit_slots INTEGER NOT NULL,
    created_wall_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO tenants VALUES ('default', 1, 0, 0, 0);
INSERT OR IGNORE INTO tenants
    SELECT tenant, 1, 0, 0, min(submitted_wall_ms) FROM jobs GROUP BY tenant;

ALTER TABLE tokens RENAME TO tokens_1;

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

INSERT INTO tokens
    SELECT hash, lower(substr(hex(hash), 1, 12)), role, role, '', created_wall_ms, 0, 0, 0
    FROM tokens_1;
DROP TABLE tokens_1;

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
