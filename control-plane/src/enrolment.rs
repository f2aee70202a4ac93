//! Who may join: join tokens, pod tokens, the authority that signs, and a session's right to go on.

pub(crate) mod authority;
pub(crate) mod authorization;
pub(crate) mod enrol;
pub(crate) mod kubernetes;
pub(crate) mod settings;
pub(crate) mod throttle;
pub(crate) mod tls;
pub(crate) mod trust;
