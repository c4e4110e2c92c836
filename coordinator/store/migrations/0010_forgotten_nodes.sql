-- Lost nodes are forgotten: the history says when.
CREATE TRIGGER history_of_forgotten_node AFTER DELETE ON nodes BEGIN
    INSERT INTO history (seq, kind, key, total, document, spec) VALUES (
        (SELECT coalesce(max(seq), 0) FROM events), 'node', OLD.name,
        coalesce((SELECT total FROM history ORDER BY number DESC LIMIT 1), 0) + 200, '', '');
END;
