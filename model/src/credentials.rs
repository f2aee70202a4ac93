//! What looks like a credential: one table for documents, for requests and for what is hidden in logs.

/// Names that mean a credential, or who the caller is, whatever their parts say elsewhere.
const NAMES: &[&str] = &[
    "code",
    "jsessionid",
    "phpsessid",
    "sid",
    "x-ms-client-principal",
    "x-ms-client-principal-id",
    "x-ms-client-principal-name",
    "x-portkey-config",
];

/// Parts of a name between its marks (hyphens, underscores and the like) that mean a credential.
const PARTS: &[&str] = &[
    "accesstoken",
    "apikey",
    "assertion",
    "auth",
    "authentication",
    "authorization",
    "bearer",
    "cert",
    "certificate",
    "cookie",
    "cookie2",
    "credential",
    "credentials",
    "csrf",
    "csrftoken",
    "jwt",
    "key",
    "oauth",
    "oauth2",
    "oidc",
    "passwd",
    "password",
    "saml",
    "secret",
    "sig",
    "signature",
    "token",
    "xsrf",
    "xsrftoken",
];

/// Names that have such a part and carry none.
const HARMLESS: &[&str] = &[
    "helicone-cache-key",
    "idempotency-key",
    "prompt-cache-key",
    "sec-websocket-key",
    "x-goog-api-key-version",
    "x-idempotency-key",
    "x-prompt-cache-key",
];

/// How well-known keys begin.
const KEY_PREFIXES: &[&str] = &[
    "Bearer ", "bearer ", "Basic ", "basic ", "sk-", "sk_", "AIza", "ghp_", "xai-", "gsk_", "hf_",
    "ya29.", "AKIA", "ASIA",
];

/// Whether a header or query parameter of this name, in any case, carries a credential.
///
/// # Examples
///
/// ```
/// use lanekeeper_model::credentials::is_credential_name;
/// assert!(is_credential_name("Ocp-Apim-Subscription-Key"));
/// assert!(!is_credential_name("anthropic-beta"));
/// assert!(!is_credential_name("idempotency-key"));
/// ```
#[must_use]
pub fn is_credential_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    if HARMLESS.contains(&lower.as_str()) {
        return false;
    }
    let mut parts = lower.split(|character: char| !character.is_ascii_alphanumeric());
    NAMES.contains(&lower.as_str()) || parts.any(|part| PARTS.contains(&part))
}

/// Whether a text begins as well-known keys do.
#[must_use]
pub fn is_like_key(text: &str) -> bool {
    KEY_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_known_by_name() {
        for name in [
            "authorization",
            "Proxy-Authorization",
            "api-key",
            "x-api-key",
            "x-goog-api-key",
            "x-auth-token",
            "ocp-apim-subscription-key",
            "x-functions-key",
            "x-secret",
            "helicone-auth",
            "cookie",
            "x-amz-security-token",
            "access_token",
        ] {
            assert!(is_credential_name(name), "{name}");
        }
        for name in [
            "anthropic-version",
            "anthropic-beta",
            "openai-organization",
            "x-goog-user-project",
            "idempotency-key",
            "x-request-id",
            "api-version",
            "tokens",
        ] {
            assert!(!is_credential_name(name), "{name}");
        }
    }
}
