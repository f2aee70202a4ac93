-- The counter outlives its gateway, so that a gateway created again under the same name continues
-- the numbers and no agent ever sees its revision go down.
CREATE TABLE revision_counters (
    gateway TEXT PRIMARY KEY,
    last BIGINT NOT NULL CHECK (last >= 1)
);

CREATE TABLE gateways (
    name TEXT PRIMARY KEY REFERENCES revision_counters (gateway),
    revision BIGINT NOT NULL,
    hash TEXT NOT NULL,
    labels TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
);

-- Documents are JSON text, not a JSON type: both engines then keep the same bytes.
CREATE TABLE revisions (
    gateway TEXT NOT NULL REFERENCES revision_counters (gateway),
    number BIGINT NOT NULL,
    document TEXT NOT NULL,
    hash TEXT NOT NULL,
    author TEXT NOT NULL,
    message TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    parent BIGINT,
    PRIMARY KEY (gateway, number)
);
