-- The provider whose own cell an override is about; its lane is then empty. NULL: the override is about a lane's cells.
ALTER TABLE overrides ADD COLUMN provider TEXT;
