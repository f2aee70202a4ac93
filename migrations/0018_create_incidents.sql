-- Incidents. Of one subject at most one is open, which the index holds to, whoever decides; a write names the version
-- that it was decided on.
CREATE TABLE incidents (
    id TEXT PRIMARY KEY,
    gateway TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'closed')),
    opened_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    version BIGINT NOT NULL CHECK (version >= 1),
    value TEXT NOT NULL
);

CREATE UNIQUE INDEX incidents_open ON incidents (gateway, kind, name) WHERE state = 'open';
CREATE INDEX incidents_by_time ON incidents (opened_ms, id);
CREATE INDEX incidents_by_update ON incidents (updated_ms);

-- Who does what one replica alone should do. A lease spares work; what may happen once only is decided by conditions
-- on the rows that it writes.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    expires_ms BIGINT NOT NULL
);
