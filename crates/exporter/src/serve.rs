//! The metrics over HTTP.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::exposition;

/// Connections at a time; the oldest goes for the next.
pub const MOST_CONNECTIONS: usize = 256;
/// A connection ends that has had no request for so long, or in twice that has not taken
/// its reply.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Who asks again so soon gets the same: the clock's error does not grow by more than its
/// margin is worth.
const FRESH: Duration = Duration::from_millis(500);

/// What a page about nothing says.
const ELSEWHERE: &str = "the metrics are at /metrics\n";

/// Serves `/metrics` on the listener, until the process ends; each scrape takes the text
/// that `scrape` makes.
///
/// # Errors
/// The system has no event loop.
pub fn serve(
    listener: TcpListener,
    scrape: impl Fn() -> String + Send + Sync + 'static,
) -> io::Result<Infallible> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // One scrape at a time.
        .max_blocking_threads(1)
        .build()?;
    runtime.block_on(accept(listener, Arc::new(scrape)))
}

type Scrape = Arc<dyn Fn() -> String + Send + Sync>;

/// The last scrape, which all share who ask within [`FRESH`], or while it is made: however
/// many ask, one is made at a time.
#[derive(Debug, Default)]
struct Scrapes {
    wanted: Notify,
    last: watch::Sender<Option<(Instant, Bytes)>>,
}

impl Scrapes {
    fn fresh(&self) -> Option<Bytes> {
        let last = self.last.borrow();
        last.as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, text)| text.clone())
    }

    /// The metrics; none where they could not be gathered.
    async fn get(&self) -> Option<Bytes> {
        let mut next = self.last.subscribe();
        if let Some(text) = self.fresh() {
            return Some(text);
        }
        self.wanted.notify_one();
        next.changed().await.ok()?;
        next.borrow().as_ref().map(|(_, text)| text.clone())
    }

    async fn make(&self, scrape: Scrape) {
        loop {
            self.wanted.notified().await;
            if self.fresh().is_none() {
                let scrape = Arc::clone(&scrape);
                let text = tokio::task::spawn_blocking(move || scrape()).await.ok();
                self.last.send_replace(text.map(|text| (Instant::now(), Bytes::from(text))));
            }
        }
    }
}

async fn accept(listener: TcpListener, scrape: Scrape) -> io::Result<Infallible> {
    let scrapes = Arc::new(Scrapes::default());
    let made = Arc::clone(&scrapes);
    tokio::spawn(async move { made.make(scrape).await });
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut connections = VecDeque::<AbortHandle>::with_capacity(MOST_CONNECTIONS);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptors, or one that went before it was taken.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        connections.retain(|connection| !connection.is_finished());
        if connections.len() == MOST_CONNECTIONS
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
        let scrapes = Arc::clone(&scrapes);
        let service = service_fn(move |request| reply(request, Arc::clone(&scrapes)));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_TIMEOUT)
            .max_buf_size(16 * 1024)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        // A client that does not read its reply is left as well.
        let connection = tokio::spawn(timeout(2 * REQUEST_TIMEOUT, connection));
        connections.push_back(connection.abort_handle());
    }
}

async fn reply(
    request: Request<Incoming>,
    scrapes: Arc<Scrapes>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let text = |status, text: Bytes, content_type: &'static str| {
        let mut response = Response::new(Full::new(text));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        response
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(
            StatusCode::METHOD_NOT_ALLOWED,
            Bytes::from_static(ELSEWHERE.as_bytes()),
            "text/plain",
        );
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(refused);
    }
    if request.uri().path() != "/metrics" {
        return Ok(text(
            StatusCode::NOT_FOUND,
            Bytes::from_static(ELSEWHERE.as_bytes()),
            "text/plain",
        ));
    }
    Ok(match scrapes.get().await {
        Some(metrics) => text(StatusCode::OK, metrics, exposition::CONTENT_TYPE),
        None => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            Bytes::from_static(b"the metrics could not be gathered\n"),
            "text/plain",
        ),
    })
}
