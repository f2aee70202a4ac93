-- The last known facts of every agent instance. Two processes with one name are two rows.
CREATE TABLE agents (
    gateway TEXT NOT NULL,
    instance TEXT NOT NULL,
    name TEXT NOT NULL,
    labels TEXT NOT NULL,
    version TEXT NOT NULL,
    session_epoch BIGINT NOT NULL,
    applied_revision BIGINT NOT NULL,
    applied_hash TEXT NOT NULL,
    config_source TEXT NOT NULL,
    problems TEXT NOT NULL,
    rejected TEXT,
    first_seen_ms BIGINT NOT NULL,
    last_seen_ms BIGINT NOT NULL,
    PRIMARY KEY (gateway, instance)
);

CREATE INDEX agents_by_last_seen ON agents (last_seen_ms);
CREATE INDEX agents_by_instance ON agents (instance);
