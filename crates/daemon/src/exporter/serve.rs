//! The metrics, and a page about them, over HTTP.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::exporter::listen::ScrapeListener;
use crate::exporter::pages::{self, ReplyPage};

/// Connections at a time, each some 25 KB; the oldest goes for the next, of those that have
/// asked for something only where all have.
pub const MOST_CONNECTIONS: usize = 128;
/// Nobody goes for the next before, as a request comes after its connection: however many
/// connect, so long is left to ask, and some 1,300 a second are taken.
const BEFORE_ASKING: Duration = Duration::from_millis(100);
/// A connection ends that has had no request for so long, or in twice that has not taken
/// its reply.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Who asks again so soon gets the same: the clock's error does not grow by more than its
/// margin is worth.
const FRESH: Duration = Duration::from_millis(500);

/// What a scrape tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrapeReply {
    /// OpenMetrics.
    pub metrics: String,
    /// The daemon's status, JSON; none where there is no daemon.
    pub status: Option<String>,
}

/// What is served beside `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedPages {
    /// Nothing: the daemon's status, with its last log lines, stays on the machine.
    MetricsOnly,
    /// `/status`, and a page that shows both, `/`.
    All,
}

/// Serves the metrics on the listener until the process ends; each scrape takes what `scrape`
/// makes.
///
/// # Errors
/// The system has no event loop.
pub fn serve(
    listener: ScrapeListener,
    pages: ServedPages,
    scrape: impl Fn() -> ScrapeReply + Send + Sync + 'static,
) -> io::Result<Infallible> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // One scrape at a time.
        .max_blocking_threads(1)
        .build()?;
    runtime.block_on(accept(listener, pages, Arc::new(scrape)))
}

type Scrape = Arc<dyn Fn() -> ScrapeReply + Send + Sync>;

/// As it is sent.
#[derive(Debug, Clone)]
struct Sent {
    metrics: Bytes,
    status: Option<Bytes>,
}

/// The last scrape, which all share who ask within [`FRESH`], or while it is made: however
/// many ask, one is made at a time.
#[derive(Debug, Default)]
struct ScrapeCache {
    wanted: Notify,
    last: watch::Sender<Option<(Instant, Sent)>>,
}

impl ScrapeCache {
    fn fresh(&self) -> Option<Sent> {
        let last = self.last.borrow();
        last.as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, sent)| sent.clone())
    }

    /// What was told last; none where it could not be gathered.
    async fn get(&self) -> Option<Sent> {
        let mut next = self.last.subscribe();
        if let Some(sent) = self.fresh() {
            return Some(sent);
        }
        self.wanted.notify_one();
        next.changed().await.ok()?;
        next.borrow().as_ref().map(|(_, sent)| sent.clone())
    }

    async fn make(&self, scrape: Scrape) {
        loop {
            self.wanted.notified().await;
            if self.fresh().is_none() {
                let scrape = Arc::clone(&scrape);
                let reply = tokio::task::spawn_blocking(move || scrape()).await.ok();
                let sent = reply.map(|ScrapeReply { metrics, status }| {
                    let sent = Sent { metrics: metrics.into(), status: status.map(Bytes::from) };
                    (Instant::now(), sent)
                });
                self.last.send_replace(sent);
            }
        }
    }
}

/// A connection, over TCP or a Unix socket.
trait ServedStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> ServedStream for S {}

enum AsyncListener {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl AsyncListener {
    fn new(listener: ScrapeListener) -> io::Result<Self> {
        Ok(match listener {
            ScrapeListener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Self::Tcp(tokio::net::TcpListener::from_std(listener)?)
            }
            ScrapeListener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Self::Unix(tokio::net::UnixListener::from_std(listener)?)
            }
        })
    }

    async fn accept(&self) -> io::Result<Box<dyn ServedStream>> {
        Ok(match self {
            Self::Tcp(listener) => Box::new(listener.accept().await?.0),
            Self::Unix(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

async fn accept(
    listener: ScrapeListener,
    pages: ServedPages,
    scrape: Scrape,
) -> io::Result<Infallible> {
    let scrapes = Arc::new(ScrapeCache::default());
    let made = Arc::clone(&scrapes);
    tokio::spawn(async move { made.make(scrape).await });
    let listener = AsyncListener::new(listener)?;
    let mut connections = VecDeque::<(AbortHandle, Arc<AtomicBool>, Instant)>::new();
    loop {
        let Ok(stream) = listener.accept().await else {
            // No descriptors, or one that went before it was taken.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        connections.retain(|(connection, ..)| !connection.is_finished());
        if connections.len() == MOST_CONNECTIONS {
            let silent = connections.iter().position(|(_, has_asked, _)| !has_asked.load(Relaxed));
            if let Some((oldest, _, at)) = connections.remove(silent.unwrap_or(0)) {
                tokio::time::sleep_until((at + BEFORE_ASKING).into()).await;
                oldest.abort();
                // It is closed before the next is taken: on a busy machine many wait.
                tokio::task::yield_now().await;
            }
        }
        let has_asked = Arc::new(AtomicBool::new(false));
        let asking = RequestContext {
            pages,
            scrapes: Arc::clone(&scrapes),
            has_asked: Arc::clone(&has_asked),
        };
        // A client that does not read its reply is left as well.
        let connection = timeout(2 * REQUEST_TIMEOUT, connection(stream, asking));
        let connection = tokio::spawn(connection).abort_handle();
        connections.push_back((connection, has_asked, Instant::now()));
    }
}

/// What a request needs.
#[derive(Clone)]
struct RequestContext {
    pages: ServedPages,
    scrapes: Arc<ScrapeCache>,
    has_asked: Arc<AtomicBool>,
}

async fn connection(stream: Box<dyn ServedStream>, asking: RequestContext) {
    let service = service_fn(move |request| reply(request, asking.clone()));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(16 * 1024)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // Who asked may have gone meanwhile.
    let _ = served.await;
}

async fn reply(
    request: Request<Incoming>,
    asking: RequestContext,
) -> Result<Response<Full<Bytes>>, Infallible> {
    asking.has_asked.store(true, Relaxed);
    let page = match ReplyPage::for_request(request.method(), request.uri().path()) {
        ReplyPage::Node | ReplyPage::Status if asking.pages == ServedPages::MetricsOnly => {
            ReplyPage::Unknown
        }
        page @ (ReplyPage::Metrics | ReplyPage::Status) => match (page, asking.scrapes.get().await)
        {
            (_, None) => ReplyPage::NotGathered,
            (ReplyPage::Metrics, Some(sent)) => return Ok(pages::metrics(sent.metrics)),
            (_, Some(sent)) => match sent.status {
                Some(status) => return Ok(pages::status(status)),
                None => ReplyPage::NoDaemon,
            },
        },
        page => page,
    };
    Ok(pages::fixed(page))
}
