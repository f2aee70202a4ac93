//! A client for the HTTP API: addresses, the token, and what its errors mean for the exit code.

use crate::args::ApiArguments;
use crate::exit::{Failure, Kind};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, header};
use serde_json::Value;
use std::time::Duration;

/// Longest wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The HTTP API of one server.
pub(crate) struct Api {
    base: String,
    token: Option<String>,
    http: Client,
}

/// An answer that was no error.
pub(crate) struct Answer {
    pub(crate) body: Value,
    /// The entity tag, quotes included.
    pub(crate) etag: Option<String>,
}

impl Api {
    pub(crate) fn new(arguments: &ApiArguments) -> Result<Self, Failure> {
        let token = match (&arguments.token, &arguments.token_file) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(path)) => Some(std::fs::read_to_string(path).map_err(|error| {
                Failure::new(
                    Kind::Other,
                    format!("cannot read {}: {error}", path.display()),
                )
            })?),
            (None, None) => None,
        };
        Ok(Self {
            base: arguments.url.trim_end_matches('/').to_owned(),
            token: token.map(|token| token.trim().to_owned()),
            http: Client::builder()
                .timeout(TIMEOUT)
                .build()
                .map_err(Failure::other)?,
        })
    }

    /// A read.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.send(self.request(Method::GET, path)).await
    }

    /// A read of something that need not be there.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Answer>, Failure> {
        match self.get(path).await {
            Ok(answer) => Ok(Some(answer)),
            Err(failure) if failure.kind() == Kind::Missing => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// A write of a new thing.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Answer, Failure> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// A write of a new thing over the version that `etag` names.
    pub(crate) async fn post_over(
        &self,
        path: &str,
        body: &Value,
        etag: &str,
    ) -> Result<Answer, Failure> {
        let request = self
            .request(Method::POST, path)
            .header(header::IF_MATCH, etag);
        self.send(request.json(body)).await
    }

    /// A removal, with the reason for the audit trail.
    pub(crate) async fn delete(
        &self,
        path: &str,
        message: Option<&str>,
    ) -> Result<Answer, Failure> {
        let path = with_message(path, message);
        self.send(self.request(Method::DELETE, &path)).await
    }

    /// An answer that goes on, without a limit on its time. Its end is the caller's to notice.
    pub(crate) async fn stream(&self, path: &str) -> Result<Response, Failure> {
        let request = self
            .request(Method::GET, path)
            .timeout(Duration::MAX)
            .header(header::ACCEPT, "text/event-stream");
        let opened = tokio::time::timeout(TIMEOUT, request.send()).await;
        let answer = match opened {
            Ok(answer) => answer.map_err(|error| self.unreachable(&error))?,
            Err(_) => return Err(self.no_answer()),
        };
        let status = answer.status();
        if status.is_success() {
            Ok(answer)
        } else {
            Err(refused(status, answer).await)
        }
    }

    /// A write over the version that `etag` names.
    pub(crate) async fn put(
        &self,
        path: &str,
        body: &Value,
        etag: &str,
    ) -> Result<Answer, Failure> {
        let request = self
            .request(Method::PUT, path)
            .header(header::IF_MATCH, etag);
        self.send(request.json(body)).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Answer, Failure> {
        let answer = request
            .send()
            .await
            .map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(refused(status, answer).await);
        }
        let etag = answer
            .headers()
            .get(header::ETAG)
            .and_then(|etag| etag.to_str().ok());
        let etag = etag.map(str::to_owned);
        let body = answer
            .bytes()
            .await
            .map_err(|error| self.unreachable(&error))?;
        let body = if body.is_empty() {
            Ok(Value::Null)
        } else {
            serde_json::from_slice(&body)
        };
        Ok(Answer {
            body: body.map_err(Failure::other)?,
            etag,
        })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        if error.is_timeout() {
            return self.no_answer();
        }
        if error.is_builder() {
            return Failure::new(
                Kind::Usage,
                format!(
                    "{} is not an address: it must look like http://HOST:PORT",
                    self.base
                ),
            );
        }
        self.lost("no connection")
    }

    fn no_answer(&self) -> Failure {
        self.lost(&format!("no answer within {} s", TIMEOUT.as_secs()))
    }

    fn lost(&self, reason: &str) -> Failure {
        let text = format!("{}: {reason} (set --url or LANEKEEPER_URL)", self.base);
        Failure::new(Kind::Unreachable, text)
    }
}

/// A name as one segment of a path or one value of a query.
pub(crate) fn segment(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// A path with the reason of a write.
pub(crate) fn with_message(path: &str, message: Option<&str>) -> String {
    match message {
        Some(message) => format!("{path}?message={}", segment(message)),
        None => path.to_owned(),
    }
}

/// A path of a write to a document, with the word that it may leave the gateway without any usable
/// pool.
pub(crate) fn with_allow_empty(path: &str, allow_empty: bool) -> String {
    if !allow_empty {
        return path.to_owned();
    }
    let sign = if path.contains('?') { '&' } else { '?' };
    format!("{path}{sign}allow_empty=true")
}

/// The problem document of an error answer, in lines for a person.
async fn refused(status: StatusCode, answer: Response) -> Failure {
    let kind = match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Kind::Invalid,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Kind::Refused,
        StatusCode::NOT_FOUND => Kind::Missing,
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => Kind::Conflict,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => Kind::Unreachable,
        _ => Kind::Other,
    };
    let problem: Value = answer.json().await.unwrap_or_default();
    let word = |name: &str| problem.get(name).and_then(Value::as_str);
    let mut text = match word("detail").or_else(|| word("title")) {
        Some(detail) => detail.to_owned(),
        None => format!("the server responded {status}"),
    };
    if kind == Kind::Refused {
        text += " (set LANEKEEPER_TOKEN or --token-file)";
    }
    let errors = problem.get("errors").and_then(Value::as_array);
    let lines = errors.into_iter().flatten().filter_map(line);
    let detail = word("detail").unwrap_or_default().to_owned();
    text.extend(lines.filter(|line| !line.ends_with(&detail)));
    Failure::new(kind, text)
}

/// One of a problem's errors on a line of its own: where it is and what it is.
fn line(error: &Value) -> Option<String> {
    let part = |name: &str| error.get(name).and_then(Value::as_str);
    let message = part("message")?;
    let place = match part("pointer").or_else(|| part("parameter")) {
        Some("") => "/",
        Some(place) => place,
        None => return Some(format!("\n  {message}")),
    };
    Some(format!("\n  {place}: {message}"))
}
