//! An API server that fails now and then.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

/// Every third patch fails: busy, broken, in conflict, or done but unanswered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    patches: Arc<AtomicU32>,
}

impl Faults {
    /// How many patches were tried.
    pub(crate) fn tried(&self) -> u32 {
        self.patches.load(Ordering::Relaxed)
    }
}

impl<S> Layer<S> for Faults {
    type Service = Faulty<S>;

    fn layer(&self, inner: S) -> Faulty<S> {
        Faulty { inner, patches: Arc::clone(&self.patches) }
    }
}

/// The client's service with faults.
#[derive(Debug, Clone)]
pub(crate) struct Faulty<S> {
    inner: S,
    patches: Arc<AtomicU32>,
}

impl<S, B> Service<Request<Body>> for Faulty<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.method() != Method::PATCH {
            return Box::pin(self.inner.call(request));
        }
        let number = self.patches.fetch_add(1, Ordering::Relaxed);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let fault = match number % 12 {
                0 => StatusCode::INTERNAL_SERVER_ERROR,
                3 => StatusCode::TOO_MANY_REQUESTS,
                6 => StatusCode::SERVICE_UNAVAILABLE,
                // Done, but the answer is lost.
                9 => {
                    answer.await?;
                    return Err("connection reset".into());
                }
                _ => return answer.await,
            };
            drop(answer);
            Err(format!("the server answers {fault}").into())
        })
    }
}
