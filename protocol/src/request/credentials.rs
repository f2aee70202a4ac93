//! Which of a caller's headers and query parameters are credentials, and whose.
//!
//! A provider must never see what a caller proves itself with, nor may a caller choose which
//! account the gateway's own key acts for. Both kinds cross only where the pool passes the caller's
//! credential on, and then only those that the provider's own clients send.
//!
//! Which names of nobody's are credentials is said in one table for documents and requests.

use lanekeeper_model::credentials::is_credential_name;

use crate::dialect::Vendor;
use crate::vendor;

/// True when a header is a credential of anybody's. With [`Vendor::owns_header`] it may go to that
/// vendor where the caller's own credential is passed on. `name` is in lower case.
#[must_use]
pub fn is_header(vendor: &dyn Vendor, name: &str) -> bool {
    vendor.owns_header(name)
        || vendor::ALL.iter().any(|other| other.owns_header(name))
        || is_credential_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;

    const ANY: &dyn Vendor = Dialect::OPENAI_CHAT.vendor();

    #[test]
    fn whatever_may_be_a_credential_is_taken_for_one() {
        for name in [
            "authorization",
            "proxy-authorization",
            "x-api-key",
            "api-key",
            "apikey",
            "x-goog-api-key",
            "x-auth-token",
            "x-access-token",
            "x-api-token",
            "private-token",
            "x-auth",
            "x-csrf-token",
            "x-xsrf-token",
            "ocp-apim-subscription-key",
            "x-functions-key",
            "x-portkey-api-key",
            "x-portkey-virtual-key",
            "helicone-auth",
            "cf-aig-authorization",
            "x-amzn-oidc-data",
            "x-amz-security-token",
            "x-client-cert",
            "x-forwarded-client-cert",
            "cookie",
            "cookie2",
            "openai-organization",
            "openai-project",
            "x-goog-user-project",
            "api_key",
            "token",
            "auth",
            "sig",
            "x-amz-signature",
            "subscription-key",
            "client_secret",
            "key",
            "access_token",
            "code",
        ] {
            assert!(is_header(ANY, name), "{name}");
        }
    }

    #[test]
    fn features_of_providers_are_no_credentials() {
        for name in [
            "accept",
            "anthropic-beta",
            "anthropic-dangerous-direct-browser-access",
            "anthropic-version",
            "api-version",
            "beta",
            "content-type",
            "helicone-cache-enabled",
            "idempotency-key",
            "max_tokens",
            "openai-beta",
            "prompt-cache-key",
            "session_id",
            "user-agent",
            "x-goog-api-client",
            "x-goog-request-params",
            "x-idempotency-key",
            "x-max-tokens",
            "x-stainless-lang",
            "x-stainless-retry-count",
            "x-title",
        ] {
            assert!(!is_header(ANY, name), "{name}");
        }
    }

    #[test]
    fn credentials_go_only_to_protocols_whose_clients_send_them() {
        let every = &["anthropic", "gemini", "cohere", "responses", "openai"];
        let cases: [(&str, &[&str]); 7] = [
            ("authorization", every),
            ("x-api-key", &["anthropic"]),
            ("openai-organization", &["responses", "openai"]),
            ("x-goog-user-project", &["gemini"]),
            ("x-auth-token", &[]),
            ("x-portkey-api-key", &[]),
            ("cookie", &[]),
        ];
        let owners = |owns: &dyn Fn(&dyn Vendor) -> bool| -> Vec<&str> {
            let owners = vendor::ALL.iter().filter(|vendor| owns(**vendor));
            owners.map(|vendor| vendor.name()).collect()
        };
        for (name, owned) in cases {
            assert!(is_header(ANY, name), "{name}");
            assert_eq!(owners(&|vendor| vendor.owns_header(name)), owned, "{name}");
        }
        assert_eq!(owners(&|vendor| vendor.owns_parameter("key")), ["gemini"]);
        assert!(owners(&|vendor| vendor.owns_parameter("x-api-key")).is_empty());
    }
}
