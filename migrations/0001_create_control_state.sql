-- One row. The epoch names this history of revisions; it is replaced when the database is restored
-- from a backup. token_changes counts writes to tokens: it is the lock every such write takes
-- first.
CREATE TABLE control_state (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    epoch TEXT NOT NULL,
    token_changes BIGINT NOT NULL
);
