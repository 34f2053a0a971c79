//! Filters and pages of the search operations.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::device::Device;
use super::task::Task;
use crate::error::ApiError;

/// A search request of either kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Search {
    next_token: Option<String>,
    max_results: Option<usize>,
    filters: Vec<Filter>,
}

#[derive(Debug, Clone, Deserialize)]
struct Filter {
    name: String,
    values: Vec<String>,
    operator: Option<String>,
}

impl Search {
    /// Reads and checks a request body.
    ///
    /// # Errors
    /// `ValidationException` for anything that the vendor's model does not allow.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let search: Self = serde_json::from_slice(body)
            .map_err(|problem| ApiError::validation(format!("request body: {problem}")))?;
        if search.filters.len() > 10 {
            return Err(ApiError::validation("filters: at most 10 are allowed"));
        }
        if search.max_results.is_some_and(|results| !(1..=100).contains(&results)) {
            return Err(ApiError::validation("maxResults: must be from 1 to 100"));
        }
        for filter in &search.filters {
            let pair = filter.operator.as_deref() == Some("BETWEEN");
            let fits = if pair { filter.values.len() == 2 } else { true };
            if !fits || filter.values.is_empty() || filter.values.len() > 10 {
                let name = &filter.name;
                return Err(ApiError::validation(format!("filter {name}: wrong number of values")));
            }
        }
        Ok(search)
    }

    /// Whether a task passes every filter.
    ///
    /// # Errors
    /// `ValidationException` for a filter that does not exist.
    pub fn takes_task(&self, task: &Task, now: Timestamp) -> Result<bool, ApiError> {
        for filter in &self.filters {
            let operator = filter.operator.as_deref().ok_or_else(|| {
                ApiError::validation(format!("filter {}: no operator", filter.name))
            })?;
            let passes = match filter.name.as_str() {
                "quantumTaskArn" => equal(filter, operator, &task.arn)?,
                "deviceArn" => equal(filter, operator, &task.device)?,
                "status" => equal(filter, operator, task.status(now))?,
                // Tasks of hybrid jobs are not served, so no task has one.
                "jobArn" => equal(filter, operator, "")?,
                "createdAt" => created(filter, operator, task.created)?,
                name => return Err(ApiError::validation(format!("filter {name} does not exist"))),
            };
            if !passes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a device passes every filter; only `deviceArn` is documented.
    ///
    /// # Errors
    /// `ValidationException` for a filter that does not exist.
    pub fn takes_device(&self, device: &Device) -> Result<bool, ApiError> {
        for filter in &self.filters {
            if filter.name != "deviceArn" {
                let name = &filter.name;
                return Err(ApiError::validation(format!("filter {name} does not exist")));
            }
            if !filter.values.contains(&device.arn) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Cuts one page out of all hits; `after` names the place of a hit in a token.
    ///
    /// # Errors
    /// `ValidationException` for a token that this search did not give.
    pub fn page<T>(
        &self,
        hits: Vec<T>,
        name: impl Fn(&T) -> String,
    ) -> Result<(Vec<T>, Option<String>), ApiError> {
        let start = match &self.next_token {
            None => 0,
            Some(token) => {
                hits.iter()
                    .position(|hit| name(hit) == *token)
                    .map(|index| index + 1)
                    .ok_or_else(|| ApiError::validation("nextToken: not a token of this search"))?
            }
        };
        let size = self.max_results.unwrap_or(100);
        let more = hits.len() > start + size;
        let page: Vec<T> = hits.into_iter().skip(start).take(size).collect();
        let token = page.last().filter(|_| more).map(name);
        Ok((page, token))
    }
}

fn equal(filter: &Filter, operator: &str, is: &str) -> Result<bool, ApiError> {
    if operator != "EQUAL" {
        let name = &filter.name;
        return Err(ApiError::validation(format!(
            "filter {name}: operator {operator} is not allowed"
        )));
    }
    Ok(filter.values.iter().any(|value| value == is))
}

fn created(filter: &Filter, operator: &str, is: Timestamp) -> Result<bool, ApiError> {
    let times = filter
        .values
        .iter()
        .map(|value| moment(value))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| ApiError::validation("filter createdAt: a value is not a time"))?;
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Ok(false) };
    Ok(match operator {
        "LT" => is < *first,
        "LTE" => is <= *first,
        "EQUAL" => times.contains(&is),
        "GT" => is > *first,
        "GTE" => is >= *first,
        "BETWEEN" => *first <= is && is <= *last,
        _ => return Err(ApiError::validation(format!("operator {operator} does not exist"))),
    })
}

/// A time as clients write it: with an offset, without one (then UTC), or a day.
fn moment(text: &str) -> Option<Timestamp> {
    text.parse().ok().or_else(|| {
        let time: jiff::civil::DateTime = text.parse().ok()?;
        Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    })
}

/// The answer of a search.
#[must_use]
pub fn answer(field: &str, page: Vec<Value>, token: Option<String>) -> Value {
    let mut answer = serde_json::Map::new();
    answer.insert(field.to_owned(), Value::from(page));
    if let Some(token) = token {
        answer.insert("nextToken".to_owned(), Value::from(token));
    }
    Value::Object(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(text: &str) -> Result<Search, ApiError> {
        Search::parse(text.as_bytes())
    }

    #[test]
    fn pages_follow_each_other() {
        let name = |hit: &u32| hit.to_string();
        let first = search(r#"{"filters":[],"maxResults":2}"#).unwrap();
        assert_eq!(first.page(vec![1, 2, 3], name).unwrap(), (vec![1, 2], Some("2".into())));
        let second = search(r#"{"filters":[],"maxResults":2,"nextToken":"2"}"#).unwrap();
        assert_eq!(second.page(vec![1, 2, 3], name).unwrap(), (vec![3], None));
        assert!(second.page(vec![7], name).is_err());
    }

    #[test]
    fn what_the_model_forbids_is_refused() {
        for text in [
            "{}",
            r#"{"filters":[],"maxResults":101}"#,
            r#"{"filters":[{"name":"createdAt","values":["2026"],"operator":"BETWEEN"}]}"#,
            r#"{"filters":[{"name":"createdAt","values":[],"operator":"GT"}]}"#,
        ] {
            assert_eq!(search(text).unwrap_err().code, "ValidationException", "{text}");
        }
    }

    #[test]
    fn times_compare() {
        let at = moment("2026-11-29T15:00:00Z").unwrap();
        let passes = |operator: &str, values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            let filter = Filter { name: "createdAt".into(), values, operator: None };
            created(&filter, operator, at).unwrap()
        };
        assert!(passes("GTE", &["2026-11-29T15:00:00"]));
        assert!(!passes("GT", &["2026-11-29T15:00:00+00:00"]));
        assert!(passes("LT", &["2026-11-30"]));
        assert!(passes("BETWEEN", &["2026-11-29", "2026-11-29T16:00:00Z"]));
    }
}
