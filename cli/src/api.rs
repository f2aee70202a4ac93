//! A client for the HTTP API: addresses, the token, and what its errors mean for the exit code.

use crate::args::ApiArguments;
use crate::exit::{Failure, Kind};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, header};
use serde_json::Value;
use std::path::Path;
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
    /// How far the server's clock is before this machine's, in seconds.
    pub(crate) clock_skew_secs: Option<f64>,
}

/// The HTTP client, which trusts one more authority where a file names it.
fn client(authority: Option<&Path>) -> Result<Client, Failure> {
    let mut builder = Client::builder().timeout(TIMEOUT);
    if let Some(path) = authority {
        let unusable = |error: &dyn std::fmt::Display| {
            let text = format!("--cacert: {} cannot be used: {error}", path.display());
            Failure::new(Kind::Usage, text)
        };
        let pem = std::fs::read(path).map_err(|error| unusable(&error))?;
        let bundle = reqwest::Certificate::from_pem_bundle(&pem);
        let bundle = bundle.map_err(|error| unusable(&error))?;
        if bundle.is_empty() {
            return Err(unusable(&"it holds no certificate"));
        }
        builder = bundle
            .into_iter()
            .fold(builder, |builder, it| builder.add_root_certificate(it));
    }
    builder.build().map_err(Failure::other)
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
            http: client(arguments.cacert.as_deref())?,
        })
    }

    /// The address, for people.
    pub(crate) fn base(&self) -> &str {
        &self.base
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

    /// A removal over the version that `etag` names.
    pub(crate) async fn delete_over(
        &self,
        path: &str,
        message: Option<&str>,
        etag: &str,
    ) -> Result<Answer, Failure> {
        let path = with_message(path, message);
        let request = self.request(Method::DELETE, &path);
        self.send(request.header(header::IF_MATCH, etag)).await
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
        let clock_skew_secs = clock_skew_secs(answer.headers());
        // Probes answer in plain text.
        let is_json = answer
            .headers()
            .get(header::CONTENT_TYPE)
            .is_none_or(|it| !it.as_bytes().starts_with(b"text/"));
        let body = answer
            .bytes()
            .await
            .map_err(|error| self.unreachable(&error))?;
        let body = if body.is_empty() {
            Ok(Value::Null)
        } else if is_json {
            serde_json::from_slice(&body)
        } else {
            Ok(Value::String(String::from_utf8_lossy(&body).into_owned()))
        };
        Ok(Answer {
            body: body.map_err(Failure::other)?,
            etag,
            clock_skew_secs,
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
        self.lost(&reason(error))
    }

    fn no_answer(&self) -> Failure {
        self.lost(&format!("no answer within {} s", TIMEOUT.as_secs()))
    }

    fn lost(&self, reason: &str) -> Failure {
        let text = format!("{}: {reason} (set --url or LANEKEEPER_URL)", self.base);
        Failure::new(Kind::Unreachable, text)
    }
}

/// Why there is no connection, in words that tell the usual causes apart.
pub(crate) fn reason(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            match io.kind() {
                std::io::ErrorKind::ConnectionRefused => {
                    return "connection refused: nothing listens there".to_owned();
                }
                std::io::ErrorKind::ConnectionReset => {
                    return "the connection was reset".to_owned();
                }
                std::io::ErrorKind::HostUnreachable | std::io::ErrorKind::NetworkUnreachable => {
                    return "there is no route to that address".to_owned();
                }
                _ => {}
            }
        }
        if let Some(tls) = tls_reason(error) {
            return tls;
        }
        causes.push(error.to_string());
        cause = error.source();
    }
    if causes
        .iter()
        .any(|text| text.contains("dns error") || text.contains("failed to lookup"))
    {
        return "unknown host: its name has no address".to_owned();
    }
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    match causes.pop() {
        Some(last) => format!("no connection: {last}"),
        None => "no connection".to_owned(),
    }
}

/// What is wrong with the other side's certificate.
fn tls_reason(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    use rustls::{CertificateError, Error};
    // Libraries wrap such errors in errors of input and output, more than once.
    if let Some(io) = error.downcast_ref::<std::io::Error>() {
        return io.get_ref().and_then(|inner| tls_reason(inner));
    }
    let text = match error.downcast_ref::<Error>()? {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate comes from an authority that is not trusted (--cacert names another)"
                .to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "its certificate is for another name than the one in the address".to_owned(),
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "its certificate has ended".to_owned(),
        Error::InvalidMessage(_) => "it does not speak TLS: try http://".to_owned(),
        other => format!("no TLS: {other}"),
    };
    Some(text)
}

/// By how much the date of an answer differs from this machine's clock.
fn clock_skew_secs(headers: &header::HeaderMap) -> Option<f64> {
    let date = headers.get(header::DATE)?.to_str().ok()?;
    let theirs = httpdate::parse_http_date(date).ok()?;
    let since = theirs.duration_since(std::time::UNIX_EPOCH).ok()?;
    let ours = std::time::Duration::from_millis(crate::clock::unix_ms());
    Some(since.as_secs_f64() - ours.as_secs_f64())
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

/// What a field of a request is called on the command line, where the two differ.
const FLAGS: [(&str, &str); 14] = [
    ("/ttl_secs", "--ttl"),
    ("/expires_in_secs", "--ttl"),
    ("/max_uses", "--max-uses"),
    ("/reason", "--reason"),
    ("/action", "override ACTION"),
    ("/pool", "--pool"),
    ("/lane", "--lane"),
    ("/provider", "--provider"),
    ("/agents", "--agents"),
    ("/role", "--role"),
    ("/allow_empty", "--allow-empty"),
    ("/plan", "--plan"),
    ("/name", "NAME"),
    ("message", "--message"),
];

/// The flag behind a field that the API names.
fn flag(place: &str) -> String {
    for (field, flag) in FLAGS {
        if place == field {
            return flag.to_owned();
        }
        // A part of a structured field.
        if let Some(rest) = place
            .strip_prefix(field)
            .filter(|rest| rest.starts_with('/'))
        {
            return format!("{flag} ({})", rest.trim_start_matches('/'));
        }
    }
    place.to_owned()
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
        StatusCode::CONFLICT
        | StatusCode::PRECONDITION_FAILED
        | StatusCode::PRECONDITION_REQUIRED => Kind::Conflict,
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
        Some("") => "/".to_owned(),
        Some(place) => flag(place),
        None => return Some(format!("\n  {message}")),
    };
    Some(format!("\n  {place}: {message}"))
}
