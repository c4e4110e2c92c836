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

-- What there is now is the oldest state that can be rebuilt.
INSERT INTO history (seq, kind, key, total, document, spec)
    SELECT (SELECT coalesce(max(seq), 0) FROM events), 'node', name, 0, document, '' FROM nodes;
INSERT INTO history (seq, kind, key, total, document, spec)
    SELECT (SELECT coalesce(max(seq), 0) FROM events), 'job', sequence, 0, document, '' FROM jobs;
INSERT INTO history (seq, kind, key, total, document, spec)
    SELECT (SELECT coalesce(max(seq), 0) FROM events), 'tenant', name, 0,
           '{"name":"' || name || '","weight":' || weight
               || ',"guaranteed_slots":' || guaranteed_slots
               || ',"limit_slots":' || limit_slots
               || ',"created_wall_ms":' || created_wall_ms || '}', ''
    FROM tenants;
INSERT INTO meta SELECT 'history_from', coalesce(max(seq), 0) FROM events;
