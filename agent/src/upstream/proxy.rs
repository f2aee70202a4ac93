//! The way out of a network that lets nothing out by itself: an HTTP proxy, asked by `CONNECT` for
//! a tunnel to the provider. TLS, where the provider has it, runs inside the tunnel, so the proxy
//! sees the provider's name and nothing of a request.

use std::borrow::Cow;
use std::fmt;
use std::future::ready;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service as _;

use super::error::{Error, ErrorKind};

/// Port of a proxy whose URL names none.
const PROXY_PORT: u16 = 80;

/// One proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    uri: Uri,
    host: String,
    port: u16,
    /// The value of `proxy-authorization`.
    authorization: Option<HeaderValue>,
}

impl Proxy {
    /// The plain HTTP proxy at `host` (an IPv6 address without brackets) and `port`. `authorization`
    /// is the whole value of the header that lets the agent in.
    ///
    /// # Errors
    ///
    /// The host is no host of a URL.
    pub fn new(
        host: &str,
        port: u16,
        mut authorization: Option<HeaderValue>,
    ) -> Result<Self, Error> {
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        let uri = format!("http://{}:{port}", bracketed(host)).parse();
        let uri = uri.map_err(|_| Error::new(ErrorKind::Setup, "the proxy's host is unusable"))?;
        Ok(Self {
            uri,
            host: host.to_owned(),
            port,
            authorization,
        })
    }

    /// The proxy that a variable of the environment names.
    fn of_variable(uri: &Uri, authorization: Option<HeaderValue>) -> Result<Self, Error> {
        let unfit = || Error::new(ErrorKind::Setup, "the proxy is not http://host:port");
        let host = uri.host().ok_or_else(unfit)?;
        if uri.scheme_str().is_some_and(|scheme| scheme != "http") {
            return Err(unfit());
        }
        let port = uri.port_u16().unwrap_or(PROXY_PORT);
        Self::new(host.trim_matches(['[', ']']), port, authorization)
    }

    /// Tells two proxies apart that let the agent in by different words, without the words.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.authorization
            .as_ref()
            .map(HeaderValue::as_bytes)
            .hash(&mut hasher);
        hasher.finish()
    }

    /// Its host: a name or an address.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Asks on a connection to the proxy for a tunnel to `host:port`.
    pub(super) async fn tunnel(
        &self,
        tcp: TcpStream,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, Error> {
        let unfit = |error: http::uri::InvalidUri| Error::new(ErrorKind::Connect, error);
        let destination = format!("https://{}:{port}", bracketed(host));
        let destination: Uri = destination.parse().map_err(unfit)?;
        let mut tcp = Some(TokioIo::new(tcp));
        let connected = tower::service_fn(move |_: Uri| {
            ready(tcp.take().ok_or_else(|| "a second connection".to_owned()))
        });
        let mut tunnel = Tunnel::new(self.uri.clone(), connected);
        if let Some(authorization) = &self.authorization {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        let opened = tunnel.call(destination).await;
        opened.map(TokioIo::into_inner).map_err(|error| {
            Error::new(
                ErrorKind::Connect,
                format_args!("the proxy opens no tunnel: {error}"),
            )
        })
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authorized = self.authorization.is_some();
        write!(f, "{}:{} authorized={authorized}", self.host, self.port)
    }
}

fn bracketed(host: &str) -> Cow<'_, str> {
    if host.contains(':') {
        Cow::Owned(format!("[{host}]"))
    } else {
        Cow::Borrowed(host)
    }
}

/// What the environment of this process says about proxies: `HTTPS_PROXY` and `NO_PROXY`, in
/// capital or small letters, as most programs read them.
#[derive(Clone, Debug, Default)]
pub struct ProxyEnvironment(Option<Arc<Matcher>>);

impl ProxyEnvironment {
    /// Reads the variables of this process.
    #[must_use]
    pub fn from_process() -> Self {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Reads the variables that `variable` knows.
    #[must_use]
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let either = |capital: &str, small: &str| {
            variable(capital)
                .filter(|value| !value.is_empty())
                .or_else(|| variable(small).filter(|value| !value.is_empty()))
        };
        let Some(proxy) = either("HTTPS_PROXY", "https_proxy") else {
            return Self(None);
        };
        let except = either("NO_PROXY", "no_proxy").unwrap_or_default();
        let matcher = Matcher::builder().https(proxy).no(except).build();
        Self(Some(Arc::new(matcher)))
    }

    /// The proxy to a provider that is reached over TLS at `host:port`.
    ///
    /// # Errors
    ///
    /// The variable names something that is no plain HTTP proxy.
    pub fn proxy_to(&self, host: &str, port: u16) -> Result<Option<Proxy>, Error> {
        let Some(matcher) = &self.0 else {
            return Ok(None);
        };
        let Ok(destination) = format!("https://{}:{port}", bracketed(host)).parse::<Uri>() else {
            return Ok(None);
        };
        let Some(found) = matcher.intercept(&destination) else {
            return Ok(None);
        };
        Proxy::of_variable(found.uri(), found.basic_auth().cloned()).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &'static [(&str, &str)]) -> ProxyEnvironment {
        ProxyEnvironment::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn shown(environment: &ProxyEnvironment, host: &str) -> Option<String> {
        let proxy = environment.proxy_to(host, 443).unwrap();
        proxy.map(|proxy| format!("{proxy:?}"))
    }

    #[test]
    fn the_environment_decides_by_name() {
        let plain = environment(&[("HTTPS_PROXY", "http://proxy.corp:3128")]);
        let proxied = Some("proxy.corp:3128 authorized=false".to_owned());
        assert_eq!(shown(&plain, "api.example.com"), proxied);
        let some = environment(&[
            ("https_proxy", "proxy.corp:3128"),
            (
                "no_proxy",
                "internal.corp,.svc.cluster.local,10.0.0.0/8,::1",
            ),
        ]);
        assert_eq!(shown(&some, "api.example.com"), proxied);
        for direct in [
            "internal.corp",
            "llm.internal.corp",
            "vllm.ml.svc.cluster.local",
            "10.1.2.3",
            "::1",
        ] {
            assert_eq!(shown(&some, direct), None, "{direct}");
        }
        let all = environment(&[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", "*")]);
        assert_eq!(shown(&all, "api.example.com"), None);
        let none = environment(&[("HTTPS_PROXY", ""), ("NO_PROXY", "a")]);
        assert_eq!(shown(&none, "api.example.com"), None);
    }

    #[test]
    fn who_lets_the_agent_in_is_not_shown() {
        let known = environment(&[("HTTPS_PROXY", "http://user:secret@proxy.corp:3128")]);
        let shown = shown(&known, "api.example.com").unwrap();
        assert_eq!(shown, "proxy.corp:3128 authorized=true");
    }

    #[test]
    fn only_plain_proxies_are_taken() {
        for uri in ["https://proxy:3128", "socks5://proxy:1080", "/path"] {
            assert!(
                Proxy::of_variable(&uri.parse().unwrap(), None).is_err(),
                "{uri}"
            );
        }
    }
}
