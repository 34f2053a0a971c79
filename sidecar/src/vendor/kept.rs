//! Keeps the body of an answer, for fields that the SDK of this build does not know.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_braket::config::interceptors::AfterDeserializationInterceptorContextRef;
use aws_sdk_braket::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_braket::error::BoxError;

/// The body of the last answer of one call. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct KeptBody(Arc<Mutex<Vec<u8>>>);

impl KeptBody {
    /// The body; empty when there was no answer.
    pub(super) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Intercept for KeptBody {
    fn name(&self) -> &'static str {
        "KeptBody"
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // Read whole by now, since the SDK has parsed it.
        let body = context.response().body().bytes().unwrap_or_default();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = body.to_vec();
        Ok(())
    }
}
