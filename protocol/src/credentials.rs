//! Which of a caller's headers and query parameters are credentials, and whose.
//!
//! A provider must never see what a caller proves itself with, nor may a caller choose which
//! account the gateway's own key acts for. Both kinds cross only where the pool passes the caller's
//! credential on, and then only those that the provider's own clients send.
//!
//! Proxies, gateways and vendors invent such names freely, so beside the table of known ones a name
//! is a credential when one of its words says so. The tables are `match`es because every header of
//! every request is looked up here.

use super::Protocol;

const NONE: &[Protocol] = &[];
const OPENAI: &[Protocol] = &[Protocol::Openai, Protocol::Responses];
const ANTHROPIC: &[Protocol] = &[Protocol::Anthropic];
const GEMINI: &[Protocol] = &[Protocol::Gemini];
const EVERY: &[Protocol] = &[
    Protocol::Openai,
    Protocol::Responses,
    Protocol::Anthropic,
    Protocol::Gemini,
    Protocol::Cohere,
];

/// Whose credential a header is: the protocols it may go to where the caller's own credential is
/// passed on, which may be none. `None` when it is no credential. `name` is in lower case.
#[must_use]
pub fn header_owners(name: &str) -> Option<&'static [Protocol]> {
    known(name).or_else(|| says_so(name).then_some(NONE))
}

/// Whose credential a parameter of the query is, as [`header_owners`] says it of headers.
#[must_use]
pub fn parameter_owners(name: &str) -> Option<&'static [Protocol]> {
    match name {
        "key" | "access_token" => Some(GEMINI),
        _ => header_owners(name).map(|_| NONE),
    }
}

/// The known names.
fn known(name: &str) -> Option<&'static [Protocol]> {
    Some(match name {
        // The vendors' keys.
        "authorization" => EVERY,
        "x-api-key" => ANTHROPIC,
        "api-key" => OPENAI,
        "x-goog-api-key" => GEMINI,
        // The account a key acts for.
        "openai-organization" | "openai-project" => OPENAI,
        "anthropic-organization-id" | "anthropic-workspace-id" | "x-organization-uuid" => ANTHROPIC,
        "x-goog-user-project"
        | "x-goog-iam-authority-selector"
        | "x-goog-iam-authorization-token" => GEMINI,
        "x-portkey-config"
        | "x-ms-client-principal"
        | "x-ms-client-principal-id"
        | "x-ms-client-principal-name" => NONE,
        // Names whose only word says nothing elsewhere.
        "key" | "code" | "sid" | "phpsessid" | "jsessionid" => NONE,
        _ => return None,
    })
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
            assert!(header_owners(name).is_some(), "{name}");
            assert!(parameter_owners(name).is_some(), "{name}");
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
            assert_eq!(header_owners(name), None, "{name}");
            assert_eq!(parameter_owners(name), None, "{name}");
        }
    }

    #[test]
    fn credentials_go_only_to_protocols_whose_clients_send_them() {
        for (name, owned) in [
            ("authorization", EVERY),
            ("x-api-key", ANTHROPIC),
            ("openai-organization", OPENAI),
            ("x-goog-user-project", GEMINI),
            ("x-auth-token", NONE),
            ("x-portkey-api-key", NONE),
            ("cookie", NONE),
        ] {
            assert_eq!(header_owners(name), Some(owned), "{name}");
        }
        assert_eq!(parameter_owners("key"), Some(GEMINI));
        assert_eq!(parameter_owners("x-api-key"), Some(NONE));
    }
}
