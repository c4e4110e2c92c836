/* The prepared statements of store_sqlite. Only for its files. */
#ifndef STORE_STORE_SQLITE_STATEMENTS_H
#define STORE_STORE_SQLITE_STATEMENTS_H

/* clang-format off */
#define STATEMENTS(X)                                                                              \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT") X(ROLLBACK, "ROLLBACK")                                                    \
    X(PUT_JOB, "INSERT INTO jobs (sequence, id, name, tenant, state, submitted_wall_ms,"           \
               " ended_wall_ms, secret, spec, document) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)"   \
               " ON CONFLICT (sequence) DO UPDATE SET state = ?5, ended_wall_ms = ?7,"             \
               " document = ?10")                                                                  \
    X(FORGET_JOB, "DELETE FROM jobs WHERE sequence = ?1")                                          \
    X(PUT_NODE, "INSERT INTO nodes (name, state, document) VALUES (?1,?2,?3)"                      \
                " ON CONFLICT (name) DO UPDATE SET state = ?2, document = ?3")                     \
    X(FORGET_NODE, "DELETE FROM nodes WHERE name = ?1")                                            \
    X(PUT_TOKEN, "INSERT INTO tokens (hash, id, name, role, tenant, created_wall_ms,"              \
                 " expires_wall_ms, revoked_wall_ms, used_wall_ms, uses, uses_max)"                \
                 " VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11) ON CONFLICT (hash) DO UPDATE SET"   \
                 " name = ?3, expires_wall_ms = ?7, revoked_wall_ms = ?8, used_wall_ms = ?9,"      \
                 " uses = ?10, uses_max = ?11")                                                    \
    X(PUT_TENANT, "INSERT INTO tenants (name, weight, guaranteed_slots, limit_slots,"              \
                  " created_wall_ms) VALUES (?1,?2,?3,?4,?5) ON CONFLICT (name) DO UPDATE SET"     \
                  " weight = ?2, guaranteed_slots = ?3, limit_slots = ?4")                         \
    X(PUT_AUDIT, "INSERT INTO audit (seq, wall_ms, token, token_name, role, tenant, carrier,"      \
                 " peer, method, object, result, text)"                                            \
                 " VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)")                               \
    X(FORGET_REFUSALS, "DELETE FROM audit WHERE result <> 'OK' AND seq <= coalesce((SELECT seq"    \
        " FROM audit WHERE result <> 'OK' ORDER BY seq DESC LIMIT 1 OFFSET ?1), 0)")               \
    X(ADD_BLOCK, "INSERT INTO audit_blocks SELECT ?1, count(*) FROM audit WHERE result = 'OK'"     \
        " AND seq <= ?1 AND seq > (SELECT coalesce(max(last), 0) FROM audit_blocks)")              \
    X(JOIN_BLOCKS, "DELETE FROM audit_blocks AS b WHERE changes = 0 AND 0 = (SELECT changes FROM"  \
                   " audit_blocks WHERE last > b.last ORDER BY last LIMIT 1)")                     \
    X(OLD_BLOCK, "SELECT coalesce(max(last), 0) FROM (SELECT last, changes, sum(changes) OVER"     \
                 " (ORDER BY last DESC) AS kept FROM audit_blocks) WHERE kept - changes >= ?1")    \
    X(FORGET_AUDIT, "DELETE FROM audit WHERE result = 'OK' AND seq <= ?1 AND seq > (SELECT"        \
                    " coalesce(max(last), 0) FROM audit_blocks WHERE changes = 0 AND last < ("     \
                    "SELECT min(last) FROM audit_blocks WHERE changes > 0))")                      \
    X(EMPTY_BLOCKS, "UPDATE audit_blocks SET changes = 0 WHERE last <= ?1")                        \
    X(LAST_AUDIT, "SELECT coalesce(max(seq), 0) FROM audit")                                       \
    X(AUDIT, "SELECT * FROM audit WHERE seq > ?1 ORDER BY seq LIMIT ?2")                           \
    X(NEWEST_AUDIT, "SELECT * FROM (SELECT * FROM audit WHERE seq > ?1 ORDER BY seq DESC"          \
                    " LIMIT ?2) ORDER BY seq")                                                     \
    X(PUT_META, "INSERT INTO meta (key, value) VALUES (?1,?2)"                                     \
                " ON CONFLICT (key) DO UPDATE SET value = ?2")                                     \
    X(RECORD, "INSERT INTO events (seq, wall_ms, kind, job, node, generation, from_state,"         \
              " to_state, reason, world) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)")                 \
    X(FORGET_EVENTS, "DELETE FROM events WHERE seq <= ?1")                                         \
    X(LAST_EVENT, "SELECT coalesce(max(seq), 0) FROM events")                                      \
    X(EVENTS, "SELECT seq, wall_ms, kind, job, node, generation, from_state, to_state, reason,"    \
              " world FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2")                           \
    X(EVENTS_OF, "SELECT seq, wall_ms, kind, job, node, generation, from_state, to_state, reason," \
                 " world FROM events WHERE job = ?3 AND seq > ?1 ORDER BY seq LIMIT ?2")           \
    X(NEWEST, "SELECT * FROM (SELECT seq, wall_ms, kind, job, node, generation, from_state,"       \
              " to_state, reason, world FROM events WHERE seq > ?1 ORDER BY seq DESC LIMIT ?2)"    \
              " ORDER BY seq")                                                                     \
    X(NEWEST_OF, "SELECT * FROM (SELECT seq, wall_ms, kind, job, node, generation, from_state,"    \
                 " to_state, reason, world FROM events WHERE job = ?3 AND seq > ?1"                \
                 " ORDER BY seq DESC LIMIT ?2) ORDER BY seq")                                      \
    X(JOBS, "SELECT id, secret, spec, document FROM jobs ORDER BY sequence")                       \
    X(NODES, "SELECT name, document FROM nodes ORDER BY name")                                     \
    X(TOKENS, "SELECT hash, id, name, role, tenant, created_wall_ms, expires_wall_ms,"             \
              " revoked_wall_ms, used_wall_ms, uses, uses_max FROM tokens"                         \
              " ORDER BY created_wall_ms, hash")                                                   \
    X(TENANTS, "SELECT name, weight, guaranteed_slots, limit_slots, created_wall_ms"               \
               " FROM tenants ORDER BY name")                                                      \
    X(FORGET_SETTINGS, "DELETE FROM tenant_settings WHERE tenant = ?1")                            \
    X(PUT_SETTING, "INSERT INTO tenant_settings (tenant, name, value) VALUES (?1,?2,?3)")          \
    X(SETTINGS, "SELECT name, value FROM tenant_settings WHERE tenant = ?1 ORDER BY name")         \
    X(PUT_SECRET, "INSERT INTO secrets (tenant, name, created_by, changed_by, created_wall_ms,"    \
                  " changed_wall_ms, used_wall_ms, sealed) VALUES (?1,?2,?3,?4,?5,?6,?7,?8)"       \
                  " ON CONFLICT (tenant, name) DO UPDATE SET created_by = ?3, changed_by = ?4,"    \
                  " created_wall_ms = ?5, changed_wall_ms = ?6, used_wall_ms = ?7, sealed = ?8")   \
    X(REMOVE_SECRET, "DELETE FROM secrets WHERE tenant = ?1 AND name = ?2")                        \
    X(SECRETS, "SELECT tenant, name, created_by, changed_by, created_wall_ms, changed_wall_ms,"    \
               " used_wall_ms, sealed FROM secrets ORDER BY tenant, name")                         \
    X(HISTORY_BEFORE, "SELECT number, seq FROM history WHERE number <= ?1"                         \
                      " ORDER BY number DESC LIMIT 1")                                             \
    X(HISTORY_LAST, "SELECT number, total FROM history ORDER BY number DESC LIMIT 1")              \
    X(HISTORY_LIGHT, "SELECT number, seq FROM history WHERE number > ?1 AND number <= ?2"          \
                     " AND total <= ?3 ORDER BY number DESC LIMIT 1")                              \
    X(FOLD_HISTORY, "DELETE FROM history WHERE number IN (SELECT old.number FROM"                  \
                    " (SELECT kind, key, max(number) AS number FROM history"                       \
                    " WHERE number > ?1 AND number <= ?2 GROUP BY kind, key) new"                  \
                    " JOIN history old ON old.kind = new.kind AND old.key = new.key"               \
                    " AND old.number < new.number)")                                               \
    X(FOLD_FORGOTTEN, "DELETE FROM history WHERE number > ?1 AND number <= ?2 AND document = ''")  \
    X(PAST_JOBS, "SELECT h.key, h.document, coalesce(j.spec, (SELECT spec FROM history g"          \
                 " WHERE g.kind = 'job' AND g.key = h.key AND g.document = ''"                     \
                 " ORDER BY g.number DESC LIMIT 1), ''), coalesce(j.document, '')"                 \
                 " FROM (SELECT key, max(number) AS number FROM history WHERE kind = 'job'"        \
                 " AND key > ?1 AND number <= ?2 GROUP BY key ORDER BY key LIMIT ?3) p"            \
                 " JOIN history h ON h.number = p.number"                                          \
                 " LEFT JOIN jobs j ON j.sequence = h.key ORDER BY h.key")                         \
    X(PAST_NODES, "SELECT h.key, h.document, '', coalesce(n.document, '')"                         \
                  " FROM (SELECT key, max(number) AS number FROM history WHERE kind = 'node'"      \
                  " AND key > ?1 AND number <= ?2 GROUP BY key ORDER BY key LIMIT ?3) p"           \
                  " JOIN history h ON h.number = p.number"                                         \
                  " LEFT JOIN nodes n ON n.name = h.key ORDER BY h.key")                           \
    X(PAST_TENANTS, "SELECT h.key, h.document, '', coalesce('{\"name\":\"' || t.name"              \
                   " || '\",\"weight\":' || t.weight || ',\"guaranteed_slots\":'"                  \
                   " || t.guaranteed_slots || ',\"limit_slots\":' || t.limit_slots"                \
                   " || ',\"created_wall_ms\":' || t.created_wall_ms || '}', '')"                  \
                   " FROM (SELECT key, max(number) AS number FROM history WHERE kind = 'tenant'"   \
                   " AND key > ?1 AND number <= ?2 GROUP BY key ORDER BY key LIMIT ?3) p"          \
                   " JOIN history h ON h.number = p.number"                                        \
                   " LEFT JOIN tenants t ON t.name = h.key ORDER BY h.key")                        \
    X(EVENT_AT, "SELECT seq FROM events WHERE wall_ms <= ?1 ORDER BY seq DESC LIMIT 1")            \
    X(META, "SELECT value FROM meta WHERE key = ?1")
/* clang-format on */

enum statement {
#define X(name, sql) S_##name,
    STATEMENTS(X)
#undef X
        STATEMENT_COUNT,
};

#endif
