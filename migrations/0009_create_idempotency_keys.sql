-- One row per write that named a key, made in the write's own transaction, so that a repetition
-- never writes twice. The answer is added afterwards and may be missing when the server died between.
CREATE TABLE idempotency_keys (
    actor_id TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    attempt TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    audit_seq BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    answer TEXT,
    PRIMARY KEY (actor_id, idempotency_key)
);

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_ms);
