//! The signatures of JSON Web Tokens, verified with ring: the one cryptography in this program.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use signature::Verifier;

static RING: CryptoProvider = CryptoProvider {
    signer_factory: no_signer,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes ring the provider of this process; the first call counts.
pub(super) fn install() {
    // Already installed is as good.
    let _ = RING.install_default();
}

struct Ring {
    algorithm: Algorithm,
    key: DecodingKey,
}

fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    if algorithm.family() != key.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(Ring {
        algorithm: *algorithm,
        key: key.clone(),
    }))
}

impl Verifier<Vec<u8>> for Ring {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match (self.key.kind(), self.algorithm) {
            (DecodingKeyKind::RsaModulusExponent { n, e }, Algorithm::RS256) => {
                RsaPublicKeyComponents { n, e }.verify(
                    &RSA_PKCS1_2048_8192_SHA256,
                    message,
                    signature,
                )
            }
            (DecodingKeyKind::SecretOrDer(point), Algorithm::ES256) => {
                by_point(&ECDSA_P256_SHA256_FIXED, point, message, signature)
            }
            (DecodingKeyKind::SecretOrDer(point), Algorithm::ES384) => {
                by_point(&ECDSA_P384_SHA384_FIXED, point, message, signature)
            }
            _ => return Err(signature::Error::new()),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Ring {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

fn by_point(
    algorithm: &'static dyn VerificationAlgorithm,
    point: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Result<(), ring::error::Unspecified> {
    UnparsedPublicKey::new(algorithm, point).verify(message, signature)
}
