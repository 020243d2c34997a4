//! Passwords, by HTTP's basic authentication (RFC 7617).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq as _;

/// After a wrong password, until the next is tried: a flood of them takes a tenth of a CPU.
const AFTER_WRONG: Duration = Duration::from_millis(500);

/// The hash that an unknown user is checked against, so that it takes as long; no password
/// has it.
const NOBODY: &str = "$2b$10$abcdefghijklmnopqrstuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu";

/// Passwords that were right once: bcrypt takes some 50 ms of CPU, a scrape 5 at most.
#[derive(Default)]
pub(super) struct Passwords {
    /// The hash and the password that it is of, by user.
    known: Mutex<BTreeMap<String, (String, String)>>,
    /// One is tried at a time.
    trying: Arc<tokio::sync::Mutex<()>>,
}

impl Passwords {
    /// Whether an `Authorization` header holds the password of one of these users.
    pub(super) async fn admit(
        &self,
        users: &BTreeMap<String, String>,
        authorization: Option<&[u8]>,
    ) -> bool {
        let Some((user, password)) = authorization.and_then(credentials) else { return false };
        let hash = users.get(&user);
        if hash.is_some_and(|hash| self.is_known(&user, hash, &password)) {
            return true;
        }
        let one_at_a_time = Arc::clone(&self.trying).lock_owned().await;
        let is_user = hash.is_some();
        let tried = hash.map_or(NOBODY, String::as_str).to_owned();
        let with = password.clone();
        // A task of its own: who closes the connection ends neither the wait nor the turn.
        let is_right = tokio::spawn(async move {
            let is_right = tokio::task::spawn_blocking(move || bcrypt::verify(with, &tried));
            let is_right = is_user && matches!(is_right.await, Ok(Ok(true)));
            if !is_right {
                tokio::time::sleep(AFTER_WRONG).await;
            }
            drop(one_at_a_time);
            is_right
        });
        let is_right = is_right.await.unwrap_or(false);
        if let Some(hash) = hash.filter(|_| is_right) {
            self.lock().insert(user, (hash.clone(), password));
        }
        is_right
    }

    fn is_known(&self, user: &str, hash: &str, password: &str) -> bool {
        self.lock().get(user).is_some_and(|(of, known)| {
            of == hash && bool::from(known.as_bytes().ct_eq(password.as_bytes()))
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (String, String)>> {
        self.known.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

/// `Basic dXNlcjpwYXNzd29yZA==`
fn credentials(authorization: &[u8]) -> Option<(String, String)> {
    let (scheme, encoded) = authorization.split_at_checked(6)?;
    let decoded = STANDARD.decode(encoded.trim_ascii()).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let (user, password) = decoded.split_once(':')?;
    scheme.eq_ignore_ascii_case(b"basic ").then(|| (user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_basic_or_none() {
        let of = |text: &str| credentials(text.as_bytes());
        let alice = Some(("alice".to_owned(), "a:b".to_owned()));
        assert_eq!(of("Basic YWxpY2U6YTpi"), alice);
        assert_eq!(of("basic  YWxpY2U6YTpi"), alice);
        for wrong in ["", "Basic", "Basic ", "Bearer YWxpY2U6YTpi", "Basic YWxpY2U=", "Basic /w=="]
        {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nobodys_hash_takes_as_long_as_anybodys() {
        assert_eq!(bcrypt::verify("", NOBODY).ok(), Some(false));
        assert_eq!(NOBODY.parse::<bcrypt::HashParts>().unwrap().get_cost(), 10);
    }
}
