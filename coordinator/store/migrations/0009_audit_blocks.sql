-- How many changes each run of about 1,024 audit entries has; `last` is the newest entry of the run.
-- The oldest changes are found by it. An index of all changes cost every commit a page.
CREATE TABLE audit_blocks (
    last INTEGER PRIMARY KEY,
    changes INTEGER NOT NULL
) STRICT;
INSERT INTO audit_blocks (last, changes)
    SELECT max(seq), sum(result = 'OK') FROM audit GROUP BY seq / 1024;
DROP INDEX audit_changes;
