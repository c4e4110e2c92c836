-- Today's tables of DATA/muster.db, for readers. How a file gets there is migrations/; a test holds
-- the two equal. Documents are JSON, written by coordinator/store/document_write.c.

-- The cluster's id, the clock the times in documents were taken on, what forgotten jobs used.
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
, world INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE INDEX events_by_job ON events (job, seq);

-- SHA-256 of each bearer token; the id is the start of it. Revoked ones stay, so that the audit
-- trail's ids keep their names. Times are 0 where there is none; `uses_max` 0 is any number.
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
, uses INTEGER NOT NULL DEFAULT 0, uses_max INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;

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

-- What each job, node and tenant became, change by change, so that any past state can be rebuilt.
-- Triggers write it: nothing can change without it. `seq` is the newest event when it changed,
-- `total` the bytes written up to here; a document of '' is a job that was forgotten, with its spec.
CREATE TABLE history (
    number INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    key ANY NOT NULL,
    total INTEGER NOT NULL,
    document TEXT NOT NULL,
    spec TEXT NOT NULL
) STRICT;

CREATE INDEX history_by_key ON history (kind, key, number);

CREATE TRIGGER history_of_new_job AFTER INSERT ON jobs BEGIN
    INSERT INTO history (seq, kind, key, total, document, spec) VALUES (
        (SELECT coalesce(max(seq), 0) FROM events), 'job', NEW.sequence,
        coalesce((SELECT total FROM history ORDER BY number DESC LIMIT 1), 0)
            + length(NEW.document) + 200, NEW.document, '');
END;

CREATE TRIGGER history_of_job AFTER UPDATE ON jobs WHEN NEW.document <> OLD.document BEGIN
    INSERT INTO history (seq, kind, key, total, document, spec) VALUES (
        (SELECT coalesce(max(seq), 0) FROM events), 'job', NEW.sequence,
        coalesce((SELECT total FROM history ORDER BY number DESC LIMIT 1), 0)
            + length(NEW.document) + 200, NEW.document, '');
END;

CREATE TRIGGER history_of_forgotten_job AFTER DELETE ON jobs BEGIN
    INSERT INTO history (seq, kind, key, total, document, spec) VALUES (
        (SELECT coalesce(max(seq), 0) FROM events), 'job', OLD.sequence,
        coalesce((SELECT total FROM history ORDER BY number DESC LIMIT 1), 0)
            + length(OLD.spec) + 200, '', OLD.spec);
END;

CREATE TRIGGER history_of_new_node AFTER INSERT ON nodes BEGIN
    INSERT INTO history (seq, kind, key, total, document, spec) VALUES (
        (SELECT coalesce(max(seq), 0) FROM events), 'node', NEW.name,
        coalesce((SELECT total FROM history ORDER BY number DESC LIMIT 1), 0)
            + length(NEW.document) + 200, NEW.document, '');
END;

CREATE TRIGGER history_of_node AFTER UPDATE ON nodes WHEN NEW.document <> OLD.document BEGIN
    INSERT INTO history (seq, kind, key, total, document, spec) VALUES (
        (SELECT coalesce(max(seq), 0) FROM events), 'node', NEW.name,
        coalesce((SELECT total FROM history ORDER BY number DESC LIMIT 1), 0)
            + length(NEW.document) + 200, NEW.document, '');
END;

CREATE TRIGGER history_of_forgotten_node AFTER DELETE ON nodes BEGIN
    INSERT INTO history (seq, kind, key, total, document, spec) VALUES (
        (SELECT coalesce(max(seq), 0) FROM events), 'node', OLD.name,
        coalesce((SELECT total FROM history ORDER BY number DESC LIMIT 1), 0) + 200, '', '');
END;

CREATE TRIGGER history_of_new_tenant AFTER INSERT ON tenants BEGIN
    INSERT INTO history (seq, kind, key, total, document, spec) VALUES (
        (SELECT coalesce(max(seq), 0) FROM events), 'tenant', NEW.name,
        coalesce((SELECT total FROM history ORDER BY number DESC LIMIT 1), 0) + 300,
        '{"name":"' || NEW.name || '","weight":' || NEW.weight
            || ',"guaranteed_slots":' || NEW.guaranteed_slots
            || ',"limit_slots":' || NEW.limit_slots
            || ',"created_wall_ms":' || NEW.created_wall_ms || '}', '');
END;

CREATE TRIGGER history_of_tenant AFTER UPDATE ON tenants BEGIN
    INSERT INTO history (seq, kind, key, total, document, spec) VALUES (
        (SELECT coalesce(max(seq), 0) FROM events), 'tenant', NEW.name,
        coalesce((SELECT total FROM history ORDER BY number DESC LIMIT 1), 0) + 300,
        '{"name":"' || NEW.name || '","weight":' || NEW.weight
            || ',"guaranteed_slots":' || NEW.guaranteed_slots
            || ',"limit_slots":' || NEW.limit_slots
            || ',"created_wall_ms":' || NEW.created_wall_ms || '}', '');
END;

-- What an administrator said of a tenant beyond its share: quotas (decimal numbers) and
-- `checkpoint_prefixes` (a path a line). What is not here has its default.
CREATE TABLE tenant_settings (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- Refusals and changes have budgets of their own. The oldest refusals are found by this index.
CREATE INDEX audit_refusals ON audit (seq) WHERE result <> 'OK';

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

-- How many changes each run of about 1,024 audit entries has; `last` is the newest entry of the run.
-- The oldest changes are found by it. An index of all changes cost every commit a page.
CREATE TABLE audit_blocks (
    last INTEGER PRIMARY KEY,
    changes INTEGER NOT NULL
) STRICT;
