//! Service account tokens: JSON web tokens, signed with ES256 (A-200, A-201).
//!
//! Signing and checking alone; whether the account and the pod that a token names still stand is asked in [`super::authenticate`].

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Who issues the tokens, and whom they are for unless somebody else is named.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Whom it is for.
    pub aud: Vec<String>,
    /// When it ends, in seconds since 1970.
    pub exp: i64,
    /// When it was issued.
    pub iat: i64,
    /// Who issued it.
    pub iss: String,
    /// Its own id.
    pub jti: String,
    /// What it is bound to.
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: KubernetesClaims,
    /// When it begins.
    pub nbf: i64,
    /// Whom it makes its holder: `system:serviceaccount:<namespace>:<name>`.
    pub sub: String,
}

/// What a token is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubernetesClaims {
    /// The namespace.
    pub namespace: String,
    /// The node of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Bound>,
    /// The pod that it ends with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Bound>,
    /// The secret that it ends with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Bound>,
    /// The account.
    pub serviceaccount: Bound,
}

/// One object that a token is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// Signs and checks tokens.
pub struct TokenSigner {
    key: EcdsaKeyPair,
    key_id: String,
}

impl TokenSigner {
    /// A signer with a P-256 key in PKCS #8; `None` if it is no such key.
    pub fn from_pkcs8(pkcs8: &[u8]) -> Option<Self> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &SystemRandom::new()).ok()?;
        let key_id = BASE64.encode(Sha256::digest(key.public_key().as_ref()));
        Some(Self { key, key_id })
    }

    /// Signs; `None` only if the system gives no random numbers.
    pub fn sign(&self, claims: &Claims) -> Option<String> {
        let header = serde_json::json!({"alg": "ES256", "kid": self.key_id});
        let payload = serde_json::to_vec(claims).ok()?;
        let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(payload));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", BASE64.encode(signature)))
    }

    /// What a token says, if it was signed here, is for this server, and its time has come and not passed.
    pub fn verify(&self, token: &str, now: Timestamp) -> Option<Claims> {
        let claims = self.verify_signature(token)?;
        let second = now.as_second();
        let good = claims.iss == ISSUER && claims.nbf <= second && second < claims.exp;
        good.then_some(claims)
    }

    fn verify_signature(&self, token: &str) -> Option<Claims> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        // The algorithm is ours alone: what another header says is not believed.
        let header: serde_json::Value = serde_json::from_slice(&BASE64.decode(header).ok()?).ok()?;
        if header.get("alg")?.as_str()? != "ES256" {
            return None;
        }
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        key.verify(signed.as_bytes(), &BASE64.decode(signature).ok()?).ok()?;
        serde_json::from_slice(&BASE64.decode(payload).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer() -> Option<TokenSigner> {
        TokenSigner::from_pkcs8(rcgen::KeyPair::generate().ok()?.serialized_der())
    }

    fn claims() -> Claims {
        let account = Bound { name: "sa".to_owned(), uid: "u".to_owned() };
        let kubernetes =
            KubernetesClaims { namespace: "n".to_owned(), serviceaccount: account, ..KubernetesClaims::default() };
        Claims {
            aud: vec![ISSUER.to_owned()],
            exp: 200,
            iat: 100,
            iss: ISSUER.to_owned(),
            jti: "j".to_owned(),
            kubernetes,
            nbf: 100,
            sub: "system:serviceaccount:n:sa".to_owned(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap_or_default()
    }

    #[test]
    fn a_201_a_token_is_good_within_its_time() {
        let signer = signer().expect("a fresh key signs");
        let token = signer.sign(&claims()).expect("there are random numbers");
        assert_eq!(signer.verify(&token, at(150)), Some(claims()));
        assert_eq!((signer.verify(&token, at(99)), signer.verify(&token, at(200))), (None, None));
    }

    #[test]
    fn a_token_of_another_key_or_changed_or_unsigned_is_refused() {
        let signer_one = signer().expect("a fresh key signs");
        let other = signer().expect("a fresh key signs");
        let token = signer_one.sign(&claims()).expect("there are random numbers");
        assert_eq!(other.verify(&token, at(150)), None);
        let (signed, signature) = token.rsplit_once('.').expect("it has three parts");
        let payload = BASE64.encode(serde_json::json!({"sub": "admin"}).to_string());
        let header = signed.split('.').next().unwrap_or_default();
        assert_eq!(signer_one.verify(&format!("{header}.{payload}.{signature}"), at(150)), None);
        let none = BASE64.encode(r#"{"alg":"none"}"#);
        assert_eq!(signer_one.verify(&format!("{none}.{payload}."), at(150)), None);
        assert_eq!(signer_one.verify("x", at(150)), None);
    }
}
