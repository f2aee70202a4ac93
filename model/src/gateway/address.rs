//! Which addresses a provider may be at. One rule serves validation, which sees what is written, and
//! the agent, which sees what a name resolves to at connect time.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// What kind of address it is, as far as the guard cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// Reachable by anyone.
    Public,
    /// This machine.
    Loopback,
    /// Private, shared, or unique local.
    Private,
    /// Link-local.
    LinkLocal,
    /// A cloud's metadata service, which hands out credentials.
    Metadata,
    /// Unspecified, multicast, documentation or otherwise no host.
    Reserved,
}

impl AddressClass {
    /// The class in a sentence.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Metadata => "metadata service",
            Self::Reserved => "reserved",
        }
    }

    /// Classifies an address. IPv4 inside IPv6 (mapped, NAT64, 6to4) is judged by the IPv4 address,
    /// so that it cannot be used as a disguise.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::of_v4(v4),
            IpAddr::V6(v6) => Self::of_v6(v6),
        }
    }

    fn of_v4(v4: Ipv4Addr) -> Self {
        let [a, b, c, d] = v4.octets();
        match (a, b, c, d) {
            // AWS, Azure, Google and others; Alibaba; Oracle's and AWS's further ones are link-local.
            (169, 254, 169, 254) | (100, 100, 100, 200) | (168, 63, 129, 16) => Self::Metadata,
            (127, ..) => Self::Loopback,
            (169, 254, ..) => Self::LinkLocal,
            (10, ..) | (192, 168, ..) => Self::Private,
            (172, second, ..) if (16..32).contains(&second) => Self::Private,
            (100, second, ..) if (64..128).contains(&second) => Self::Private,
            (0, ..) | (192, 0, 0 | 2, _) | (198, 18 | 19, ..) => Self::Reserved,
            (198, 51, 100, _) | (203, 0, 113, _) => Self::Reserved,
            (first, ..) if first >= 224 => Self::Reserved,
            (..) => Self::Public,
        }
    }

    fn of_v6(v6: Ipv6Addr) -> Self {
        if v6 == Ipv6Addr::LOCALHOST {
            return Self::Loopback;
        }
        let [s0, s1, s2, s3, s4, s5, s6, s7] = v6.segments();
        let v4 = |high: u16, low: u16| {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            Self::of_v4(Ipv4Addr::new(a, b, c, d))
        };
        match [s0, s1, s2, s3, s4, s5, s6, s7] {
            [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254] => Self::Metadata,
            [0, 0, 0, 0, 0, 0xffff | 0, high, low] => match (high, low) {
                (0, 0) => Self::Reserved,
                (high, low) => v4(high, low),
            },
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
            [0x2002, high, low, ..] => v4(high, low),
            [first, ..] if first & 0xfe00 == 0xfc00 => Self::Private,
            [first, ..] if first & 0xffc0 == 0xfe80 => Self::LinkLocal,
            [first, ..] if first & 0xffc0 == 0xfec0 => Self::Private,
            [first, ..] if first & 0xff00 == 0xff00 => Self::Reserved,
            [0x2001, 0xdb8, ..] => Self::Reserved,
            _ => Self::Public,
        }
    }
}

/// The hosts, addresses and networks of `allow_private_hosts`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedHosts {
    /// Host names in lower case.
    pub names: BTreeSet<String>,
    /// Addresses and networks.
    pub networks: Vec<IpNet>,
}

impl AllowedHosts {
    /// True when the host is listed, by name or by the network its address lies in.
    pub fn allows_host(&self, host: &str) -> bool {
        self.names.contains(host)
            || host
                .parse::<IpAddr>()
                .is_ok_and(|address| self.allows_address(address))
    }

    /// True when the address is in a listed network.
    pub fn allows_address(&self, address: IpAddr) -> bool {
        let plain = address.to_canonical();
        self.networks
            .iter()
            .any(|network| network.contains(&address) || network.contains(&plain))
    }
}

/// Which resolved addresses of one provider may be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressGuard {
    /// The provider's host is listed by name or is a listed address: any address will do.
    pub host_allowed: bool,
    /// The provider's host is this machine, so that loopback addresses will do.
    pub loopback_allowed: bool,
    /// Networks that will do for any host.
    pub networks: Vec<IpNet>,
}

impl AddressGuard {
    /// Checks an address a host name resolved to.
    ///
    /// # Errors
    ///
    /// The class of an address that must not be connected to.
    pub fn permit(&self, address: IpAddr) -> Result<(), AddressClass> {
        let class = AddressClass::of(address);
        let plain = address.to_canonical();
        let permitted = class == AddressClass::Public
            || self.host_allowed
            || (class == AddressClass::Loopback && self.loopback_allowed)
            || self
                .networks
                .iter()
                .any(|network| network.contains(&address) || network.contains(&plain));
        if permitted { Ok(()) } else { Err(class) }
    }
}
