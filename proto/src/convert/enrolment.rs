//! The unary calls: joining, and renewing a certificate.

use std::time::Duration;

use super::bounds::{filled, gateway, required};
use crate::error::WireError;
use crate::limits::{
    CERTIFICATE_LIFE_MAX, CERTIFICATES_BYTES_MAX, CSR_BYTES_MAX, JOIN_TOKEN_BYTES_MAX,
};
use crate::message::{EnrollRequest, IssuedCertificate, RenewCertRequest};
use crate::wire;

impl TryFrom<wire::EnrollRequest> for EnrollRequest {
    type Error = WireError;

    fn try_from(request: wire::EnrollRequest) -> Result<Self, WireError> {
        Ok(Self {
            join_token: filled(request.join_token, "join_token", JOIN_TOKEN_BYTES_MAX)?,
            gateway: gateway(request.gateway, "gateway")?,
            name: required(request.name, "name")?,
            csr: csr(request.csr)?,
        })
    }
}

impl From<EnrollRequest> for wire::EnrollRequest {
    fn from(request: EnrollRequest) -> Self {
        Self {
            join_token: request.join_token,
            gateway: request.gateway,
            name: request.name,
            csr: request.csr,
        }
    }
}

impl TryFrom<wire::RenewCertRequest> for RenewCertRequest {
    type Error = WireError;

    fn try_from(request: wire::RenewCertRequest) -> Result<Self, WireError> {
        Ok(Self {
            csr: csr(request.csr)?,
        })
    }
}

impl From<RenewCertRequest> for wire::RenewCertRequest {
    fn from(request: RenewCertRequest) -> Self {
        Self { csr: request.csr }
    }
}

impl TryFrom<wire::IssuedCertificate> for IssuedCertificate {
    type Error = WireError;

    fn try_from(issued: wire::IssuedCertificate) -> Result<Self, WireError> {
        let limit = u64::try_from(CERTIFICATE_LIFE_MAX.as_millis()).unwrap_or(u64::MAX);
        if issued.valid_for_ms > limit {
            return Err(WireError::OutOfRange {
                field: "valid_for_ms".to_owned(),
                value: issued.valid_for_ms,
                limit,
            });
        }
        Ok(Self {
            agent_id: required(issued.agent_id, "agent_id")?,
            certificate: filled(issued.certificate, "certificate", CERTIFICATES_BYTES_MAX)?,
            authorities: filled(issued.authorities, "authorities", CERTIFICATES_BYTES_MAX)?,
            valid_for: Duration::from_millis(issued.valid_for_ms),
        })
    }
}

impl From<IssuedCertificate> for wire::IssuedCertificate {
    fn from(issued: IssuedCertificate) -> Self {
        Self {
            agent_id: issued.agent_id,
            certificate: issued.certificate,
            authorities: issued.authorities,
            valid_for_ms: u64::try_from(issued.valid_for.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

fn csr(value: Vec<u8>) -> Result<Vec<u8>, WireError> {
    match value.len() {
        0 => Err(WireError::Missing {
            field: "csr".to_owned(),
        }),
        1..=CSR_BYTES_MAX => Ok(value),
        _ => Err(WireError::TooLong {
            field: "csr".to_owned(),
            limit: CSR_BYTES_MAX,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> wire::EnrollRequest {
        wire::EnrollRequest {
            join_token: "a.b.c".to_owned(),
            gateway: "edge".to_owned(),
            name: "node-1".to_owned(),
            csr: vec![0x30],
        }
    }

    #[test]
    fn requests_go_there_and_back() {
        let there = EnrollRequest::try_from(request()).unwrap();
        assert_eq!(wire::EnrollRequest::from(there), request());
        let issued = wire::IssuedCertificate {
            agent_id: "id".to_owned(),
            certificate: "pem".to_owned(),
            authorities: "pem".to_owned(),
            valid_for_ms: 86_400_000,
        };
        let there = IssuedCertificate::try_from(issued.clone()).unwrap();
        assert_eq!(wire::IssuedCertificate::from(there), issued);
    }

    #[test]
    fn what_is_missing_or_too_long_is_named() {
        let change = |change: fn(&mut wire::EnrollRequest)| {
            let mut request = request();
            change(&mut request);
            EnrollRequest::try_from(request).unwrap_err().to_string()
        };
        for (error, field) in [
            (change(|it| it.join_token.clear()), "join_token"),
            (
                change(|it| it.join_token = "x".repeat(JOIN_TOKEN_BYTES_MAX + 1)),
                "join_token",
            ),
            (change(|it| it.gateway = "a/b".to_owned()), "gateway"),
            (change(|it| it.name.clear()), "name"),
            (change(|it| it.csr.clear()), "csr"),
            (change(|it| it.csr = vec![0; CSR_BYTES_MAX + 1]), "csr"),
        ] {
            assert!(error.starts_with(&format!("{field}: ")), "{error}");
        }
    }

    #[test]
    fn no_log_shows_a_join_token() {
        let request = EnrollRequest::try_from(wire::EnrollRequest {
            join_token: "hidden".to_owned(),
            ..request()
        });
        assert!(!format!("{request:?}").contains("hidden"));
    }
}
