-- Changes of breakers' states as agents reported them, each once by its number within the agent's process. An entry of
-- kind shed stands for numbers that are missing, from its own on. Kept for a bounded time and in a bounded number.
CREATE TABLE transitions (
    gateway TEXT NOT NULL,
    instance TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    agent TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('opened', 'half_opened', 'closed', 'shed')),
    pool TEXT,
    lane TEXT,
    provider TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (gateway, instance, sequence)
);

CREATE INDEX transitions_by_time ON transitions (at_ms, gateway, instance, sequence);
CREATE INDEX transitions_by_lane ON transitions (gateway, lane, at_ms);
CREATE INDEX transitions_by_agent ON transitions (instance, at_ms);
