//! How often one address may ask for certificates: a small burst, then a steady trickle.
//!
//! Secrets cannot be guessed at any speed; this keeps strangers from making the database work.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Requests of one address at once. Many agents may be behind one address, and all start together.
const BURST: f64 = 100.0;
/// Requests of one address each second after that.
const PER_SECOND: f64 = 10.0;
/// Addresses that are remembered; beyond that new ones are refused until others are forgotten.
const ADDRESSES_MAX: usize = 10_000;
/// An address that asked for nothing this long has its whole burst again and is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// What each address has left.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    addresses: HashMap<IpAddr, Bucket>,
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Throttle {
    /// Takes one request of an address, if it may have one.
    pub(crate) fn take(&mut self, address: IpAddr, now: Instant) -> bool {
        let address = network(address);
        if self.addresses.len() >= ADDRESSES_MAX && !self.addresses.contains_key(&address) {
            self.addresses
                .retain(|_, bucket| now.saturating_duration_since(bucket.at) < FORGOTTEN_AFTER);
            if self.addresses.len() >= ADDRESSES_MAX {
                return false;
            }
        }
        let bucket = self.addresses.entry(address).or_insert(Bucket {
            left: BURST,
            at: now,
        });
        let gained = now.saturating_duration_since(bucket.at).as_secs_f64() * PER_SECOND;
        bucket.left = (bucket.left + gained).min(BURST);
        bucket.at = now;
        if bucket.left < 1.0 {
            return false;
        }
        bucket.left -= 1.0;
        true
    }
}

/// One host has a whole /64 of IPv6 to itself.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => IpAddr::V4(mapped),
            None => {
                let mask = u128::MAX << 64;
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Instant {
        crate::clock::now()
    }

    #[test]
    fn burst_is_granted_and_then_a_trickle() {
        let (mut throttle, now) = (Throttle::default(), start());
        let address = "10.0.0.1".parse().unwrap();
        let granted = (0..200).filter(|_| throttle.take(address, now)).count();
        assert_eq!(granted, 100);
        let later = now + Duration::from_secs(1);
        let granted = (0..200).filter(|_| throttle.take(address, later)).count();
        assert_eq!(granted, 10);
        assert!(throttle.take("10.0.0.2".parse().unwrap(), later));
    }

    #[test]
    fn neighbours_of_one_ipv6_network_share() {
        let (mut throttle, now) = (Throttle::default(), start());
        for host in 0..200_u32 {
            throttle.take(format!("2001:db8::{host:x}").parse().unwrap(), now);
        }
        assert!(!throttle.take("2001:db8::ffff".parse().unwrap(), now));
        assert!(throttle.take("2001:db8:0:1::1".parse().unwrap(), now));
    }

    #[test]
    fn memory_is_bounded_and_comes_back() {
        let (mut throttle, now) = (Throttle::default(), start());
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        for n in 0..20_000 {
            throttle.take(address(n), now);
        }
        assert_eq!(throttle.addresses.len(), ADDRESSES_MAX);
        assert!(throttle.take(address(1), now), "a known one goes on");
        assert!(!throttle.take(address(30_000), now));
        assert!(throttle.take(address(30_000), now + FORGOTTEN_AFTER));
        assert_eq!(throttle.addresses.len(), 1);
    }
}
