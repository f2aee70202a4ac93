//! Which of a caller's headers and query parameters are credentials, and whose.
//!
//! A provider must never see what a caller proves itself with, nor may a caller choose which
//! account the gateway's own key acts for. Both kinds cross only where the pool passes the caller's
//! credential on, and then only those that the provider's own clients send.
//!
//! Proxies, gateways and vendors invent such names freely, so beside the table of known ones a name
//! is a credential when one of its words says so. The tables, here and with the vendors, are `match`es
//! because every header of every request is looked up.

use crate::dialect::Vendor;
use crate::vendor;

/// True when a header is a credential of anybody's. With [`Vendor::owns_header`] it may go to that
/// vendor where the caller's own credential is passed on. `name` is in lower case.
#[must_use]
pub fn is_header(vendor: &dyn Vendor, name: &str) -> bool {
    is_known(name)
        || vendor.owns_header(name)
        || vendor::ALL.iter().any(|other| other.owns_header(name))
        || says_so(name)
}

/// As [`is_header`], of a parameter of the query and [`Vendor::owns_parameter`].
#[must_use]
pub fn is_parameter(vendor: &dyn Vendor, name: &str) -> bool {
    vendor.owns_parameter(name)
        || vendor::ALL.iter().any(|other| other.owns_parameter(name))
        || is_header(vendor, name)
}

/// Names that are no vendor's.
fn is_known(name: &str) -> bool {
    matches!(
        name,
        "x-portkey-config"
            | "x-ms-client-principal"
            | "x-ms-client-principal-id"
            | "x-ms-client-principal-name"
            // Names whose only word says nothing elsewhere.
            | "key"
            | "code"
            | "sid"
            | "phpsessid"
            | "jsessionid"
    )
}

/// True for `x-auth-token`, `x-amzn-oidc-data`, `ocp-apim-subscription-key` and their like.
fn says_so(name: &str) -> bool {
    let mut before = "";
    for word in name.split(|character: char| !character.is_ascii_alphanumeric()) {
        if is_credential_word(word) || (word == "key" && makes_key_secret(before)) {
            return true;
        }
        before = word;
    }
    false
}

/// Words that make any name a credential.
fn is_credential_word(word: &str) -> bool {
    matches!(
        word,
        "accesstoken"
            | "apikey"
            | "assertion"
            | "auth"
            | "authentication"
            | "authorization"
            | "bearer"
            | "cert"
            | "certificate"
            | "cookie"
            | "cookie2"
            | "credential"
            | "credentials"
            | "csrf"
            | "csrftoken"
            | "jwt"
            | "oauth"
            | "oauth2"
            | "oidc"
            | "passwd"
            | "password"
            | "saml"
            | "secret"
            | "sig"
            | "signature"
            | "token"
            | "xsrf"
            | "xsrftoken"
    )
}

/// Words that make the `key` right behind them a credential. Other keys are none:
/// `idempotency-key` must reach the provider.
fn makes_key_secret(word: &str) -> bool {
    matches!(
        word,
        "access"
            | "account"
            | "admin"
            | "api"
            | "app"
            | "application"
            | "client"
            | "consumer"
            | "functions"
            | "gateway"
            | "host"
            | "license"
            | "master"
            | "private"
            | "secret"
            | "service"
            | "shared"
            | "subscription"
            | "user"
            | "virtual"
    )
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
            assert!(is_parameter(ANY, name), "{name}");
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
            assert!(!is_parameter(ANY, name), "{name}");
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
        assert!(is_parameter(ANY, "x-api-key"));
        assert!(owners(&|vendor| vendor.owns_parameter("x-api-key")).is_empty());
    }
}
