//! Opens a connection: name, address guard, TCP, TLS, all within one bound.
//!
//! The guard looks at resolved addresses, not at names: a public name may be pointed at a private
//! address at any time.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::error::{Error, ErrorKind};
use super::target::Target;
use super::tls::{Offer, Tls};
use super::transport::Transport;
use crate::clock;

/// Addresses of one name that are tried at most.
const MAX_ADDRESSES: usize = 8;

/// Connects within the target's connect time-out. Over TLS the peer chooses from what is offered.
pub(super) async fn connect(target: &Target, tls: &Tls, offer: Offer) -> Result<Transport, Error> {
    tokio::time::timeout(target.connect_timeout(), open(target, tls, offer))
        .await
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Timeout, "connecting took too long")))
}

async fn open(target: &Target, tls: &Tls, offer: Offer) -> Result<Transport, Error> {
    let (tcp, round_trip) = match target.proxy() {
        None => dial(target, resolve(target).await?).await?,
        Some(proxy) => {
            // The proxy looks the name up, so only an address can be checked here.
            if let Ok(address) = target.host().parse() {
                permitted(target, vec![SocketAddr::new(address, target.port())])?;
            }
            let (tcp, _) = dial(target, look_up(proxy.host(), proxy.port()).await?).await?;
            let began = clock::now();
            let tcp = proxy.tunnel(tcp, target.host(), target.port()).await?;
            (tcp, clock::now().saturating_duration_since(began))
        }
    };
    tcp.set_nodelay(true)
        .map_err(|error| Error::new(ErrorKind::Connect, error))?;
    let Some(name) = target.tls_name() else {
        return Ok(Transport::plain(tcp, round_trip));
    };
    let stream = TlsConnector::from(tls.config(offer))
        .connect(name.clone(), tcp)
        .await
        .map_err(|error| Error::new(ErrorKind::Tls, error))?;
    Ok(Transport::tls(stream, round_trip))
}

/// A connected socket and how long its handshake took, which is one round trip.
async fn dial(target: &Target, addresses: Vec<SocketAddr>) -> Result<(TcpStream, Duration), Error> {
    let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = Error::new(ErrorKind::Connect, "no address to try");
    for address in addresses {
        // A share of the time for each, so that one silent address cannot hide a good one.
        let share: Duration = target.connect_timeout() / left;
        left = left.saturating_sub(1).max(1);
        let began = clock::now();
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return Ok((tcp, clock::now().saturating_duration_since(began))),
            Ok(Err(error)) if is_local(&error) => {
                return Err(Error::new(ErrorKind::Local, error));
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                last = Error::new(ErrorKind::Refused, error);
            }
            Ok(Err(error)) => last = Error::new(ErrorKind::Connect, error),
            Err(_) => last = Error::new(ErrorKind::Timeout, "connecting took too long"),
        }
    }
    Err(last)
}

/// True for what this machine lacks: descriptors, memory, buffers or ports (ENOMEM, ENFILE, EMFILE,
/// EADDRNOTAVAIL, ENOBUFS). It says nothing about the provider.
fn is_local(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(12 | 23 | 24 | 99 | 105))
}

/// The addresses that may be connected to, in the resolver's order.
async fn resolve(target: &Target) -> Result<Vec<SocketAddr>, Error> {
    let found = look_up(target.host(), target.port()).await?;
    permitted(target, found)
}

async fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
    match host.parse::<IpAddr>() {
        Ok(address) => Ok(vec![SocketAddr::new(address, port)]),
        Err(_) => Ok(tokio::net::lookup_host((host, port))
            .await
            .map_err(|error| {
                let kind = if is_local(&error) {
                    ErrorKind::Local
                } else {
                    ErrorKind::Dns
                };
                Error::new(kind, error)
            })?
            .take(MAX_ADDRESSES)
            .collect()),
    }
}

/// Those of the addresses that the provider may be at.
fn permitted(target: &Target, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Error> {
    let mut refused = None;
    let allowed: Vec<SocketAddr> = found
        .into_iter()
        .filter(|address| match target.guard().permit(address.ip()) {
            Ok(()) => true,
            Err(class) => {
                refused = Some(class);
                false
            }
        })
        .collect();
    match (allowed.is_empty(), refused) {
        (false, _) => Ok(allowed),
        (true, Some(class)) => Err(Error::new(
            ErrorKind::Blocked,
            format_args!(
                "the host is at a {} address that is not listed",
                class.as_str()
            ),
        )),
        (true, None) => Err(Error::new(ErrorKind::Dns, "the name has no address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanekeeper_protocol::verdict::Disposition;

    #[test]
    fn what_this_machine_lacks_says_nothing_about_the_provider() {
        for (code, local) in [
            (12, true),
            (23, true),
            (24, true),
            (99, true),
            (105, true),
            (111, false),
            (110, false),
        ] {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(is_local(&error), local, "{error}");
        }
        let verdict = Error::new(ErrorKind::Local, "no descriptors").verdict();
        assert_eq!(verdict.disposition, Disposition::Local);
    }
}
