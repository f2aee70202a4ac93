//! Query parameters: unknown and repeated ones are refused by name, for every route in one place.

use crate::error::Error;
use axum::extract::FromRequestParts;
use http::Uri;
use http::request::Parts;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

/// The query of a request as `T`.
pub(crate) struct Query<T>(pub(crate) T);

impl<S, T> FromRequestParts<S> for Query<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        from_uri(&parts.uri).map(Self)
    }
}

/// Refuses a query with a parameter that is not among the `known`, or is given twice. Called for
/// each route by its guard, with the parameters it documents.
pub(crate) fn check_names(uri: &Uri, known: &[String]) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for (name, value) in from_uri::<Vec<(String, String)>>(uri)? {
        if !known.contains(&name) {
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            return Err(Error::UnknownParameter { name, known });
        }
        // What a decoder puts in place of bytes that are no text; a filter by it would match nothing
        // and look healthy.
        if value.contains(char::REPLACEMENT_CHARACTER) {
            return Err(Error::InvalidParameter {
                name,
                reason: "must be UTF-8".to_owned(),
            });
        }
        if !seen.insert(name.clone()) {
            return Err(Error::InvalidParameter {
                name,
                reason: "is given twice".to_owned(),
            });
        }
    }
    Ok(())
}

fn from_uri<T: DeserializeOwned>(uri: &Uri) -> Result<T, Error> {
    axum::extract::Query::<T>::try_from_uri(uri)
        .map(|query| query.0)
        .map_err(|rejection| {
            // The text of the inner error is "name: reason"; the outer one only introduces it.
            let text = std::error::Error::source(&rejection)
                .map_or_else(|| rejection.body_text(), ToString::to_string);
            match text.split_once(": ") {
                Some((name, reason)) => Error::InvalidParameter {
                    name: name.to_owned(),
                    reason: reason.to_owned(),
                },
                None => Error::InvalidParameter {
                    name: "query".to_owned(),
                    reason: text,
                },
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Filter {
        gateway: Option<String>,
        limit: Option<u32>,
    }

    fn read(query: &str) -> Result<Filter, Error> {
        let uri = format!("/x{query}").parse::<Uri>().unwrap();
        check_names(&uri, &["gateway".to_owned(), "limit".to_owned()])?;
        from_uri(&uri)
    }

    #[test]
    fn known_parameters_are_decoded() {
        let expected = Filter {
            gateway: Some("a b".to_owned()),
            limit: Some(3),
        };
        assert_eq!(read("?gateway=a%20b&limit=3").unwrap(), expected);
        assert_eq!(
            read("").unwrap(),
            Filter {
                gateway: None,
                limit: None
            }
        );
    }

    #[test]
    fn an_unknown_parameter_is_named_with_those_that_are_known() {
        let error = read("?gatewy=edge").unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown query parameter 'gatewy'; this route knows: gateway, limit"
        );
        let bare = "/x?y=1".parse::<Uri>().unwrap();
        assert_eq!(
            check_names(&bare, &[]).unwrap_err().to_string(),
            "unknown query parameter 'y'; this route knows: none"
        );
    }

    #[test]
    fn a_repeated_parameter_is_refused() {
        assert!(matches!(
            read("?gateway=a&gateway=b"),
            Err(Error::InvalidParameter { name, .. }) if name == "gateway"
        ));
    }

    #[test]
    fn a_value_that_is_no_text_is_refused() {
        for query in ["?gateway=%ff", "?gateway=a%c3", "?limit=%80"] {
            assert!(
                matches!(read(query), Err(Error::InvalidParameter { .. })),
                "{query}"
            );
        }
        let kept = read("?gateway=%E4%B8%AD").unwrap();
        assert_eq!(kept.gateway.as_deref(), Some("中"));
    }

    #[test]
    fn a_value_of_the_wrong_kind_names_its_parameter() {
        assert!(matches!(
            read("?limit=many"),
            Err(Error::InvalidParameter { name, .. }) if name == "limit"
        ));
    }
}
