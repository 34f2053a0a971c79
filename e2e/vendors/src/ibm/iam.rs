//! IBM Cloud's token service, `POST /identity/token`: an API key for an access token.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::braket::api::values;
use crate::error::ApiError;
use crate::rest::access::Access;
use crate::rest::{Answer, Request};

/// Answers a request for a token; an unknown key is answered 400, as the real service does.
pub(super) fn token(request: &Request<'_>, access: &mut Access, now: Timestamp) -> Answer {
    let form = String::from_utf8_lossy(request.body);
    let value = |name: &str| values(&form, name).into_iter().next().unwrap_or_default();
    if value("grant_type") != "urn:ibm:params:oauth:grant-type:apikey" {
        return refused("BXNIM0109E", "Property missing or empty: grant_type.");
    }
    let Some(account) = access.of_key(&value("apikey")).map(str::to_owned) else {
        return refused("BXNIM0415E", "Provided API key could not be found.");
    };
    let token = access.issue(&account, now);
    Answer::json(
        200,
        &json!({
            "access_token": token.text, "refresh_token": "not_supported", "token_type": "Bearer",
            "expires_in": token.seconds, "expiration": token.end.as_second(),
            "scope": "ibm openid",
        }),
    )
}

fn refused(code: &str, message: &str) -> Answer {
    Answer::json(400, &json!({ "errorCode": code, "errorMessage": message }))
}

/// The account of an access token.
pub(super) fn account(request: &Request<'_>, access: &Access, now: Timestamp) -> Option<String> {
    access.of_token(request.bearer()?, now).map(str::to_owned)
}

/// The refusal of a request whose token is missing, wrong or ended.
pub(super) fn unauthorized() -> ApiError {
    ApiError::new("1200", "You are not authorized to perform this action.").with_status(401)
}

/// The body of an error of IBM's quantum services.
pub(crate) fn error_body(error: &ApiError, trace: &str) -> Value {
    json!({
        "status_code": error.status,
        "title": http::StatusCode::from_u16(error.status)
            .ok()
            .and_then(|status| status.canonical_reason()),
        "trace": trace,
        "errors": [{
            "code": error.code, "message": error.message, "solution": "",
            "more_info": "https://docs.quantum.ibm.com/errors",
        }],
    })
}
