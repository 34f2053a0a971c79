//! What the two services of IBM share: tokens of IBM Cloud, words of states, the form of errors.

use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;
use sluice_shared::task::TaskState;

use crate::reading::{json, list, string};
use crate::{Answer, MESSAGE, SignIn, Token, TokenCall, quote};

/// Where tokens are bought when no variable says so.
const IAM: &str = "https://iam.cloud.ibm.com";

/// The state behind a word of the vendor, and why the job was cancelled, where the word tells.
pub(crate) fn state(word: &str) -> (TaskState, Option<String>) {
    let state = match word {
        "Queued" | "Validating" => TaskState::Queued,
        "Running" => TaskState::Running,
        "Completed" => TaskState::Completed,
        "Failed" => TaskState::Failed,
        "Cancelled" => TaskState::Cancelled,
        "Cancelled - Ran too long" => return (TaskState::Cancelled, Some("ran too long".into())),
        other => TaskState::Unknown(quote(other, 64)),
    };
    (state, None)
}

/// The vendor's words in an error.
pub(crate) fn message(answer: Answer<'_>) -> Option<String> {
    let root: Value = serde_json::from_slice(answer.body).ok()?;
    let of_list: Vec<_> = list(&root, "errors").filter_map(|one| string(one, "message")).collect();
    let text = match of_list.as_slice() {
        [] => string(&root, "message").or_else(|| string(&root, "errorMessage"))?,
        texts => texts.join("; "),
    };
    Some(quote(&text, MESSAGE))
}

/// The code of an error.
pub(crate) fn code(answer: Answer<'_>) -> Option<u64> {
    let root: Value = serde_json::from_slice(answer.body).ok()?;
    let code = list(&root, "errors").next()?.get("code")?;
    code.as_u64().or_else(|| code.as_str()?.parse().ok())
}

/// How an API key of IBM Cloud becomes a token.
pub(crate) fn sign_in(
    key: Option<String>,
    endpoint: Option<String>,
    instance: Option<String>,
    wanted: &'static str,
) -> SignIn {
    let Some(key) = key else { return SignIn::Nothing { wanted } };
    let endpoint = endpoint.unwrap_or_else(|| IAM.to_owned());
    SignIn::Token(TokenCall {
        url: format!("{}/identity/token", endpoint.trim_end_matches('/')),
        fields: vec![
            ("grant_type", SecretString::from("urn:ibm:params:oauth:grant-type:apikey")),
            ("apikey", key.into()),
        ],
        json: false,
        beside: instance.map(|crn| ("service-crn", SecretString::from(crn))).into_iter().collect(),
    })
}

/// The token of an answer.
pub(crate) fn token(answer: Answer<'_>) -> Option<Token> {
    let root = json(answer)?;
    let seconds = root.get("expires_in").and_then(Value::as_u64);
    Some(Token {
        text: string(&root, "access_token")?.into(),
        lifetime: seconds.map(Duration::from_secs),
    })
}
