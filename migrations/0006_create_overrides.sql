-- The counter grows with every change of a gateway's orders, so that one cheap read tells whether
-- there is anything new. It outlives its gateway as the revision counter does.
CREATE TABLE override_counters (
    gateway TEXT PRIMARY KEY,
    last BIGINT NOT NULL CHECK (last >= 1)
);

-- Orders stay here for some time after their end, for people who ask what was done.
CREATE TABLE overrides (
    id TEXT PRIMARY KEY,
    gateway TEXT NOT NULL REFERENCES override_counters (gateway),
    number BIGINT NOT NULL,
    action TEXT NOT NULL,
    pool TEXT,
    lane TEXT NOT NULL,
    agents TEXT NOT NULL,
    reason TEXT NOT NULL,
    actor TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL,
    released_ms BIGINT,
    UNIQUE (gateway, number)
);

CREATE INDEX overrides_by_end ON overrides (expires_ms);
