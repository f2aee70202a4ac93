-- Browsers that were signed in with a token. The cookie holds its own secret, never the token's; a row
-- goes with its end or with a sign-out, and counts only while its token does.
CREATE TABLE sign_ins (
    id TEXT PRIMARY KEY,
    token_id TEXT NOT NULL REFERENCES tokens (id),
    secret_hash TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);

CREATE INDEX sign_ins_by_token ON sign_ins (token_id, created_ms);
CREATE INDEX sign_ins_by_end ON sign_ins (expires_ms);
