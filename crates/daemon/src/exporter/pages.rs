//! What is replied at each address.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Response, StatusCode};

use crate::exporter::exposition;

/// The node's page: one file, which asks for `/metrics` and `/status` alone.
const NODE: &str = include_str!("pages/node.html");

/// What the page may: run the script and style whose hashes are here, and ask who served it.
const POLICY: &str = include_str!("pages/policy.txt");

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyPage {
    Metrics,
    Status,
    Node,
    Unknown,
    MethodRefused,
    NoDaemon,
    NotGathered,
}

impl ReplyPage {
    pub(crate) fn for_request(method: &Method, path: &str) -> Self {
        match path {
            _ if !matches!(*method, Method::GET | Method::HEAD) => Self::MethodRefused,
            "/" => Self::Node,
            "/metrics" => Self::Metrics,
            "/status" => Self::Status,
            _ => Self::Unknown,
        }
    }
}

pub(crate) fn metrics(text: Bytes) -> Response<Full<Bytes>> {
    response(StatusCode::OK, exposition::CONTENT_TYPE, text)
}

pub(crate) fn status(json: Bytes) -> Response<Full<Bytes>> {
    response(StatusCode::OK, "application/json", json)
}

/// A reply that never changes.
pub(crate) fn fixed(page: ReplyPage) -> Response<Full<Bytes>> {
    let (code, text) = match page {
        ReplyPage::Node => (StatusCode::OK, NODE),
        ReplyPage::MethodRefused => (StatusCode::METHOD_NOT_ALLOWED, "use GET or HEAD\n"),
        ReplyPage::NoDaemon => {
            (StatusCode::NOT_FOUND, "parachrond does not reply on this machine\n")
        }
        ReplyPage::NotGathered => {
            (StatusCode::INTERNAL_SERVER_ERROR, "collecting the metrics failed\n")
        }
        ReplyPage::Metrics | ReplyPage::Status | ReplyPage::Unknown => {
            (StatusCode::NOT_FOUND, "metrics: /metrics\n")
        }
    };
    let kind = if page == ReplyPage::Node { "text/html; charset=utf-8" } else { "text/plain" };
    let mut response = response(code, kind, Bytes::from_static(text.as_bytes()));
    let mut add =
        |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
    match page {
        ReplyPage::Node => add(CONTENT_SECURITY_POLICY, POLICY),
        ReplyPage::MethodRefused => add(ALLOW, "GET, HEAD"),
        _ => None,
    };
    response
}

fn response(code: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = code;
    let headers: [(HeaderName, &'static str); 4] = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest, Sha256};

    use super::*;

    fn hash_inside(open: &str, close: &str) -> String {
        let inside = NODE.split_once(open).unwrap().1.split_once(close).unwrap().0;
        format!("'sha256-{}'", STANDARD.encode(Sha256::digest(inside)))
    }

    #[test]
    fn the_page_may_do_what_its_own_script_does_and_nothing_else() {
        let policy = format!(
            "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            hash_inside("\n<script>", "</script>"),
            hash_inside("<style>", "</style>"),
        );
        if std::env::var_os("UPDATE").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/exporter/pages/policy.txt");
            return std::fs::write(path, policy).unwrap();
        }
        assert_eq!(POLICY, policy, "UPDATE=1 cargo test -p parachron-daemon the_page_may");
        let served = fixed(ReplyPage::for_request(&Method::GET, "/"));
        assert_eq!(served.headers()[CONTENT_SECURITY_POLICY], policy);
        // No attribute runs or styles anything, and texts stay texts.
        for word in ["https:", "src=", "url(", "style=", "onclick", "innerHTML", "eval("] {
            assert!(!NODE.contains(word), "{word}");
        }
    }
}
