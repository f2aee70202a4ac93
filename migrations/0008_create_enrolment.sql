-- One row. changes counts writes that control planes have to hear of: authorities and revocations.
-- It is the lock every such write takes first.
CREATE TABLE enrolment_state (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    changes BIGINT NOT NULL
);

-- Authorities that sign certificates; their keys are never here. retires_ms is set when a newer one
-- comes: until then both are trusted.
CREATE TABLE authorities (
    generation BIGINT PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,
    certificate TEXT NOT NULL,
    added_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    retires_ms BIGINT
);

CREATE TABLE join_tokens (
    id TEXT PRIMARY KEY,
    gateway TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    max_uses BIGINT NOT NULL CHECK (max_uses > 0),
    uses BIGINT NOT NULL CHECK (uses >= 0 AND uses <= max_uses),
    revoked_ms BIGINT
);

CREATE INDEX join_tokens_in_force ON join_tokens (created_ms) WHERE revoked_ms IS NULL;

-- Agents that hold a certificate. origin is what let them in: join-tokens/ID or kubernetes/SUBJECT.
-- expires_ms is the end of the latest certificate.
CREATE TABLE identities (
    id TEXT PRIMARY KEY,
    gateway TEXT NOT NULL,
    name TEXT NOT NULL,
    origin TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    renewed_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    revoked_ms BIGINT
);

CREATE INDEX identities_by_origin ON identities (origin);
CREATE INDEX identities_revoked ON identities (expires_ms) WHERE revoked_ms IS NOT NULL;
