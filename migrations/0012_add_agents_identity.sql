-- The identity whose certificate opened an agent's latest session, so that forgetting the agent revokes it.
ALTER TABLE agents ADD COLUMN identity TEXT;
CREATE INDEX agents_by_identity ON agents (identity);
