-- Revoked tokens stay: their rows are what tells a first start from a later one.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    secret_hash TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    revoked_ms BIGINT
);

CREATE INDEX tokens_in_force ON tokens (created_ms) WHERE revoked_ms IS NULL;
