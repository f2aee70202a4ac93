CREATE TABLE rollout_plans (
    gateway TEXT PRIMARY KEY REFERENCES revision_counters (gateway),
    plan TEXT NOT NULL,
    updated_ms BIGINT NOT NULL
);

-- value is the whole rollout as JSON; state repeats what is in it, for the index. version grows with
-- each write: a replica that saw an older one does not write.
CREATE TABLE rollouts (
    gateway TEXT NOT NULL REFERENCES revision_counters (gateway),
    revision BIGINT NOT NULL,
    state TEXT NOT NULL,
    version BIGINT NOT NULL,
    value TEXT NOT NULL,
    updated_ms BIGINT NOT NULL,
    PRIMARY KEY (gateway, revision)
);

-- At most one rollout decides what a gateway's agents serve.
CREATE UNIQUE INDEX rollouts_active ON rollouts (gateway)
    WHERE state IN ('running', 'paused', 'stopped');
