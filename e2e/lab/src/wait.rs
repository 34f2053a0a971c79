//! Waiting for a state of the cluster, with a time limit and a message that shows what was.

use std::{fmt::Debug, future::Future, time::Duration};

use futures::StreamExt;
use kube::{Api, Resource, api::ListParams, runtime::watcher};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::{Error, Result};

/// Waits until an object exists and satisfies a condition, and returns it. `what` says the
/// condition in words.
///
/// # Errors
/// If that takes longer than `limit`; the message shows the object as last seen.
pub async fn await_condition<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    limit: Duration,
    condition: impl Fn(&K) -> bool,
) -> Result<K>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned + Send + 'static,
{
    let mut seen: Option<K> = None;
    let mut trouble = String::new();
    let watching = async {
        // Errors are not final: the API server may be away for a while.
        let mut events = std::pin::pin!(watcher::watch_object(api.clone(), name));
        loop {
            match events.next().await {
                Some(Ok(object)) => {
                    trouble.clear();
                    if let Some(object) = &object
                        && condition(object)
                    {
                        return object.clone();
                    }
                    seen = object;
                }
                Some(Err(error)) => {
                    trouble = format!("the API was out of reach: {error}");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                None => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    };
    let met = tokio::time::timeout(limit, watching).await;
    met.map_err(|_| {
        let object = seen.as_ref().map_or_else(|| format!("{name} does not exist"), yaml);
        unmet(what, limit, &[object, trouble].join("\n"))
    })
}

/// Waits until an object is gone.
///
/// # Errors
/// If that takes longer than `limit`; the message shows the object as last seen.
pub async fn await_gone<K>(api: &Api<K>, name: &str, limit: Duration) -> Result<()>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let what = format!("{name} is gone");
    await_value(&what, limit, async || match api.get_opt(name).await {
        Ok(None) => Ok(()),
        Ok(Some(object)) => Err(yaml(&object)),
        Err(error) => Err(error.to_string()),
    })
    .await
}

/// Waits until a list of objects satisfies a condition, and returns it.
///
/// # Errors
/// If that takes longer than `limit`; the message shows the list as last seen.
pub async fn await_list<K>(
    api: &Api<K>,
    selection: &ListParams,
    what: &str,
    limit: Duration,
    condition: impl Fn(&[K]) -> bool,
) -> Result<Vec<K>>
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    await_value(what, limit, async || match api.list(selection).await {
        Ok(list) if condition(&list.items) => Ok(list.items),
        Ok(list) => Err(yaml(&list.items)),
        Err(error) => Err(error.to_string()),
    })
    .await
}

/// Asks again and again until the answer is `Ok`, and returns it. An `Err` says what was seen.
///
/// # Errors
/// If that takes longer than `limit`; the message shows the last answer.
pub async fn await_value<T, F>(what: &str, limit: Duration, ask: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = std::result::Result<T, String>>,
{
    let mut seen = "nothing: the first question was not answered".to_owned();
    let asking = async {
        loop {
            match ask().await {
                Ok(value) => return value,
                Err(answer) => seen = answer,
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let met = tokio::time::timeout(limit, asking).await;
    met.map_err(|_| unmet(what, limit, &seen))
}

fn unmet(what: &str, limit: Duration, seen: &str) -> Error {
    Error::Unmet { what: what.to_owned(), limit, seen: seen.trim_end().to_owned() }
}

/// An object as YAML, without the part that nobody reads.
pub(crate) fn yaml(object: &impl Serialize) -> String {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    drop_managed_fields(&mut value);
    serde_saphyr::to_string(&value).unwrap_or_else(|_| value.to_string())
}

fn drop_managed_fields(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Array(items) => items.iter_mut().for_each(drop_managed_fields),
        serde_json::Value::Object(map) => {
            if let Some(metadata) = map.get_mut("metadata").and_then(|m| m.as_object_mut()) {
                metadata.remove("managedFields");
            }
            if let Some(items) = map.get_mut("items") {
                drop_managed_fields(items);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_limit_ends_the_wait_and_shows_what_was() {
        let limit = Duration::from_secs(5);
        let error = await_value("a thing", limit, async || Err::<(), _>("phase: Pending".into()))
            .await
            .expect_err("never met");
        let text = error.to_string();
        assert!(text.contains("a thing") && text.contains("phase: Pending"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_with_the_value() {
        let asked = std::cell::Cell::new(0);
        let value = await_value("three", Duration::from_secs(5), async || {
            asked.set(asked.get() + 1);
            if asked.get() < 3 { Err("not yet".to_owned()) } else { Ok(asked.get()) }
        })
        .await;
        assert_eq!(value.expect("met"), 3);
    }

    #[test]
    fn managed_fields_are_left_out() {
        let object =
            serde_json::json!({"items": [{"metadata": {"name": "a", "managedFields": []}}]});
        let text = yaml(&object);
        assert!(text.contains("name: a") && !text.contains("managedFields"), "{text}");
    }
}
