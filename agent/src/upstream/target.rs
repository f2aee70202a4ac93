//! Where a provider is, prepared once per configuration.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use lanekeeper_model::gateway::{AddressGuard, BaseUrl, HttpVersion, Scheme};
use rustls::pki_types::ServerName;

use super::error::{Error, ErrorKind};
use super::proxy::Proxy;

/// A place to connect to. Cloning it is one reference count.
#[derive(Clone, Debug)]
pub struct Target(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    host: String,
    port: u16,
    /// `None` = plain text.
    tls_name: Option<ServerName<'static>>,
    /// Where a tunnel to it is asked for; `None` = it is reached directly.
    proxy: Option<Proxy>,
    guard: AddressGuard,
    connect_timeout: Duration,
    version: HttpVersion,
    key: TargetKey,
}

/// Connections of one key are interchangeable: same place, same version of HTTP, same rule about
/// addresses. A place that is no longer allowed must not be reached over a connection from before.
#[derive(Clone, Debug)]
pub(super) struct TargetKey {
    text: Arc<str>,
    /// Of the text: every request looks its target up, and hashing it anew would cost each.
    hash: u64,
}

impl TargetKey {
    fn new(text: String) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self {
            text: text.into(),
            hash: hasher.finish(),
        }
    }
}

impl PartialEq for TargetKey {
    fn eq(&self, other: &Self) -> bool {
        // One target's key is nearly always the very same.
        Arc::ptr_eq(&self.text, &other.text) || self.text == other.text
    }
}

impl Eq for TargetKey {}

impl Hash for TargetKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Target {
    /// Prepares a provider's base URL. `connect_timeout` bounds name resolution, connecting and
    /// the TLS handshake together.
    ///
    /// # Errors
    ///
    /// The host of an `https` URL is no name or address that a certificate can be checked for.
    pub fn new(
        base_url: &BaseUrl,
        guard: AddressGuard,
        connect_timeout: Duration,
        version: HttpVersion,
    ) -> Result<Self, Error> {
        let tls_name = match base_url.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(
                ServerName::try_from(base_url.host.clone())
                    .map_err(|error| Error::new(ErrorKind::Tls, error))?,
            ),
        };
        let key = format!(
            "{} {} {} {version:?} {guard:?}",
            base_url.scheme.as_str(),
            base_url.host,
            base_url.port
        );
        Ok(Self(Arc::new(Inner {
            host: base_url.host.clone(),
            port: base_url.port,
            tls_name,
            proxy: None,
            guard,
            connect_timeout,
            version,
            key: TargetKey::new(key),
        })))
    }

    /// The same place, reached through `proxy`.
    #[must_use]
    pub fn through(self, proxy: Proxy) -> Self {
        let inner = Arc::unwrap_or_clone(self.0);
        let text = format!("{} {proxy:?} {:?}", inner.key.text, proxy.fingerprint());
        Self(Arc::new(Inner {
            proxy: Some(proxy),
            key: TargetKey::new(text),
            ..inner
        }))
    }

    pub(super) fn proxy(&self) -> Option<&Proxy> {
        self.0.proxy.as_ref()
    }

    /// The host as configured: a name or an address.
    pub(crate) fn host(&self) -> &str {
        &self.0.host
    }

    /// The port.
    pub(crate) fn port(&self) -> u16 {
        self.0.port
    }

    pub(super) fn tls_name(&self) -> Option<&ServerName<'static>> {
        self.0.tls_name.as_ref()
    }

    /// The version of HTTP as configured.
    pub(super) fn version(&self) -> HttpVersion {
        self.0.version
    }

    /// True when requests to it may share connections.
    pub(super) fn may_multiplex(&self) -> bool {
        match self.0.version {
            HttpVersion::Auto => self.0.tls_name.is_some(),
            HttpVersion::Http1 => false,
            HttpVersion::Http2 => true,
        }
    }

    pub(super) fn guard(&self) -> &AddressGuard {
        &self.0.guard
    }

    pub(super) fn connect_timeout(&self) -> Duration {
        self.0.connect_timeout
    }

    pub(super) fn key(&self) -> &TargetKey {
        &self.0.key
    }
}
