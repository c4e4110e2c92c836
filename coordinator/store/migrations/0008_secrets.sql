-- Secrets of tenants. A value is sealed (common/env/seal.h) under its tenant and name; the key is not
-- in this file. No trigger follows this table: what a secret was before is kept nowhere.
CREATE TABLE secrets (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    created_by TEXT NOT NULL,
    changed_by TEXT NOT NULL,
    created_wall_ms INTEGER NOT NULL,
    changed_wall_ms INTEGER NOT NULL,
    used_wall_ms INTEGER NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
