-- When an agent said goodbye, so that one that left is not taken for a silent one after a restart.
ALTER TABLE agents ADD COLUMN left_ms BIGINT;
