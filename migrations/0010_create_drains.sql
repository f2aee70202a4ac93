-- Agents that someone took out of service. A row stands until it is taken back or its agent is
-- forgotten.
CREATE TABLE drains (
    instance TEXT PRIMARY KEY,
    gateway TEXT NOT NULL,
    ordered_by TEXT NOT NULL,
    ordered_ms BIGINT NOT NULL
);
