//! Which of a caller's headers may go to a provider: those on a list, and no other.
//!
//! What a provider makes of a header that nobody here knows cannot be foreseen: it may change the
//! answer's form, name another account or upstream, or tell who the caller is.

use crate::dialect::Vendor;
use crate::request::credentials;
use crate::request::headers::Credential;

/// True when a header of a caller may go to a provider of this vendor. `name` is in lower case.
pub(super) fn may_pass(vendor: &dyn Vendor, name: &str, credential: Credential) -> bool {
    if is_common(name) {
        return true;
    }
    if vendor.owns_header(name) {
        return credential == Credential::Passthrough;
    }
    // What a prefix lets through is no credential for that.
    (name.starts_with("x-stainless-") || vendor.passes_header(name))
        && !credentials::is_header(vendor, name)
}

/// What every vendor may see: what the body is, which program sent it, and how requests are told
/// apart and traced.
fn is_common(name: &str) -> bool {
    matches!(
        name,
        "content-type"
            | "accept"
            | "user-agent"
            | "x-request-id"
            | "traceparent"
            | "tracestate"
            | "idempotency-key"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor::ALL;

    /// Headers of the vendors' packages and of coding agents, and whose lanes they go to.
    const SENT: &[(&str, &[&str])] = &[
        ("content-type", EVERY),
        ("accept", EVERY),
        ("user-agent", EVERY),
        ("idempotency-key", EVERY),
        ("x-request-id", EVERY),
        ("traceparent", EVERY),
        ("x-stainless-lang", EVERY),
        ("x-stainless-helper-method", EVERY),
        ("x-stainless-retry-count", EVERY),
        ("openai-beta", OPENAI),
        ("openai-intent", OPENAI),
        ("x-client-request-id", &["anthropic", "responses", "openai"]),
        ("session_id", OPENAI),
        ("session-id", OPENAI),
        ("thread-id", OPENAI),
        ("conversation_id", OPENAI),
        ("originator", OPENAI),
        ("version", OPENAI),
        ("x-codex-turn-metadata", OPENAI),
        ("x-openai-subagent", OPENAI),
        ("http-referer", OPENAI),
        ("x-title", OPENAI),
        ("x-ms-client-request-id", OPENAI),
        ("anthropic-version", &["anthropic"]),
        ("anthropic-beta", &["anthropic"]),
        ("anthropic-dangerous-direct-browser-access", &["anthropic"]),
        ("x-app", &["anthropic"]),
        ("x-claude-code-session-id", &["anthropic"]),
        ("x-goog-api-client", &["gemini"]),
        ("x-goog-request-params", &["gemini"]),
        ("x-server-timeout", &["gemini"]),
        ("x-client-name", &["cohere"]),
        ("x-fern-language", &["cohere"]),
        ("x-fern-sdk-version", &["cohere"]),
        ("x-goog-fieldmask", &[]),
        ("x-http-method-override", &[]),
        ("x-original-url", &[]),
        ("helicone-target-url", &[]),
        ("x-portkey-custom-host", &[]),
        ("x-ms-client-principal-name", &[]),
        ("cf-connecting-ip", &[]),
        ("fly-client-ip", &[]),
        ("fastly-client-ip", &[]),
        ("true-client-ip", &[]),
        ("x-envoy-external-address", &[]),
        ("x-cluster-client-ip", &[]),
        ("x-azure-clientip", &[]),
        ("x-appengine-user-ip", &[]),
        ("x-unheard-of", &[]),
        ("accept-language", &[]),
        ("content-encoding", &[]),
        ("baggage", &[]),
        ("range", &[]),
        ("if-none-match", &[]),
        ("x-stainless-api-key", &[]),
    ];
    const EVERY: &[&str] = &["anthropic", "gemini", "cohere", "responses", "openai"];
    const OPENAI: &[&str] = &["responses", "openai"];

    #[test]
    fn each_vendor_sees_what_its_clients_send() {
        for credential in [Credential::Own, Credential::Passthrough] {
            for (name, expected) in SENT {
                let passes = |vendor: &&&dyn Vendor| may_pass(**vendor, name, credential);
                let found: Vec<&str> = ALL.iter().filter(passes).map(|v| v.name()).collect();
                assert_eq!(found, *expected, "{name} {credential:?}");
            }
        }
    }
}
