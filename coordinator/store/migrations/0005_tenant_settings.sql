-- What an administrator said of a tenant beyond its share: quotas (decimal numbers) and
-- `checkpoint_prefixes` (a path a line). What is not here has its default.
CREATE TABLE tenant_settings (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
